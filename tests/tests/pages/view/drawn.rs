//! The display during a run.

use throstle_tests::Project;
use throstle_tests::screen::Screen;

use super::long_run::{program, project, start, wait_for_training};

fn line<'a>(shown: &'a str, name: &str) -> &'a str {
    let is_wanted = |line: &&str| line.trim_start().starts_with(name);
    shown.lines().find(is_wanted).unwrap_or_else(|| panic!("no line `{name}` in\n{shown}"))
}

#[test]
fn stages_devices_training_and_money_are_shown_at_every_width() {
    let project = project();
    for columns in [120, 80, 40] {
        let screen = start(&project, columns, 40);
        wait_for_training(&screen);
        screen.wait_for("1 quarantined");
        let shown = screen.wait_for("8/9");
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest < usize::from(columns), "{widest} of {columns} columns:\n{shown}");
        assert!(line(&shown, "held").contains("8/9"), "{shown}");
        assert!(line(&shown, "model").contains("/100,000"), "{shown}");
        assert!(line(&shown, "model").contains(" left"), "{shown}");
        assert!(line(&shown, "loss ").contains('▁'), "{shown}");
        assert!(line(&shown, "learning rate").contains("0.0001"), "{shown}");
        assert!(line(&shown, "cuda:0").contains("97 %"), "{shown}");
        assert!(line(&shown, "cuda:0").contains("  33 GB of 86 GB"), "{shown}");
        assert!(line(&shown, "processor").contains(" GB"), "{shown}");
        assert!(shown.contains(" of 100000.00 spent"), "{shown}");
        assert!(shown.contains("1 quarantined"), "{shown}");
        assert_eq!(shown.contains("━━━"), columns > 40, "{shown}");
        screen.press("\u{3}");
        let (code, last) = screen.end();
        assert_eq!(code, Some(75), "{}", last.contents());
    }
}

#[test]
fn after_a_change_of_the_size_the_view_stands_there_once() {
    let project = project();
    let screen = start(&project, 120, 40);
    wait_for_training(&screen);
    for (columns, rows) in [(60, 40), (40, 20), (100, 12), (80, 30)] {
        screen.resize(columns, rows);
        let fits = |shown: &str| {
            let lines: Vec<&str> = shown.lines().collect();
            let is_whole = lines.iter().all(|line| line.chars().count() <= usize::from(columns));
            is_whole && shown.contains("spent") && shown.matches("loss ").count() == 1
        };
        let shown = screen.wait_until("the view in its new size", fits);
        assert_eq!(shown.matches("loss ").count(), 1, "{shown}");
    }
    assert!(!screen.picture().alternate_screen());
}

#[test]
fn stages_that_came_to_their_end_are_lines_above() {
    let project = project();
    let screen = start(&project, 80, 40);
    screen.wait_for("checked: done, 9 executed, 1 quarantined");
    screen.wait_for("8/9");
    project.write("go", "");
    let shown = screen.wait_for("held: done, 9 executed");
    let (_, view) = shown.split_once("held: done").unwrap();
    assert!(view.contains("model ") && !view.contains("held "), "{shown}");
    let cursor = screen.picture().cursor_position();
    let rows: Vec<&str> = shown.lines().collect();
    assert_eq!(cursor.1, 0, "{cursor:?}");
    assert_eq!(rows[usize::from(cursor.0)], "", "it rests on the empty line above the view");
}

#[test]
fn without_colours_every_cell_has_that_of_the_terminal() {
    let project = project();
    let mut command = program(&project, &[]);
    command.env("NO_COLOR", "1");
    let screen = Screen::start(command, 80, 40);
    wait_for_training(&screen);
    let picture = screen.picture();
    let cells = (0..40).flat_map(|row| (0..80).map(move |column| (row, column)));
    let mut cells = cells.filter_map(|(row, column)| picture.cell(row, column));
    assert!(cells.all(|cell| cell.fgcolor() == vt100::Color::Default && !cell.bold()));
}

#[test]
fn a_terminal_that_cannot_be_drawn_on_gets_lines() {
    let project = project();
    let mut command = program(&project, &["held"]);
    command.env("TERM", "dumb");
    project.write("go", "");
    let (code, last) = Screen::start(command, 100, 40).end();
    let shown = last.contents();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("held: started, 9 items"), "{shown}");
}

#[test]
fn of_a_run_that_is_over_in_a_moment_nothing_is_drawn() {
    let project = Project::new(
        "[pipeline]\nname = \"short\"\n[stage.lines]\nuse = \"test.lines\"\nfolder = \"data\"\n",
    );
    project.write("data/a.txt", "a");
    let run = || Screen::start(program(&project, &[]), 80, 10).end().1.contents();
    for last in ["lines: done, 1 executed", "nothing to do: 1 reused"] {
        let shown = run();
        assert!(shown.contains(last) && !shown.contains("of 1 stages"), "{shown}");
    }
}
