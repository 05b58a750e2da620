//! The display as lines: stages, then devices, then the whole run. In a narrow terminal, the least
//! important parts are left out first.

use std::time::Instant;

use engine::gauge::GpuReading;
use engine::units;

use super::super::escape::{clean, fit, width};
use super::super::estimate;
use super::area::Size;
use super::state::{LiveState, RunningStage, Session, TrainingProgress};
use super::text::{Style, Text, flow};

const INDENT: usize = 2;
const GAP: usize = 2;
/// The largest width of a stage's name, also limited to a third of the line.
const NAME_COLUMNS: usize = 24;
/// The useful widths of a progress bar.
const BAR: std::ops::RangeInclusive<usize> = 8..=28;
const CURVE: std::ops::RangeInclusive<usize> = 6..=48;
/// With fewer columns, explanatory words are left out.
const ROOMY: usize = 60;
/// From this number of rows on, empty lines separate the parts.
const AIRY: usize = 16;

/// The current lines; no line is wider than the terminal, and one row stays free.
pub fn lines(state: &LiveState, readings: &[GpuReading], now: Instant, size: Size) -> Vec<Text> {
    let page =
        LivePage { state, now, columns: size.0.saturating_sub(1), name: names(state, size.0) };
    let stages = if state.running.is_empty() { vec![page.waiting()] } else { page.stages() };
    let devices = readings.iter().map(|reading| page.device(reading)).collect();
    let air = if size.1 >= AIRY { vec![Text::default()] } else { Vec::new() };
    let rows = size.1.saturating_sub(2).max(1);
    page.fitted(stages, devices, page.run(), &air, rows)
}

/// The width of the name column.
fn names(state: &LiveState, columns: usize) -> usize {
    let names = state.running.iter().map(|running| width(&clean(&running.stage)));
    let widest = names.max().unwrap_or(0).max("processor".len());
    widest.min(NAME_COLUMNS).min(columns / 3)
}

struct LivePage<'a> {
    state: &'a LiveState,
    now: Instant,
    columns: usize,
    name: usize,
}

/// The cells after a stage's name and bar, in the order of the line.
type Cells = [Text; CELLS];
const CELLS: usize = 4;
const COUNT: usize = 0;
const RATE: usize = 1;
const LEFT: usize = 2;
const QUARANTINED: usize = 3;

impl LivePage<'_> {
    /// In a low terminal devices are left out first, then stages are counted instead of shown.
    fn fitted(
        &self,
        mut stages: Vec<Text>,
        devices: Vec<Text>,
        run: Vec<Text>,
        air: &[Text],
        rows: usize,
    ) -> Vec<Text> {
        let room = rows.saturating_sub(run.len() + 2 * air.len()).max(1);
        if stages.len() > room {
            let more = stages.len() - (room - 1);
            stages.truncate(room - 1);
            stages.push(self.indented(Text::of(Style::Faint, format!("and {more} more lines"))));
        }
        let has_room = stages.len() + devices.len() <= room && !devices.is_empty();
        let devices = if has_room { [air.to_vec(), devices].concat() } else { Vec::new() };
        let mut lines = [stages, devices, air.to_vec(), run].concat();
        lines.truncate(rows);
        lines
    }

    fn indented(&self, text: Text) -> Text {
        Text::default().spaces(INDENT).then(text)
    }

    fn named(&self, style: Style, name: &str) -> Text {
        let name = fit(&clean(name), self.name).into_owned();
        self.indented(Text::of(style, name).padded(self.name, false))
    }

    fn waiting(&self) -> Text {
        let (what, since) = &self.state.waiting;
        let seconds = self.now.saturating_duration_since(*since).as_secs();
        let text = Text::of(Style::Plain, clean(what).into_owned());
        self.indented(text.with(Style::Faint, format!(" {}", elapsed(seconds))))
    }

    fn stages(&self) -> Vec<Text> {
        let running = &self.state.running;
        let cells: Vec<Cells> = running.iter().map(|running| self.cells(running)).collect();
        let mut free = self.columns.saturating_sub(INDENT + self.name);
        // In the order of their importance, as many as fit.
        let mut shown: [Option<usize>; CELLS] = [None; CELLS];
        for at in [COUNT, LEFT, RATE, QUARANTINED] {
            let width = cells.iter().map(|cells| cells[at].width()).max().unwrap_or(0);
            // A short bar is more useful than these.
            let is_small = matches!(at, RATE | QUARANTINED) && self.columns >= ROOMY;
            let kept = if is_small { BAR.start() + GAP } else { 0 };
            if width > 0 && width + GAP + kept <= free {
                shown[at] = Some(width);
                free -= width + GAP;
            }
        }
        let bar = free.saturating_sub(GAP).min(*BAR.end());
        let mut lines = Vec::new();
        for (running, cells) in running.iter().zip(&cells) {
            let mut line = self.named(Style::Strong, &running.stage);
            if bar >= *BAR.start() {
                line = line.spaces(GAP).then(bar_of(running, bar));
            }
            for (cell, width) in cells.iter().zip(shown) {
                if let Some(width) = width {
                    line = line.spaces(GAP).then(cell.clone().padded(width, true));
                }
            }
            lines.push(line);
            lines.extend(running.training.iter().flat_map(|training| self.training(training)));
        }
        lines
    }

    fn cells(&self, running: &RunningStage) -> Cells {
        let count = format!("{}/{}", units::count(running.done), units::count(running.total));
        let is_steps = running.training.is_some() && self.columns >= ROOMY;
        let count = if is_steps { format!("step {count}") } else { count };
        let rate = running.rate(self.now);
        let pace = rate.per_second.map_or_else(String::new, pace);
        let left = match rate.left() {
            Some(left) => Text::of(Style::Plain, format!("{} left", clock(left))),
            None => Text::of(Style::Faint, elapsed(running.elapsed(self.now).as_secs())),
        };
        let quarantined = match running.quarantined {
            0 => Text::default(),
            count => Text::of(Style::Warning, format!("{} quarantined", units::count(count))),
        };
        [Text::of(Style::Plain, count), Text::of(Style::Faint, pace), left, quarantined]
    }

    /// The loss with its curve, and further figures below.
    fn training(&self, training: &TrainingProgress) -> Vec<Text> {
        let indent = if self.columns >= ROOMY { INDENT + self.name + GAP } else { 2 * INDENT };
        let mut lines = Vec::new();
        if let Some(loss) = training.loss {
            let style = if loss.is_finite() { Style::Strong } else { Style::Bad };
            let text = Text::of(Style::Faint, "loss ").with(style, units::number(loss));
            let room = self.columns.saturating_sub(indent + text.width() + GAP);
            let line = Text::default().spaces(indent).then(text);
            let course = if room >= *CURVE.start() {
                training.curve.line(room.min(*CURVE.end()))
            } else {
                String::new()
            };
            lines.push(line.spaces(GAP).with(Style::Figure, course));
        }
        let figure = |what: &str, value: f64| {
            Text::of(Style::Faint, what).with(Style::Plain, units::number(value))
        };
        let mut parts = Vec::new();
        parts.extend(training.learning_rate.map(|rate| figure("learning rate ", rate)));
        parts.extend(training.held_out.map(|loss| figure("held out ", loss)));
        parts.extend(training.checkpoint.map(|(step, at)| {
            let ago = self.now.saturating_duration_since(at).as_secs();
            Text::of(Style::Faint, "checkpoint ")
                .with(Style::Plain, format!("at {}", units::count(step)))
                .with(Style::Faint, format!(", {} ago", clock(ago as f64)))
        }));
        lines.extend(flow(parts, &between(), indent, self.columns));
        lines
    }

    fn device(&self, reading: &GpuReading) -> Text {
        let word = if self.columns >= ROOMY { " busy" } else { "" };
        let busy = reading.busy.map(|busy| format!("{:>3.0} %{word}", busy * 100.0));
        let busy = Text::of(Style::Plain, busy.unwrap_or_default());
        let busy = busy.padded("100 %".len() + word.len(), true);
        let (used, total) = (units::bytes(reading.used_bytes), units::bytes(reading.total_bytes));
        let memory = Text::of(Style::Plain, used).with(Style::Faint, format!(" of {total}"));
        let line =
            self.named(Style::Plain, &reading.name).spaces(GAP).then(busy).spaces(GAP).then(memory);
        let model = clean(&reading.model).into_owned();
        if line.width() + GAP + width(&model) <= self.columns {
            line.spaces(GAP).with(Style::Faint, model)
        } else {
            line
        }
    }

    /// The run as a whole.
    fn run(&self) -> Vec<Text> {
        let state = self.state;
        let passed = self.now.saturating_duration_since(state.begun);
        let plain = |text: String| Text::of(Style::Plain, text);
        let faint = |text: String| Text::of(Style::Faint, text);
        let mut parts = Vec::new();
        if state.is_stopping {
            parts.push(Text::of(Style::Warning, "stopping"));
        }
        if state.stages > 0 {
            let (ended, stages) = (state.ended.len(), state.stages);
            parts.push(plain(format!("{ended} of {stages} stages")));
        }
        let expected = state.expected_seconds.filter(|expected| *expected >= 1.0);
        let expected = expected.map(|expected| format!(" of about {}", clock(expected)));
        parts.push(plain(clock(passed.as_secs_f64())).then(faint(expected.unwrap_or_default())));
        if let Some(session) = &state.session {
            parts.extend(session.cost(passed).map(|cost| self.cost(cost, session)));
            let left = session.left(self.now).map(|left| format!("stops in {}", clock(left)));
            parts.extend(left.map(faint));
        }
        if state.quarantined() > 0 {
            let count = units::count(state.quarantined());
            parts.push(Text::of(Style::Warning, format!("{count} quarantined")));
        }
        flow(parts, &between(), INDENT, self.columns)
    }

    fn cost(&self, cost: f64, session: &Session) -> Text {
        let of = session.budget.map(|budget| format!(" of {}", estimate::money(budget)));
        let text = Text::of(Style::Plain, estimate::money(cost));
        text.with(Style::Faint, format!("{} spent", of.unwrap_or_default()))
    }
}

fn between() -> Text {
    Text::of(Style::Faint, " · ")
}

fn bar_of(running: &RunningStage, columns: usize) -> Text {
    let part = running.done.min(running.total) as f64 / running.total.max(1) as f64;
    let filled = (part * columns as f64).floor() as usize;
    Text::of(Style::Good, "━".repeat(filled)).with(Style::Faint, "─".repeat(columns - filled))
}

/// Whole seconds, which do not flicker.
fn clock(seconds: f64) -> String {
    if seconds < 59.5 { format!("{seconds:.0} s") } else { units::seconds(seconds) }
}

/// Nothing in the first second.
fn elapsed(seconds: u64) -> String {
    if seconds == 0 { String::new() } else { clock(seconds as f64) }
}

fn pace(per_second: f64) -> String {
    match per_second {
        fast if fast >= 99.5 => format!("{}/s", units::count(fast.round() as u64)),
        fast if fast >= 0.95 => format!("{fast:.1}/s"),
        slow => format!("{:.1}/min", slow * 60.0),
    }
}

#[cfg(test)]
mod tests;
