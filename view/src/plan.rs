//! A plan as text: a line per stage, with its reasons below.

use std::collections::BTreeMap;
use std::fmt::Write;

use engine::event::{PlannedStage, Verdict};
use engine::units;

use super::escape::{clean, width};
use super::paint::Paint;

/// The number of listed reasons of a stage; the rest is counted.
const REASONS: usize = 8;
/// Shorter estimates, in seconds, are left out.
const WORTH_TELLING: f64 = 0.1;

/// The plan of the stages in the order of the pipeline.
pub struct PlanText<'a> {
    pub order: &'a [String],
    pub stages: &'a BTreeMap<String, PlannedStage>,
    pub paint: Paint,
}

impl PlanText<'_> {
    pub fn render(&self) -> String {
        let mut text = String::new();
        let columns = self.order.iter().map(|name| width(&clean(name))).max().unwrap_or(0);
        // Beside a name that takes half of the terminal there is no room for columns.
        let columns = columns.min(self.paint.columns.map_or(columns, |all| all / 2));
        for name in self.order {
            let Some(stage) = self.stages.get(name) else { continue };
            let name = clean(name);
            let padding = " ".repeat(columns.saturating_sub(width(&name)));
            let verdict = self.paint.verdict(stage.verdict);
            let line = format!("{name}{padding}  {verdict}{}", counts(stage));
            let _ = writeln!(text, "{}", self.paint.fold(&line, 6));
            if let Some(values) = &stage.trial {
                self.reason(&clean(values), &mut text);
            }
            self.reasons(stage, &mut text);
        }
        text.push_str(&self.total());
        text
    }

    fn reasons(&self, stage: &PlannedStage, text: &mut String) {
        for reason in stage.reasons.iter().take(REASONS) {
            self.reason(&clean(reason), text);
        }
        if let more @ 1.. = stage.reasons.len().saturating_sub(REASONS) {
            self.reason(&format!("and {more} more reasons"), text);
        }
    }

    fn reason(&self, reason: &str, text: &mut String) {
        let folded = self.paint.fold(&format!("    {reason}"), 6);
        let lines = folded.lines().map(|line| {
            let reason = line.trim_start();
            format!("{}{}\n", &line[..line.len() - reason.len()], self.paint.faint(reason))
        });
        text.extend(lines);
    }

    fn total(&self) -> String {
        let stages = || self.order.iter().filter_map(|name| self.stages.get(name));
        let open = stages().filter(|stage| stage.verdict.may_have_work()).count();
        if open == 0 {
            return "nothing to do\n".into();
        }
        let have = if open == 1 { "has" } else { "have" };
        format!("\n{open} of {} stages {have} work\n", stages().count())
    }
}

/// The counts that are not zero.
fn counts(stage: &PlannedStage) -> String {
    let mut parts = Vec::new();
    if stage.executed > 0 {
        let at_most = if stage.verdict == Verdict::Unknown { "at most " } else { "" };
        parts.push(format!("{at_most}{} to execute", units::count(stage.executed)));
    }
    if stage.reused > 0 {
        parts.push(format!("{} to reuse", units::count(stage.reused)));
    }
    if stage.quarantined > 0 {
        parts.push(format!("{} quarantined", units::count(stage.quarantined)));
    }
    if stage.seconds >= WORTH_TELLING {
        parts.push(format!("about {}", units::seconds(stage.seconds)));
    }
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(verdict: Verdict, executed: u64, reused: u64, reasons: &[&str]) -> PlannedStage {
        let reasons = reasons.iter().map(ToString::to_string).collect();
        PlannedStage {
            verdict,
            reasons,
            executed,
            reused,
            quarantined: 0,
            seconds: executed as f64,
            trial: None,
        }
    }

    fn render(stages: &[(&str, PlannedStage)]) -> String {
        let order: Vec<String> = stages.iter().map(|(name, _)| name.to_string()).collect();
        let stages = stages.iter().map(|(name, stage)| (name.to_string(), stage.clone())).collect();
        let paint = Paint::default();
        PlanText { order: &order, stages: &stages, paint }.render()
    }

    #[test]
    fn a_plan_says_what_why_and_how_long() {
        let text = render(&[
            ("clips", stage(Verdict::Fresh, 0, 30, &[])),
            ("voice", stage(Verdict::Dirty, 3, 27, &["parameter `rate` changed from 1 to 2"])),
            ("tokens", stage(Verdict::Unknown, 30, 0, &["waits for voice", "odd \u{1b}[2J id"])),
        ]);
        insta::assert_snapshot!(text, @r"
        clips   fresh: 30 to reuse
        voice   dirty: 3 to execute, 27 to reuse, about 3.00 s
            parameter `rate` changed from 1 to 2
        tokens  unknown: at most 30 to execute, about 30.0 s
            waits for voice
            odd \u{1b}[2J id

        2 of 3 stages have work
        ");
    }

    #[test]
    fn a_plan_with_nothing_to_do_says_so() {
        let text = render(&[("clips", stage(Verdict::Fresh, 0, 30, &[]))]);
        assert_eq!(text, "clips  fresh: 30 to reuse\nnothing to do\n");
    }

    #[test]
    fn only_the_first_reasons_are_listed() {
        let reasons: Vec<String> = (0..20).map(|number| format!("reason {number}")).collect();
        let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
        let text = render(&[("clips", stage(Verdict::Dirty, 0, 0, &reasons))]);
        assert!(text.contains("reason 7") && !text.contains("reason 8"), "{text}");
        assert!(text.contains("and 12 more reasons"), "{text}");
    }
}
