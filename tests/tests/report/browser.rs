//! The page in a real browser. Its pictures are left in the `tmp` folder of the build.

use std::path::Path;

use serde_json::json;
use throstle_tests::browser::{Browser, Look};

use crate::page::{done, report};

const WIDE: Look = Look { width: 1280, height: 900, dark: false };
const DARK: Look = Look { dark: true, ..WIDE };
const NARROW: Look = Look { width: 390, height: 844, dark: false };

fn open(clips: usize) -> Browser {
    let project = done(clips);
    let page = report(&project, &[]);
    keep(&format!("{clips}-clips.html"), page.as_bytes());
    let mut browser = Browser::open(&project.file("report.html"));
    browser.look(WIDE);
    browser
}

fn keep(name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), bytes).unwrap();
}

#[test]
fn the_page_complains_of_nothing_and_wants_no_network() {
    let mut browser = open(12);
    let buttons = "document.querySelectorAll('button').forEach(button => button.click())";
    browser.evaluate(buttons);
    browser.evaluate("new Promise(done => setTimeout(done, 300))");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn every_player_plays() {
    let mut browser = open(12);
    let players = browser.evaluate("document.querySelectorAll('.player').length");
    assert!(players.as_u64().unwrap() > 10, "{players}");
    let silent = browser.evaluate(
        "(async () => {
            const silent = [];
            for (const player of document.querySelectorAll('.player')) {
                const sound = document.getElementById(player.dataset.sound);
                const plays = () => player.classList.contains('playing') && sound.currentTime > 0;
                player.querySelector('button').click();
                for (let waited = 0; !plays() && waited < 4000; waited += 1) {
                    await new Promise(done => setTimeout(done, 5));
                }
                if (!plays()) silent.push(player.dataset.sound);
            }
            return silent;
        })()",
    );
    assert_eq!(silent, json!([]));
    let sounding = "[...document.querySelectorAll('audio')].filter(sound => !sound.paused).length";
    assert_eq!(browser.evaluate(sounding), 1, "one sounds at a time");
}

#[test]
fn a_table_is_sorted_by_the_heading_that_is_clicked() {
    let mut browser = open(40);
    let column = "[...document.querySelectorAll('#run table.sortable tbody tr')]
        .map(row => row.cells[0].textContent)";
    let given = browser.evaluate(column);
    let click = "document.querySelector('#run table.sortable th button').click()";
    browser.evaluate(click);
    let rising = browser.evaluate(column);
    browser.evaluate(click);
    let falling = browser.evaluate(column);
    let names =
        |rows: &serde_json::Value| -> Vec<String> { serde_json::from_value(rows.clone()).unwrap() };
    let mut sorted = names(&given);
    sorted.sort();
    assert_eq!(names(&rising), sorted);
    sorted.reverse();
    assert_eq!(names(&falling), sorted);
    let sort = "document.querySelector('#run table.sortable th').getAttribute('aria-sort')";
    assert_eq!(browser.evaluate(sort), "descending");
    let numbers = "(() => {
        const table = document.querySelector('#data table.sortable');
        table.querySelectorAll('th button')[2].click();
        return [...table.tBodies[0].rows].map(row => Number(row.cells[2].dataset.order));
    })()";
    let numbers: Vec<f64> = serde_json::from_value(browser.evaluate(numbers)).unwrap();
    assert!(numbers.len() > 3 && numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn the_theme_is_that_of_the_system_until_another_is_chosen() {
    let mut browser = open(3);
    let brightness = "(() => {
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
        canvas.fillRect(0, 0, 1, 1);
        return canvas.getImageData(0, 0, 1, 1).data[0];
    })()";
    let is_light = |browser: &mut Browser| browser.evaluate(brightness).as_u64().unwrap() > 128;
    assert!(is_light(&mut browser));
    browser.look(DARK);
    assert!(!is_light(&mut browser));
    browser.evaluate("document.getElementById('theme').click()");
    assert!(is_light(&mut browser), "light was chosen");
}

#[test]
fn whoever_does_not_see_it_is_told_what_everything_is() {
    let mut browser = open(12);
    let unnamed = browser.evaluate(
        "[...document.querySelectorAll('button, [role=img], [role=region], section, table')]
            .filter(element => !(element.ariaLabel || element.textContent.trim()))
            .map(element => element.outerHTML.slice(0, 200))",
    );
    assert_eq!(unnamed, json!([]));
    let ids = "(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
        return ids.filter((id, at) => ids.indexOf(id) !== at); })()";
    assert_eq!(browser.evaluate(ids), json!([]), "no two elements have one name");
    let levels = "[...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))";
    let levels: Vec<u8> = serde_json::from_value(browser.evaluate(levels)).unwrap();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
}

/// The contrast ratio required by WCAG 2.2, section 1.4.3, by its formula.
#[test]
fn text_stands_out_from_its_ground_in_both_themes() {
    let mut browser = open(12);
    let faint = "(() => {
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const light = (colour) => {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => {
                value /= 255;
                return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        };
        const ground = (element) => {
            const colour = getComputedStyle(element).backgroundColor;
            return colour === 'rgba(0, 0, 0, 0)' ? ground(element.parentElement) : colour;
        };
        const faint = (element) => {
            const lights = [getComputedStyle(element).color, ground(element)].map(light);
            return (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05) < 4.5;
        };
        const told = [...document.querySelectorAll('main *, nav *, footer *')].filter((element) =>
            element instanceof HTMLElement && [...element.childNodes].some((node) =>
                node.nodeType === Node.TEXT_NODE && node.textContent.trim()));
        return told.filter(faint).map((element) => element.outerHTML.slice(0, 120));
    })()";
    for look in [WIDE, DARK] {
        browser.look(look);
        assert_eq!(browser.evaluate(faint), json!([]), "dark: {}", look.dark);
    }
}

#[test]
fn a_narrow_screen_is_not_scrolled_sideways() {
    let mut browser = open(12);
    browser.look(NARROW);
    let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    keep("narrow.png", &browser.screenshot());
    assert_eq!(browser.evaluate(overflow), 0);
}

#[test]
fn it_is_printed_whole_and_in_light() {
    let mut browser = open(40);
    browser.look(DARK);
    keep("dark.png", &browser.screenshot());
    let printed = browser.print();
    keep("printed.pdf", &printed);
    assert!(printed.starts_with(b"%PDF"));
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    let hidden =
        "[...document.querySelectorAll('tbody tr')].filter(row => !row.offsetHeight).length";
    assert_eq!(browser.evaluate(hidden), 0, "every row is printed");
    browser.look(WIDE);
    keep("light.png", &browser.screenshot());
}
