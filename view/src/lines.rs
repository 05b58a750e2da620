//! Plain lines, for logs and for people without a terminal: a line when a stage begins and ends,
//! and occasional progress.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use engine::event::{Event, StageCounts};
use engine::units;

use super::Reporter;
use super::course::course;
use super::escape::clean;
use super::pace::Pace;
use super::paint::Paint;
use super::summary::Summary;

/// The interval between progress lines of a stage.
const INTERVAL: Duration = Duration::from_secs(30);
/// Prefix of the names of losses on held-out clips.
const HELD_OUT: &str = "held_out";
/// The number of quarantined items of a stage that are named when they occur.
const MAX_NAMED_ITEMS: u64 = 10;

pub struct Lines<W> {
    output: W,
    paint: Paint,
    interval: Duration,
    summary: Summary,
    running: HashMap<String, StageLines>,
    /// The last `waiting` event, and the time of its line.
    waiting: Option<(String, Instant)>,
    /// The events are those of a past run.
    is_replay: bool,
}

struct StageLines {
    pace: Pace,
    told: Instant,
    /// The time of the last line with training figures.
    metrics: Option<Instant>,
    /// The newest figures that are not printed yet.
    untold: Option<(u64, BTreeMap<String, f64>)>,
    named: u64,
}

impl StageLines {
    fn new() -> StageLines {
        let now = Instant::now();
        StageLines { pace: Pace::since(now), told: now, metrics: None, untold: None, named: 0 }
    }
}

impl<W: Write + Send> Lines<W> {
    pub fn new(output: W, paint: Paint) -> Lines<W> {
        Lines {
            output,
            paint,
            interval: INTERVAL,
            summary: Summary::default(),
            running: HashMap::new(),
            waiting: None,
            is_replay: false,
        }
    }

    /// For past events; all of them are printed.
    pub fn replaying(output: W, paint: Paint) -> Lines<W> {
        let summary = Summary::whole();
        Lines { interval: Duration::ZERO, summary, is_replay: true, ..Lines::new(output, paint) }
    }

    pub fn output(&self) -> &W {
        &self.output
    }

    fn progress(
        &mut self,
        stage: &str,
        (done, total): (u64, u64),
        executed: u64,
    ) -> io::Result<()> {
        let now = Instant::now();
        let interval = self.interval;
        let Some(running) = self.running.get_mut(stage) else { return Ok(()) };
        running.pace.observe((done, total), executed, now);
        if now.duration_since(running.told) < interval {
            return Ok(());
        }
        running.told = now;
        let rate = running.pace.rate(now);
        writeln!(self.output, "{}: {rate}", clean(stage))
    }

    fn metrics(
        &mut self,
        stage: &str,
        step: u64,
        values: &BTreeMap<String, f64>,
    ) -> io::Result<()> {
        let (now, interval) = (Instant::now(), self.interval);
        let Some(running) = self.running.get_mut(stage) else { return Ok(()) };
        // Validations are rare, and people wait for them.
        let is_held_out = values.keys().any(|name| name.starts_with(HELD_OUT));
        if !is_held_out {
            if running.metrics.is_some_and(|told| now.duration_since(told) < interval) {
                let untold = running.untold.get_or_insert_default();
                // A step may be reported more than once, if something happens after it.
                if untold.0 != step {
                    *untold = (step, BTreeMap::new());
                }
                untold.1.extend(values.iter().map(|(name, value)| (name.clone(), *value)));
                return Ok(());
            }
            (running.metrics, running.untold) = (Some(now), None);
        }
        writeln!(self.output, "{}: {}", clean(stage), figures(step, values))
    }

    /// The last figures of a training, if they came too soon after others to be printed.
    fn last_metrics(&mut self, stage: &str) -> io::Result<()> {
        match self.running.get_mut(stage).and_then(|running| running.untold.take()) {
            Some((step, values)) => {
                writeln!(self.output, "{}: {}", clean(stage), figures(step, &values))
            }
            None => Ok(()),
        }
    }

    fn all_last_metrics(&mut self) -> io::Result<()> {
        let mut stages: Vec<String> = self.running.keys().cloned().collect();
        stages.sort_unstable();
        stages.iter().try_for_each(|stage| self.last_metrics(stage))
    }

    /// The same event is repeated only now and then.
    fn waiting(&mut self, what: &str) -> io::Result<()> {
        let interval = self.interval;
        let is_known = |(told, at): &(String, Instant)| told == what && at.elapsed() < interval;
        if self.waiting.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        self.waiting = Some((what.to_owned(), Instant::now()));
        writeln!(self.output, "waiting for {}", clean(what))
    }

    fn quarantined(&mut self, stage: &str, item: &str, reason: &str) -> io::Result<()> {
        let named = match self.running.get_mut(stage) {
            Some(running) => {
                running.named += 1;
                running.named
            }
            None => 1,
        };
        let stage = clean(stage);
        match named {
            1..=MAX_NAMED_ITEMS => writeln!(
                self.output,
                "{stage}: {} {}",
                self.paint.warning("quarantined"),
                clean(&format!("`{item}`: {reason}"))
            ),
            _ if named == MAX_NAMED_ITEMS + 1 => {
                writeln!(self.output, "{stage}: more items were quarantined")
            }
            _ => Ok(()),
        }
    }
}

impl<W: Write + Send> Reporter for Lines<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.summary.observe(event);
        match event {
            Event::StageStarted { stage, total, reasons, trial } => {
                self.running.insert(stage.clone(), StageLines::new());
                writeln!(self.output, "{}", started(stage, *total, reasons, trial.as_deref()))
            }
            Event::Waiting { what } => self.waiting(what),
            Event::Progress { stage, done, total, counts } => {
                self.progress(stage, (*done, *total), counts.executed)
            }
            Event::Metrics { stage, step, values } => self.metrics(stage, *step, values),
            Event::ItemQuarantined { stage, item, reason, .. } => {
                self.quarantined(stage, item, reason)
            }
            Event::StageFinished { stage, counts, .. } => {
                self.last_metrics(stage)?;
                self.running.remove(stage);
                match counts.executed {
                    0 => Ok(()),
                    _ => {
                        let counts = self.summary.shared_out(stage, counts);
                        writeln!(self.output, "{}", finished(stage, &counts, self.paint))
                    }
                }
            }
            Event::Finished { status, stages, seconds } => {
                self.all_last_metrics()?;
                let text = self.summary.render(*status, stages, *seconds, self.paint);
                self.output.write_all(text.as_bytes())?;
                self.output.flush()
            }
            // In the run itself, the program ends with this message.
            Event::RunFailed { message, help } if self.is_replay => {
                writeln!(self.output, "{}", with_help(self.paint.bad("failed"), message, help))
            }
            other => match message(other, self.paint) {
                Some(line) => writeln!(self.output, "{line}"),
                None => Ok(()),
            },
        }
    }
}

/// The line for a stage that begins.
pub fn started(stage: &str, total: u64, reasons: &[String], trial: Option<&str>) -> String {
    let why = match reasons {
        [] => String::new(),
        [one] => format!(", {}", clean(one)),
        [first, rest @ ..] => format!(", {} and {} more", clean(first), rest.len()),
    };
    let trial = trial.map_or_else(String::new, |values| format!(" ({})", clean(values)));
    format!("{}: started, {}{why}{trial}", clean(stage), units::items(total))
}

/// The line for a stage that is done.
pub fn finished(stage: &str, counts: &StageCounts, paint: Paint) -> String {
    let mut parts = vec![format!("{} executed", units::count(counts.executed))];
    if counts.reused > 0 {
        parts.push(format!("{} reused", units::count(counts.reused)));
    }
    if counts.quarantined > 0 {
        parts.push(paint.warning(&format!("{} quarantined", units::count(counts.quarantined))));
    }
    let seconds = units::seconds(counts.seconds);
    format!("{}: {}, {}, {seconds}", clean(stage), paint.good("done"), parts.join(", "))
}

/// The figures of a training step.
pub fn figures(step: u64, values: &BTreeMap<String, f64>) -> String {
    let value = |(name, value): (&String, &f64)| format!(", {} {}", clean(name), number(*value));
    let values: String = values.iter().map(value).collect();
    format!("step {}{values}", units::count(step))
}

/// Four digits, whatever the size.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.4}"),
    }
}

/// The line for an event that is printed immediately; `None` for other events.
pub fn message(event: &Event, paint: Paint) -> Option<String> {
    Some(match event {
        Event::Waiting { what } => format!("waiting for {}", clean(what)),
        Event::Retried { stage, what, attempt } => {
            format!("{}: retrying {}, attempt {attempt}", clean(stage), clean(what))
        }
        Event::TrainingStarted { stage, course: begun } => {
            format!("{}: training {}", clean(stage), course(begun))
        }
        Event::CheckpointKept { stage, bytes, seconds } => format!(
            "{}: saved a checkpoint, {} in {}",
            clean(stage),
            units::bytes(*bytes),
            units::seconds(*seconds)
        ),
        Event::BatchHalved { stage, bytes, items, message } => {
            let size = match (bytes, items) {
                (Some(bytes), _) => units::bytes(*bytes),
                (None, Some(1)) => "1 item".to_owned(),
                (None, items) => format!("{} items", units::count(items.unwrap_or(1))),
            };
            format!("{}: reduced the batch to {size}: {}", clean(stage), clean(message))
        }
        Event::WorkerStarted { device, process } => {
            format!("started worker {process} for {device}")
        }
        Event::WorkerDied { device, message } => {
            let head = paint.warning(&format!("the worker for {device} died"));
            format!("{head}: {}", super::escape::clean_lines(message))
        }
        Event::Damaged { stage, digest } => {
            let head = paint.warning("quarantined a damaged object");
            format!("{}: {head}, which is made again: {}", clean(stage), clean(digest))
        }
        Event::Note { stage: Some(stage), message } => {
            format!("{}: {}", clean(stage), clean(message))
        }
        Event::Note { stage: None, message } => clean(message).into_owned(),
        Event::StageFailed { stage, message, help } => {
            with_help(format!("{}: {}", clean(stage), paint.bad("failed")), message, help)
        }
        Event::Stopping { why } => {
            format!("{}: {}", paint.warning("stopping"), clean(why))
        }
        _ => return None,
    })
}

fn with_help(head: String, message: &str, help: &Option<String>) -> String {
    let help = help.as_ref().map(|help| format!("\n  help: {}", clean(help)));
    format!("{head}: {}{}", super::escape::clean_lines(message), help.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::summary::tests::counts;
    use engine::event::Status;

    fn lines(events: &[Event]) -> String {
        let mut written = Vec::new();
        let mut lines = Lines::new(&mut written, Paint::default());
        events.iter().for_each(|event| lines.event(event).unwrap());
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn a_run_reads_as_a_line_per_stage() {
        let stage = || "voice".to_owned();
        let done = counts(3, 27, 1, 0.25);
        let text = lines(&[
            Event::Started {
                run: 3,
                pipeline: "p".into(),
                stages: vec!["clips".into(), stage()],
                time: None,
                process: None,
                machine: None,
            },
            Event::StageFinished {
                stage: "clips".into(),
                counts: counts(0, 30, 0, 0.0),
                notes: [].into(),
            },
            Event::StageStarted {
                stage: stage(),
                total: 30,
                reasons: vec!["parameter `rate` changed from 1 to 2".into(), "other".into()],
                trial: None,
            },
            Event::Progress { stage: stage(), done: 10, total: 30, counts: done },
            Event::ItemQuarantined {
                stage: stage(),
                item: "a\u{1b}[2J".into(),
                code: "truncated".into(),
                reason: "is cut".into(),
            },
            Event::Retried { stage: stage(), what: "item `b`".into(), attempt: 2 },
            Event::StageFinished { stage: stage(), counts: done, notes: [].into() },
            Event::StageFailed {
                stage: "pack".into(),
                message: "no\nroom".into(),
                help: Some("make some".into()),
            },
            Event::Finished {
                status: Status::Failed,
                stages: [(stage(), done)].into(),
                seconds: 0.5,
            },
        ]);
        insta::assert_snapshot!(text, @r"
        voice: started, 30 items, parameter `rate` changed from 1 to 2 and 1 more
        voice: quarantined `a\u{1b}[2J`: is cut
        voice: retrying item `b`, attempt 2
        voice: done, 3 executed, 27 reused, 1 quarantined, 0.25 s
        pack: failed: no
        room
          help: make some
        stage  executed  reused  quarantined    time
        voice         3      27            1  0.25 s
        quarantined: 1 item (voice 1)
          voice `a\u{1b}[2J`: is cut
        failed in pack after 0.50 s; finished work is kept
        ");
    }

    #[test]
    fn thousands_of_quarantined_items_do_not_flood_the_log() {
        let mut events =
            vec![Event::StageStarted { stage: "s".into(), total: 9, reasons: vec![], trial: None }];
        events.extend((0..5000).map(|number| Event::ItemQuarantined {
            stage: "s".into(),
            item: number.to_string(),
            code: "c".into(),
            reason: "r".into(),
        }));
        assert_eq!(lines(&events).lines().count(), 1 + 10 + 1);
    }

    #[test]
    fn only_a_replay_tells_why_a_run_failed() {
        let failed = Event::RunFailed { message: "no file".into(), help: Some("make it".into()) };
        assert_eq!(lines(std::slice::from_ref(&failed)), "");
        let mut written = Vec::new();
        Lines::replaying(&mut written, Paint::default()).event(&failed).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "failed: no file\n  help: make it\n");
    }

    #[test]
    fn waiting_for_the_same_is_told_once() {
        let waiting = |what: &str| Event::Waiting { what: what.into() };
        let text = lines(&[waiting("a"), waiting("a"), waiting("b")]);
        assert_eq!(text, "waiting for a\nwaiting for b\n");
    }

    #[test]
    fn progress_is_told_when_the_interval_is_over() {
        let mut written = Vec::new();
        let mut lines = Lines::new(&mut written, Paint::default());
        lines.interval = Duration::ZERO;
        lines
            .event(&Event::StageStarted {
                stage: "s".into(),
                total: 9,
                reasons: vec![],
                trial: None,
            })
            .unwrap();
        let progress =
            Event::Progress { stage: "s".into(), done: 0, total: 9, counts: counts(0, 0, 0, 0.0) };
        lines.event(&progress).unwrap();
        assert!(String::from_utf8(written).unwrap().contains("s: 0 of 9, "));
    }

    #[test]
    fn figures_of_training_are_told_with_four_digits() {
        let values = [("loss", 2.345678), ("rate", 1e-5), ("tokens", 12345.6), ("none", 0.0)];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        let event = |step| Event::Metrics { stage: "s".into(), step, values };
        let started =
            Event::StageStarted { stage: "s".into(), total: 1, reasons: vec![], trial: None };
        let kept = Event::CheckpointKept { stage: "s".into(), bytes: 2_000_000, seconds: 0.5 };
        let text = lines(&[started, event(1200), kept]);
        let (_, told) = text.split_once('\n').unwrap();
        assert_eq!(
            told,
            "s: step 1,200, loss 2.3457, none 0, rate 1.00e-5, tokens 12345.6\ns: saved a \
             checkpoint, 2.0 MB in 0.50 s\n"
        );
    }

    #[test]
    fn losses_on_held_out_clips_and_the_last_figures_are_always_told() {
        let metrics = |step, name: &str, value| Event::Metrics {
            stage: "s".into(),
            step,
            values: [(name.to_owned(), value)].into(),
        };
        let done = Event::StageFinished {
            stage: "s".into(),
            counts: counts(1, 0, 0, 0.5),
            notes: [].into(),
        };
        let text = lines(&[
            Event::StageStarted { stage: "s".into(), total: 1, reasons: vec![], trial: None },
            metrics(0, "held_out", 9.5),
            metrics(1, "loss", 9.25),
            metrics(2, "loss", 8.5),
            metrics(2, "held_out", 8.75),
            metrics(3, "loss", 7.5),
            metrics(4, "loss", 6.5),
            metrics(4, "held_out", 7.75),
            metrics(4, "save_seconds", 0.5),
            done,
        ]);
        insta::assert_snapshot!(text, @r"
        s: started, 1 item
        s: step 0, held_out 9.5000
        s: step 1, loss 9.2500
        s: step 2, held_out 8.7500
        s: step 4, held_out 7.7500
        s: step 4, loss 6.5000, save_seconds 0.5000
        s: done, 1 executed, 0.50 s
        ");
    }

    #[test]
    fn a_training_that_is_stopped_tells_its_last_figures() {
        let metrics = |step| Event::Metrics {
            stage: "s".into(),
            step,
            values: [("loss".to_owned(), 1.5)].into(),
        };
        let text = lines(&[
            Event::StageStarted { stage: "s".into(), total: 1, reasons: vec![], trial: None },
            metrics(1),
            metrics(2),
            Event::Finished { status: Status::Paused, stages: [].into(), seconds: 0.5 },
        ]);
        assert!(text.contains("s: step 2, loss 1.5000\n"), "{text}");
    }
}
