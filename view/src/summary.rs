//! The closing text of a run, collected from its events.

use std::collections::BTreeMap;
use std::fmt::Write;

use engine::estimate::{Figure, StageEstimate};
use engine::event::{Event, StageCounts, Status};
use engine::units;

use super::escape::clean;
use super::estimate::{Shown, band, likely};
use super::notes::note_texts;
use super::paint::Paint;
use super::table::Table;

/// The number of quarantined items that are named; `throstle items` lists all.
const MAX_NAMED_ITEMS: usize = 5;
/// The number of kinds of notes that are shown for a stage.
const NOTES: usize = 4;

#[derive(Default)]
pub struct Summary {
    order: Vec<String>,
    /// Every note is told.
    is_whole: bool,
    quarantined: Vec<QuarantineLine>,
    /// The number beyond those that are named.
    more: u64,
    failed: Vec<String>,
    notes: BTreeMap<String, BTreeMap<String, u64>>,
    /// Stages with the numbers of exported files that were written and removed.
    exports: Vec<(String, u64, u64)>,
    /// The stages with exported files of earlier runs.
    outdated: Vec<String>,
    run: u64,
    expected: BTreeMap<String, Figure>,
    /// The time of stages in terms of the estimate.
    taken: BTreeMap<String, f64>,
    expected_seconds: Option<Figure>,
}

/// A stage with its counts.
type Counted<'a> = (&'a String, &'a StageCounts);

struct QuarantineLine {
    stage: String,
    item: String,
    reason: String,
}

impl Summary {
    /// With all notes.
    pub fn whole() -> Summary {
        Summary { is_whole: true, ..Summary::default() }
    }

    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::Started { run, stages, .. } => {
                self.run = *run;
                self.order = stages.clone();
            }
            Event::Estimated { stages, seconds } => {
                let known =
                    |(name, stage): (&String, &StageEstimate)| Some((name.clone(), stage.seconds?));
                self.expected = stages.iter().filter_map(known).collect();
                let is_known = stages.values().all(|stage| stage.seconds.is_some());
                self.expected_seconds = is_known.then_some(*seconds);
            }
            Event::Measured { stage, seconds, .. } => {
                self.taken.insert(stage.clone(), *seconds);
            }
            Event::ItemQuarantined { stage, item, reason, .. } => {
                let (stage, item, reason) = (stage.clone(), item.clone(), reason.clone());
                self.name(QuarantineLine { stage, item, reason });
            }
            Event::StageFinished { stage, notes, .. } if !notes.is_empty() => {
                self.notes.insert(stage.clone(), notes.clone());
            }
            Event::StageFailed { stage, .. } => self.failed.push(stage.clone()),
            Event::Exported { stage, outdated: 1.., .. } => self.outdated.push(stage.clone()),
            Event::Exported { stage, written, removed, .. } if written + removed > 0 => {
                self.exports.push((stage.clone(), *written, *removed));
            }
            _ => {}
        }
    }

    /// Keeps the first items, but at least one of each stage as far as there is room.
    fn name(&mut self, new: QuarantineLine) {
        if self.quarantined.len() == MAX_NAMED_ITEMS {
            self.more += 1;
            let of = |stage: &str| self.quarantined.iter().filter(|one| one.stage == stage).count();
            let spare = self.quarantined.iter().rposition(|one| of(&one.stage) > 1);
            match spare.filter(|_| of(&new.stage) == 0) {
                Some(spare) => drop(self.quarantined.remove(spare)),
                None => return,
            }
        }
        self.quarantined.push(new);
    }

    /// The counts of a stage. Their time is that with all threads to itself, as in estimates, in
    /// place of the sum over all threads.
    pub fn shared_out(&self, stage: &str, counts: &StageCounts) -> StageCounts {
        StageCounts { seconds: *self.taken.get(stage).unwrap_or(&counts.seconds), ..*counts }
    }

    /// The closing text, for the fields of the event `Finished`.
    pub fn render(
        &self,
        status: Status,
        stages: &BTreeMap<String, StageCounts>,
        seconds: f64,
        paint: Paint,
    ) -> String {
        let mut text = String::new();
        let executed: u64 = stages.values().map(|counts| counts.executed).sum();
        if executed > 0 || status != Status::Done {
            text.push_str(&self.table(stages, paint));
        }
        self.write_notes(&mut text, paint);
        self.write_quarantined(stages, &mut text, paint);
        let total = units::seconds(seconds);
        let reused: u64 = stages.values().map(|counts| counts.reused).sum();
        let line = match status {
            Status::Done if executed == 0 => {
                format!("{}: {} reused, {total}", paint.good("nothing to do"), units::count(reused))
            }
            Status::Done => {
                let expected = self.expected_seconds.map_or_else(String::new, |expected| {
                    format!("; expected: {}", band(expected, units::seconds))
                });
                format!("{} in {total}{expected}", paint.good("done"))
            }
            Status::Failed if self.failed.is_empty() => {
                format!("{} after {total}", paint.bad("failed"))
            }
            Status::Failed => {
                let failed = clean(&self.failed.join(", ")).into_owned();
                format!("{} in {failed} after {total}; finished work is kept", paint.bad("failed"))
            }
            Status::Paused => format!(
                "{} after {total}; finished work is kept: run again to continue",
                paint.warning("stopped")
            ),
        };
        let _ = writeln!(text, "{}", paint.fold(&line, 2));
        text
    }

    /// The stages that did something, and one line for the others.
    fn table(&self, stages: &BTreeMap<String, StageCounts>, paint: Paint) -> String {
        let listed = self.order.iter().filter_map(|name| stages.get_key_value(name));
        let others = stages.iter().filter(|(name, _)| !self.order.contains(name));
        let (worked, rested): (Vec<Counted>, Vec<Counted>) =
            listed.chain(others).partition(|(name, counts)| self.did_something(name, counts));
        let mut text = String::new();
        if !worked.is_empty() {
            let whole = self.executed_table(&worked, band);
            let is_wide = |columns| whole.is_wider_than(columns);
            text = if paint.columns.is_some_and(is_wide) {
                // The bounds stand in the last line, for all stages together.
                self.executed_table(&worked, likely).render(paint.columns)
            } else {
                whole.render(None)
            };
        }
        if !rested.is_empty() {
            let _ = writeln!(text, "{}", paint.fold(&others_in_words(&worked, &rested), 2));
        }
        text
    }

    fn did_something(&self, name: &String, counts: &StageCounts) -> bool {
        counts.executed > 0 || self.failed.contains(name)
    }

    fn executed_table(&self, worked: &[Counted], shown: Shown) -> Table {
        let expected = |name: &str| {
            self.taken.get(name)?;
            self.expected.get(name)
        };
        let has = |column: fn(&StageCounts) -> u64| worked.iter().any(|(_, c)| column(c) > 0);
        let columns: [(&str, bool); 6] = [
            ("stage", true),
            (">executed", true),
            (">reused", has(|counts| counts.reused)),
            (">quarantined", has(|counts| counts.quarantined)),
            (">time", true),
            (">expected", worked.iter().any(|(name, _)| expected(name).is_some())),
        ];
        let headings =
            columns.iter().filter(|(_, is_shown)| *is_shown).map(|(heading, _)| *heading);
        let headings: Vec<&str> = headings.collect();
        let mut table = Table::new(&headings).spare(["expected", "reused", "quarantined"]);
        for (name, counts) in worked {
            let taken = self.shared_out(name, counts).seconds;
            let expected = expected(name);
            let cells = [
                clean(name).into_owned(),
                units::count(counts.executed),
                units::count(counts.reused),
                units::count(counts.quarantined),
                units::seconds(taken),
                expected.map_or_else(String::new, |expected| shown(*expected, units::seconds)),
            ];
            let shown = cells.into_iter().zip(columns).filter(|(_, (_, is_shown))| *is_shown);
            table.row(shown.map(|(cell, _)| cell));
        }
        table
    }

    fn write_notes(&self, text: &mut String, paint: Paint) {
        let mut are_cut = false;
        for (stage, notes) in &self.notes {
            let mut told = note_texts(notes);
            let more = told.len().saturating_sub(if self.is_whole { usize::MAX } else { NOTES });
            if more > 0 {
                are_cut = true;
                told.truncate(NOTES);
                told.push(format!("{more} more"));
            }
            let line = format!("{} notes: {}", clean(stage), told.join(", "));
            let _ = writeln!(text, "{}", paint.fold(&line, 2));
        }
        if !self.notes.is_empty() {
            let all = format!("`throstle log {}` has all notes; ", self.run);
            let all = if are_cut { all } else { String::new() };
            let line = format!(
                "  {all}`throstle items STAGE --noted` lists the items with notes of an item stage"
            );
            let _ = writeln!(text, "{}", paint.fold(&line, 4));
        }
        for (stage, written, removed) in &self.exports {
            let line = format!("{} exported: {}", clean(stage), exported(*written, *removed));
            let _ = writeln!(text, "{}", paint.fold(&line, 2));
        }
        for stage in &self.outdated {
            let line = format!(
                "{}: its exported files are of an earlier run, since this run has not finished the \
                 stage or one upstream of it",
                clean(stage)
            );
            let _ = writeln!(text, "{}", paint.fold(&line, 2));
        }
    }

    fn write_quarantined(
        &self,
        stages: &BTreeMap<String, StageCounts>,
        text: &mut String,
        paint: Paint,
    ) {
        let total: u64 = stages.values().map(|counts| counts.quarantined).sum();
        let total = total.max(self.quarantined.len() as u64 + self.more);
        if total == 0 {
            return;
        }
        let named = self.quarantined.len() as u64;
        let line = format!("quarantined: {}{}", units::items(total), by_stage(stages));
        let _ = writeln!(text, "{}", paint.fold(&line, 2));
        for entry in &self.quarantined {
            let (stage, item) = (clean(&entry.stage), clean(&entry.item));
            let line = format!("  {stage} `{item}`: {}", clean(&entry.reason));
            let _ = writeln!(text, "{}", paint.fold(&line, 4));
        }
        if total > named {
            let line = "  `throstle items STAGE --quarantined` lists all items of a stage";
            let _ = writeln!(text, "{}", paint.fold(line, 4));
        }
    }
}

/// `12 other stages: 0 executed, 151 reused`.
fn others_in_words(worked: &[Counted], rested: &[Counted]) -> String {
    let other = if worked.is_empty() { "" } else { "other " };
    let plural = if rested.len() == 1 { "" } else { "s" };
    let reused: u64 = rested.iter().map(|(_, counts)| counts.reused).sum();
    let reused = match reused {
        0 => String::new(),
        reused => format!(", {} reused", units::count(reused)),
    };
    format!("{} {other}stage{plural}: 0 executed{reused}", rested.len())
}

/// ` (clips 1, voice 2)`.
fn by_stage(stages: &BTreeMap<String, StageCounts>) -> String {
    let stages = stages.iter().filter(|(_, counts)| counts.quarantined > 0);
    let parts = stages
        .map(|(name, counts)| format!("{} {}", clean(name), units::count(counts.quarantined)));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// The numbers of files that an export has written and removed, of which one is not 0.
fn exported(written: u64, removed: u64) -> String {
    let noun = |files: u64| if files == 1 { "file" } else { "files" };
    let (wrote, gone) = (units::count(written), units::count(removed));
    match (written, removed) {
        (_, 0) => format!("{wrote} {} written", noun(written)),
        (0, _) => format!("{gone} {} removed", noun(removed)),
        _ => format!("{wrote} {} written, {gone} removed", noun(written)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn counts(executed: u64, reused: u64, quarantined: u64, seconds: f64) -> StageCounts {
        StageCounts { executed, reused, quarantined, seconds }
    }

    fn rejected(number: usize) -> Event {
        Event::ItemQuarantined {
            stage: "check".into(),
            item: format!("clip\u{1b}[3{number}m"),
            code: "truncated".into(),
            reason: "ends after 1.2 s of 3.4 s".into(),
        }
    }

    #[test]
    fn every_stage_with_quarantined_items_has_one_by_name() {
        let mut summary = Summary::default();
        (0..7).for_each(|number| summary.observe(&rejected(number)));
        for item in ["002", "004"] {
            summary.observe(&Event::ItemQuarantined {
                stage: "spoken".into(),
                item: item.into(),
                code: "silent".into(),
                reason: "the model ended before it spoke".into(),
            });
        }
        let stages: Vec<&str> = summary.quarantined.iter().map(|one| &*one.stage).collect();
        assert_eq!(stages, ["check", "check", "check", "check", "spoken"]);
        assert_eq!(summary.quarantined[4].item, "002");
        assert_eq!(summary.more, 4);
    }

    #[test]
    fn a_run_ends_with_counts_and_the_first_quarantined_items() {
        let mut summary = Summary::default();
        let stages = vec!["clips".into(), "check".into()];
        summary.observe(&Event::Started {
            run: 1,
            pipeline: "voice".into(),
            stages,
            time: None,
            process: None,
            machine: None,
        });
        (0..7).for_each(|number| summary.observe(&rejected(number)));
        let notes = [("odd byte".to_owned(), 2)].into();
        let finished =
            Event::StageFinished { stage: "clips".into(), counts: counts(1, 0, 0, 0.1), notes };
        summary.observe(&finished);
        let stages = [
            ("clips".to_owned(), counts(1, 0, 0, 0.1)),
            ("check".to_owned(), counts(4000, 0, 7, 12.0)),
        ];
        let text = summary.render(Status::Done, &stages.into(), 12.5, Paint::default());
        insta::assert_snapshot!(text, @r"
        stage  executed  quarantined    time
        clips         1            0  0.10 s
        check     4,000            7  12.0 s
        clips notes: odd byte: 2
          `throstle items STAGE --noted` lists the items with notes of an item stage
        quarantined: 7 items (check 7)
          check `clip\u{1b}[30m`: ends after 1.2 s of 3.4 s
          check `clip\u{1b}[31m`: ends after 1.2 s of 3.4 s
          check `clip\u{1b}[32m`: ends after 1.2 s of 3.4 s
          check `clip\u{1b}[33m`: ends after 1.2 s of 3.4 s
          check `clip\u{1b}[34m`: ends after 1.2 s of 3.4 s
          `throstle items STAGE --quarantined` lists all items of a stage
        done in 12.5 s
        ");
    }

    #[test]
    fn what_was_expected_stands_beside_what_it_took() {
        let mut summary = Summary::default();
        let names = vec!["voice".to_owned(), "report".to_owned()];
        summary.observe(&Event::Started {
            run: 1,
            pipeline: "p".into(),
            stages: names,
            time: None,
            process: None,
            machine: None,
        });
        let seconds = Figure { low: 8.0, likely: 10.0, high: 12.5 };
        let voice = StageEstimate { seconds: Some(seconds), ..StageEstimate::unknown(40) };
        let stages = [("voice".to_owned(), voice)].into();
        summary.observe(&Event::Estimated { stages, seconds });
        let (seconds, disk_bytes) = (11.0, 1e6);
        summary.observe(&Event::Measured {
            stage: "voice".into(),
            seconds,
            disk_bytes,
            ram_bytes: 0.0,
            vram_bytes: 0.0,
        });
        let stages = [
            ("voice".to_owned(), counts(40, 0, 0, 22.5)),
            ("report".to_owned(), counts(1, 0, 0, 0.5)),
        ];
        let text = summary.render(Status::Done, &stages.into(), 12.0, Paint::default());
        insta::assert_snapshot!(text, @r#"
        stage   executed    time                   expected
        voice         40  11.0 s  10.0 s (8.00 s to 12.5 s)
        report         1  0.50 s
        done in 12.0 s; expected: 10.0 s (8.00 s to 12.5 s)
        "#);
    }

    #[test]
    fn stages_that_did_nothing_are_one_line_and_the_text_fits_the_terminal() {
        let mut summary = Summary::default();
        let name = "音声_with_a_long_name[learning_rate=0.0001]".to_owned();
        let stages = [
            (name.clone(), counts(40, 3, 0, 11.0)),
            ("clips".to_owned(), counts(0, 30, 0, 0.0)),
            ("check".to_owned(), counts(0, 4000, 7, 0.0)),
            ("failing".to_owned(), counts(0, 0, 0, 1.0)),
        ];
        let failed =
            Event::StageFailed { stage: "failing".into(), message: "x".into(), help: None };
        summary.observe(&failed);
        for limit in [80, 60, 40] {
            let paint = Paint { columns: Some(limit), ..Paint::default() };
            let text = summary.render(Status::Failed, &stages.clone().into(), 12.0, paint);
            let widest = text.lines().map(crate::escape::width).max();
            assert!(widest <= Some(limit), "{limit}:\n{text}");
            assert!(text.contains("2 other stages: 0 executed, 4,030 reused"), "{text}");
            assert!(text.contains("failing") && !text.contains("clips"), "{text}");
        }
        let text = summary.render(Status::Failed, &stages.into(), 12.0, Paint::default());
        assert!(text.contains(&name), "{text}");
    }

    #[test]
    fn a_run_that_had_nothing_to_do_is_one_line() {
        let stages = [("clips".to_owned(), counts(0, 30, 0, 0.0))].into();
        let text = Summary::default().render(Status::Done, &stages, 0.004, Paint::default());
        assert_eq!(text, "nothing to do: 30 reused, 4 ms\n");
    }

    #[test]
    fn a_stopped_run_says_how_to_go_on() {
        let text =
            Summary::default().render(Status::Paused, &BTreeMap::new(), 3.0, Paint::default());
        assert!(
            text.ends_with("stopped after 3.00 s; finished work is kept: run again to continue\n")
        );
    }

    #[test]
    fn written_and_removed_files_of_an_export_are_told_apart() {
        let told = |written, removed| exported(written, removed);
        assert_eq!(told(1, 0), "1 file written");
        assert_eq!(told(0, 2), "2 files removed");
        assert_eq!(told(1_200, 1), "1,200 files written, 1 removed");
    }
}
