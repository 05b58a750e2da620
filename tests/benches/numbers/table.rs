//! The table of results.

use std::fmt::Write;
use std::time::Duration;

#[derive(Default)]
pub struct Table(Vec<Row>);

struct Row {
    what: String,
    must: String,
    measured: String,
    verdict: &'static str,
}

impl Table {
    /// A row with a limit in some unit.
    pub fn at_most(&mut self, what: &str, measured: Duration, limit: Duration) {
        self.judged(
            what,
            format!("under {}", milliseconds(limit)),
            milliseconds(measured),
            measured <= limit,
        );
    }

    /// A row with a limit relative to another measurement.
    pub fn within(
        &mut self,
        what: &str,
        measured: Duration,
        against: (&str, Duration),
        limit: f64,
    ) {
        let ratio = measured.as_secs_f64() / against.1.as_secs_f64().max(1e-9);
        self.judged(
            what,
            format!("at most {} x {}", (limit * 100.0).round() / 100.0, against.0),
            format!("{} against {}: {ratio:.2} x", milliseconds(measured), milliseconds(against.1)),
            ratio <= limit,
        );
    }

    pub fn judged(&mut self, what: &str, must: String, measured: String, good: bool) {
        self.add(what, must, measured, if good { "reached" } else { "**missed**" });
    }

    /// A row for comparison only.
    pub fn plain(&mut self, what: &str, measured: String) {
        self.add(what, "–".to_owned(), measured, "");
    }

    fn add(&mut self, what: &str, must: String, measured: String, verdict: &'static str) {
        eprintln!("{what}: {measured} ({must}) {verdict}");
        self.0.push(Row { what: what.to_owned(), must, measured, verdict });
    }

    pub fn markdown(&self) -> String {
        let mut text =
            String::from("| what | must reach | measured | verdict |\n|---|---|---|---|\n");
        for Row { what, must, measured, verdict } in &self.0 {
            let _ = writeln!(text, "| {what} | {must} | {measured} | {verdict} |");
        }
        text
    }
}

pub fn milliseconds(duration: Duration) -> String {
    let milliseconds = duration.as_secs_f64() * 1e3;
    match milliseconds {
        ..10.0 => format!("{milliseconds:.2} ms"),
        ..1_000.0 => format!("{milliseconds:.0} ms"),
        _ => format!("{:.2} s", milliseconds / 1e3),
    }
}
