//! For any end of a run, the terminal is restored, with the printed lines in it.

use throstle_tests::Project;
use throstle_tests::screen::Screen;

use super::long_run::{program, project, start, wait_for_training};

/// Nothing of the display is left, and no mode of the terminal is changed.
fn assert_restored(last: &vt100::Screen) {
    let shown = last.contents();
    for drawn in ["busy", "spent", "━", "▁"] {
        assert!(!shown.contains(drawn), "`{drawn}` is left:\n{shown}");
    }
    assert!(!last.hide_cursor() && !last.alternate_screen() && !last.application_cursor());
    assert_eq!((last.fgcolor(), last.bold()), (vt100::Color::Default, false));
    let (row, column) = last.cursor_position();
    assert_eq!(column, 0, "the next prompt begins a line:\n{shown}");
    // A long line takes several rows.
    let (_, columns) = last.size();
    let used = last.rows(0, columns.get()).enumerate().filter(|(_, text)| !text.trim().is_empty());
    let below = used.last().map_or(0, |(row, _)| row + 1);
    assert_eq!(usize::from(row), below, "right below it:\n{shown}");
}

#[test]
fn ctrl_c_saves_and_leaves_a_summary() {
    let project = project();
    let screen = start(&project, 120, 40);
    wait_for_training(&screen);
    screen.press("\u{3}");
    let (code, last) = screen.end();
    let shown = last.contents();
    assert_eq!(code, Some(75), "{shown}");
    assert!(shown.contains("stopping: received a signal"), "{shown}");
    assert!(shown.contains("finished work is kept: run again to continue"), "{shown}");
    assert!(shown.contains("left to do: "), "{shown}");
    assert_restored(&last);
}

#[test]
fn ctrl_c_twice_takes_the_view_away_as_well() {
    let project = Project::new(
        "[pipeline]\nname = \"deaf\"\n[stage.lines]\nuse = \"test.lines\"\nfolder = \"data\"\n\
         [stage.loud]\nuse = \"test.shout\"\ninput = \"lines\"\n",
    );
    project.write("data/one.txt", "deaf");
    let screen = Screen::start(program(&project, &[]), 80, 40);
    screen.wait_for("of 2 stages");
    screen.press("\u{3}");
    screen.wait_for("press Ctrl-C again to quit now");
    screen.press("\u{3}");
    let (code, last) = screen.end();
    assert_eq!(code, Some(75), "{}", last.contents());
    assert!(!last.contents().contains("of 2 stages"), "{}", last.contents());
    assert_eq!(last.cursor_position().1, 0);
}

#[test]
fn a_stage_that_fails_is_told_below_what_was_done() {
    let project = project();
    project.replace("pipeline.toml", "sleep 0.02; done", "sleep 0.02; done; exit 3");
    project.replace("pipeline.toml", "[stage.held]", "[stage.held]\nquarantine = 0");
    // Running work is finished when a stage fails.
    project.replace("pipeline.toml", "steps = 100000", "steps = 400");
    let screen = start(&project, 120, 40);
    screen.wait_for("8/9");
    project.write("go", "");
    let (code, last) = screen.end();
    let shown = last.contents();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("held: failed: "), "{shown}");
    assert!(shown.contains("failed in held after "), "{shown}");
    assert_restored(&last);
}

#[test]
fn a_stage_that_ends_the_program_takes_the_view_along() {
    let project = project();
    project.replace("pipeline.toml", "[stage.model]\nuse = \"test.train\"\ninput = \"lines\"",
        "[stage.bad]\nuse = \"test.unruly\"\ninput = \"held\"\n\n[stage.model]\nuse = \"test.train\"\ninput = \"lines\"");
    project.write("data/h.txt", "exit");
    let screen = start(&project, 100, 40);
    wait_for_training(&screen);
    project.write("go", "");
    let (code, last) = screen.end();
    assert_eq!(code, Some(1), "{}", last.contents());
    assert!(last.contents().contains("a stage ended the program"), "{}", last.contents());
    assert_restored(&last);
}
