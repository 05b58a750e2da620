//! Pictures of the display, light, dark and narrow, taken by the browser of the report tests. They
//! are left in the `tmp/view` folder of the build.

use std::path::Path;

use throstle_tests::Project;
use throstle_tests::browser::{Browser, Look};
use throstle_tests::picture::{DARK, LIGHT, Palette};
use throstle_tests::screen::Screen;

use super::long_run::{HELD, project, start, wait_for_training};

/// The long run with realistic names, numbers and prices.
fn voice() -> Project {
    let project = project();
    for (old, new) in [
        // Every item is separate work.
        (
            "fields = [\"speaker\"]\ncommand = \"case {speaker} in h",
            "fields = [\"speaker\", \"body\"]\ncommand = \"case {speaker} in h",
        ),
        ("lines", "clips"),
        ("use = \"test.clips\"", "use = \"test.lines\""),
        ("held", "tokens"),
        ("model", "trained"),
        ("joined", "summary"),
        (HELD, "sleep 0.1"),
        ("price_per_hour = 3600.0", "price_per_hour = 1.2\nstop_after = \"11h30m\""),
        ("100000.0", "5.0"),
        ("steps = 100000", "steps = 1200"),
    ] {
        project.replace("pipeline.toml", old, new);
    }
    for number in 0..200 {
        project.write(&format!("data/clip_{number:03}.txt"), number.to_string());
    }
    project
}

/// Waits until a part of everything is done.
fn wait_for_more(screen: &Screen) {
    wait_for_training(screen);
    let is_more = |shown: &str| shown.matches('▁').count() > 3 && !shown.contains("/1 ");
    screen.wait_until("more of the curve", is_more);
    let is_half = |shown: &str| (90..209).any(|done| shown.contains(&format!(" {done}/209 ")));
    screen.wait_until("half of the tokens", is_half);
}

fn keep(name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("view");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), bytes).unwrap();
    folder.join(name)
}

fn take(browser: &mut Browser, name: &str, palette: &Palette, screen: &vt100::Screen) {
    let page = keep(&format!("{name}.html"), palette.page(screen).as_bytes());
    browser.visit(&page);
    let size = |what: &str| format!("Math.ceil(document.body.getBoundingClientRect().{what})");
    let mut side = |what| browser.evaluate(&size(what)).as_u64().unwrap() as u32;
    let (width, height) = (side("width"), side("height"));
    browser.look(Look { width, height, dark: false });
    keep(&format!("{name}.png"), &browser.screenshot());
    let lines = browser.evaluate("document.querySelector('pre').innerText");
    let lines: Vec<&str> = lines.as_str().unwrap().lines().map(str::trim_end).collect();
    let shown = screen.rows(0, screen.size().1.get()).map(|row| row.trim_end().to_owned());
    let shown: Vec<String> = shown.collect();
    assert_eq!(lines.join("\n").trim_end(), shown.join("\n").trim_end(), "not the screen");
}

#[test]
fn the_view_is_pictured_light_dark_and_narrow() {
    let mut browser = Browser::new();
    for (columns, names) in
        [(100, [("light", &LIGHT), ("dark", &DARK)].as_slice()), (40, &[("narrow", &LIGHT)])]
    {
        let project = voice();
        let screen = start(&project, columns, 24);
        wait_for_more(&screen);
        let picture = screen.picture();
        for (name, palette) in names {
            take(&mut browser, name, palette, &picture);
        }
    }
}
