//! The course of a training as text: its steps, its clips, and the events between steps.

use engine::estimate::ExpectedCourse;
use engine::units;
use stage_core::course::{ClipCounts, Course, Timetable};

/// `81 steps of 8 rows, 27 per pass: 3 passes over 3,920 clips, 80 held out, 0 left out; warm-up 5
/// steps, validation every 5, checkpoint every 9`.
pub fn course(course: &Course) -> String {
    let steps = units::counted(course.timetable.steps, "step");
    format!("{steps}{}; {}", shape(course), between(&course.timetable))
}

/// The same for a plan, with the bounds of the steps.
pub fn expected(expected: &ExpectedCourse) -> String {
    let count = |steps: f64| units::count(steps.round().max(0.0) as u64);
    let bounds = expected.bounds;
    let bounds = if bounds.low < bounds.high {
        format!(" ({} to {})", count(bounds.low), count(bounds.high))
    } else {
        String::new()
    };
    let course = &expected.course;
    let steps = units::counted(course.timetable.steps, "step");
    format!("{steps}{bounds}{}; {}", shape(course), between(&course.timetable))
}

fn shape(course: &Course) -> String {
    let rows = units::counted(course.rows_of_step, "row");
    if course.rows_of_pass <= 0.0 {
        return format!(" of {rows}");
    }
    let ClipCounts { used, held_out, left_out } = course.clips;
    format!(
        " of {rows}, {} per pass: {} over {}, {} held out, {} left out",
        decimal(course.steps_of_pass()),
        passes(course.passes()),
        units::counted(used, "clip"),
        units::count(held_out),
        units::count(left_out),
    )
}

fn between(table: &Timetable) -> String {
    let warm_up = match table.warm_up {
        0 => "no warm-up".to_owned(),
        steps => format!("warm-up {}", units::counted(steps, "step")),
    };
    let save = match table.save_every {
        0 => "checkpoints by time".to_owned(),
        every => format!("checkpoint every {}", units::count(every)),
    };
    let patience = match table.patience {
        0 => String::new(),
        patience => format!(", patience {}", units::counted(patience, "validation")),
    };
    let validation = units::count(table.validate_every);
    format!("{warm_up}, validation every {validation}{patience}, {save}")
}

fn passes(passes: f64) -> String {
    match decimal(passes).as_str() {
        "1" => "1 pass".to_owned(),
        passes => format!("{passes} passes"),
    }
}

/// One decimal place if the number is small and not whole.
fn decimal(number: f64) -> String {
    match number {
        small if small < 10.0 && (small * 10.0).round() % 10.0 != 0.0 => format!("{small:.1}"),
        large => units::count(large.round().max(0.0) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::estimate::Figure;

    fn begun() -> Course {
        let timetable = Timetable {
            steps: 1_620,
            warm_up: 81,
            validate_every: 65,
            save_every: 162,
            patience: 5,
        };
        let clips = ClipCounts { used: 3_920, held_out: 80, left_out: 3 };
        Course { timetable, rows_of_step: 8, rows_of_pass: 216.0, clips }
    }

    #[test]
    fn a_training_is_told_in_steps_rows_passes_and_clips() {
        assert_eq!(
            course(&begun()),
            "1,620 steps of 8 rows, 27 per pass: 60 passes over 3,920 clips, 80 held out, 3 left \
             out; warm-up 81 steps, validation every 65, patience 5 validations, checkpoint every \
             162"
        );
    }

    #[test]
    fn a_plan_has_bounds_and_what_is_not_known_is_not_told() {
        let timetable = Timetable { steps: 1, validate_every: 100, ..Timetable::default() };
        let course = Course { timetable, rows_of_step: 1, ..Course::default() };
        let exact = ExpectedCourse {
            bounds: Figure::exact(1.0),
            steps_of_pass: 0.0,
            passes: 0.0,
            course,
            idle: Vec::new(),
            is_certain: true,
        };
        let told = "1 step of 1 row; no warm-up, validation every 100, checkpoints by time";
        assert_eq!(expected(&exact), told);
        let bounds = Figure { low: 1_350.0, likely: 1_620.0, high: 1_944.0 };
        let wide = ExpectedCourse { bounds, course: begun(), ..exact };
        assert!(expected(&wide).starts_with("1,620 steps (1,350 to 1,944) of 8 rows, 27 per pass"));
    }
}
