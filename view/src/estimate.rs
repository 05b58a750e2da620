//! An estimate as text: a line per stage that has work, the total, and the GPUs of the price table.

use std::fmt::Write;

use engine::estimate::{Basis, Figure, StageEstimate};
use engine::estimate::{Estimate, EstimateTotal, FitVerdict, OnGpu, RunOutcome, SessionFit};
use engine::pipeline::Pipeline;
use engine::units;

use super::escape::clean;
use super::paint::Paint;
use super::table::Table;

/// Bounds that differ less than this, relative to the figure, are left out.
const EXACT: f64 = 0.005;
const NOTHING: &str = "-";
/// Of more stages with the same line, only the first and the last are named.
const MAX_NAMED_STAGES: usize = 3;

pub struct EstimateText<'a> {
    pub pipeline: &'a Pipeline,
    pub estimate: &'a Estimate,
    /// The total of the manifest without `--set`.
    pub before: Option<&'a EstimateTotal>,
    pub paint: Paint,
}

impl EstimateText<'_> {
    pub fn render(&self) -> String {
        let mut text = String::new();
        if self.estimate.stages.is_empty() {
            return text;
        }
        text.push('\n');
        text.push_str(&self.stages());
        text.push_str(&courses(self.estimate, self.pipeline, self.paint));
        self.advice(&mut text);
        self.total(&mut text);
        self.gpus(&mut text);
        if let Some(fitted) = &self.estimate.fitted {
            let _ = writeln!(text, "{}", self.paint.fold(&room(fitted), 2));
        }
        if let Some(before) = self.before {
            self.difference(before, &mut text);
        }
        for assumption in &self.estimate.assumptions {
            let line = format!("assumed: {}", clean(assumption));
            let _ = writeln!(text, "{}", self.paint.faint(&self.paint.fold(&line, 2)));
        }
        text
    }

    fn stages(&self) -> String {
        self.fitted(|shown| self.stages_with(shown))
    }

    /// Without the bounds of its figures if the table is too wide for the terminal with them.
    fn fitted(&self, table: impl Fn(Shown) -> Table) -> String {
        let whole = table(band);
        if self.paint.columns.is_some_and(|columns| whole.is_wider_than(columns)) {
            table(likely).render(self.paint.columns)
        } else {
            whole.render(None)
        }
    }

    fn stages_with(&self, shown: Shown) -> Table {
        let headings =
            ["stage", ">items", ">time", ">GPU", ">VRAM", ">RAM", ">disk", ">money", "basis"];
        let mut table = Table::new(&headings).spare(["items", "RAM", "GPU", "VRAM", "basis"]);
        for (spec, stage) in self.estimate.in_order(self.pipeline) {
            table.row([
                clean(&spec.name).into_owned(),
                units::count(stage.items),
                cell(stage.seconds, units::seconds, shown),
                cell(stage.gpu_seconds, units::seconds, shown),
                cell(stage.vram_bytes, bytes, shown),
                cell(stage.ram_bytes, bytes, shown),
                cell(stage.disk_bytes, bytes, shown),
                cell(stage.money, money, shown),
                self.basis(stage),
            ]);
        }
        table.row(self.sum(shown));
        table
    }

    fn sum(&self, shown: Shown) -> [String; 9] {
        let total = &self.estimate.total;
        [
            "all".to_owned(),
            String::new(),
            cell(Some(total.seconds), units::seconds, shown),
            cell(some(total.gpu_seconds), units::seconds, shown),
            cell(some(total.vram_bytes), bytes, shown),
            cell(some(total.ram_bytes), bytes, shown),
            cell(Some(total.disk_bytes), bytes, shown),
            cell(total.money, money, shown),
            total.basis.to_string(),
        ]
    }

    fn basis(&self, stage: &StageEstimate) -> String {
        let text = stage.basis.to_string();
        match stage.basis {
            Basis::Unknown => self.paint.warning(&text),
            Basis::Measured | Basis::Probe => self.paint.good(&text),
            Basis::Similar | Basis::Formula => text,
        }
    }

    fn advice(&self, text: &mut String) {
        let mut said = Alike::default();
        for (spec, stage) in self.estimate.in_order(self.pipeline) {
            for advice in &stage.advice {
                said.add(&spec.name, format!(" on {}", clean(advice)));
            }
        }
        text.push_str(&said.render(self.paint));
    }

    fn total(&self, text: &mut String) {
        let total = &self.estimate.total;
        let mut line = format!("about {} in total", band(total.seconds, units::seconds));
        if let Some(cost) = total.money {
            let _ = write!(line, ", cost {}", band(cost, money));
        }
        if !total.unknown.is_empty() {
            let names = clean(&total.unknown.join(", ")).into_owned();
            let _ = write!(line, ", plus the unknown times of {names}");
        }
        let _ = writeln!(text, "{}", self.paint.fold(&line, 2));
    }

    fn gpus(&self, text: &mut String) {
        if self.estimate.gpus.is_empty() {
            return;
        }
        text.push('\n');
        text.push_str(&self.fitted(|shown| {
            let mut table =
                Table::new(&["on", ">time", ">GPU", ">money", "fits", ""]).spare(["GPU", "time"]);
            self.estimate.gpus.iter().for_each(|row| table.row(self.gpu(row, shown)));
            table
        }));
    }

    fn gpu(&self, row: &OnGpu, shown: Shown) -> [String; 6] {
        [
            clean(&row.name).into_owned(),
            cell(Some(row.seconds), units::seconds, shown),
            cell(Some(row.gpu_seconds), units::seconds, shown),
            cell(Some(row.money), money, shown),
            match row.fits {
                FitVerdict::Yes => self.paint.good("yes"),
                FitVerdict::Tight => self.paint.warning("tight"),
                FitVerdict::No => self.paint.bad("no"),
            },
            if row.is_best { self.paint.strong("cheapest that fits") } else { String::new() },
        ]
    }

    fn difference(&self, before: &EstimateTotal, text: &mut String) {
        let now = &self.estimate.total;
        let seconds = signed(now.seconds.likely - before.seconds.likely, units::seconds);
        let mut parts = vec![format!("time {seconds}")];
        if let (Some(now), Some(before)) = (now.money, before.money) {
            parts.push(format!("cost {}", signed(now.likely - before.likely, money)));
        }
        parts.push(format!(
            "disk {}",
            signed(now.disk_bytes.likely - before.disk_bytes.likely, bytes)
        ));
        let vram = signed(now.vram_bytes.likely - before.vram_bytes.likely, bytes);
        parts.push(format!("VRAM {vram}"));
        let line = format!("compared with the unchanged manifest: {}", parts.join(", "));
        let _ = writeln!(text, "{}", self.paint.fold(&line, 2));
    }
}

/// The assumed counts, if courses are shown without estimates.
pub fn assumed_counts(estimate: &Estimate) -> String {
    estimate.assumed_counts.iter().map(|count| format!("assumed: {}\n", clean(count))).collect()
}

/// The courses of the trainings, with the parts that will probably never take effect.
pub fn courses(estimate: &Estimate, pipeline: &Pipeline, paint: Paint) -> String {
    let mut said = Alike::default();
    for (spec, stage) in estimate.in_order(pipeline) {
        let Some(training) = &stage.training else { continue };
        said.add(&spec.name, format!(": {}", super::course::expected(training)));
        // Certain mistakes are errors of their own.
        for idle in training.idle.iter().filter(|_| training.mistakes().is_empty()) {
            let warning = paint.warning("warning");
            said.add(&spec.name, format!(": {warning}: {}", clean(&idle.message)));
        }
    }
    said.render(paint)
}

/// Lines that begin with the name of a stage: equal ones, such as those of the trials of a sweep, are
/// one line with all names.
#[derive(Default)]
struct Alike(Vec<(String, Vec<String>)>);

impl Alike {
    fn add(&mut self, name: &str, rest: String) {
        let name = clean(name).into_owned();
        match self.0.iter_mut().find(|(other, _)| *other == rest) {
            Some((_, names)) => names.push(name),
            None => self.0.push((rest, vec![name])),
        }
    }

    fn render(&self, paint: Paint) -> String {
        let line = |(rest, names): &(String, Vec<String>)| {
            let names = match names.as_slice() {
                [first, .., last] if names.len() > MAX_NAMED_STAGES => {
                    format!("{first} to {last} ({})", units::count(names.len() as u64))
                }
                names => names.join(", "),
            };
            paint.fold(&format!("{names}{rest}"), 2) + "\n"
        };
        self.0.iter().map(line).collect()
    }
}

/// The part of the work that fits into this session.
fn room(fitted: &SessionFit) -> String {
    let limits = [(fitted.room.seconds, ""), (fitted.room.gpu_seconds, " of GPU time")];
    let limits = limits.into_iter().filter_map(|(seconds, of)| {
        Some(format!("{}{of}", units::seconds(seconds.filter(|seconds| seconds.is_finite())?)))
    });
    let limits: Vec<String> = limits.collect();
    let left = limits.join(" and ");
    match (fitted.left_out.is_empty(), fitted.may_not_fit.is_empty()) {
        (true, true) => format!("all work fits into the remaining {left} of this session"),
        (true, false) => format!(
            "all work is expected to fit into the remaining {left} of this session, but these \
             stages may not finish in time: {}",
            clean(&fitted.may_not_fit.join(", "))
        ),
        (false, true) => format!("the remaining {left} of this session {}", left_out(fitted)),
        (false, false) => format!(
            "the remaining {left} of this session {}; these may not finish in time either: {}",
            left_out(fitted),
            clean(&fitted.may_not_fit.join(", "))
        ),
    }
}

/// `will not be enough for tokens, packed, which take 2m00s (1m00s to 4m00s), cost 2.00`.
pub fn left_out(fitted: &SessionFit) -> String {
    let names = clean(&fitted.left_out.join(", ")).into_owned();
    let seconds = band(fitted.left_out_seconds, units::seconds);
    let cost = fitted
        .left_out_money
        .map_or_else(String::new, |cost| format!(", cost {}", band(cost, money)));
    format!("will not be enough for {names}, which take {seconds}{cost}")
}

/// None for zero.
fn some(figure: Figure) -> Option<Figure> {
    (figure.high > 0.0).then_some(figure)
}

fn cell(figure: Option<Figure>, unit: fn(f64) -> String, shown: Shown) -> String {
    figure.map_or_else(|| NOTHING.to_owned(), |figure| shown(figure, unit))
}

/// Makes text of a figure: [`band`] or [`likely`].
pub type Shown = fn(Figure, fn(f64) -> String) -> String;

/// The figure without its bounds.
pub fn likely(figure: Figure, unit: fn(f64) -> String) -> String {
    unit(figure.likely)
}

/// `12m00s (5m00s to 30m00s)`.
pub fn band(figure: Figure, unit: fn(f64) -> String) -> String {
    let Figure { low, likely, high } = figure;
    let (low_text, text, high_text) = (unit(low), unit(likely), unit(high));
    if high - low <= EXACT * likely || (low_text == text && text == high_text) {
        text
    } else {
        format!("{text} ({low_text} to {high_text})")
    }
}

/// The remaining work of a stopped run: `left to do: tokens, packed; about 2m00s`.
pub fn left_text(estimate: &Estimate, pipeline: &Pipeline) -> String {
    let names: Vec<&str> =
        estimate.in_order(pipeline).map(|(spec, _)| spec.name.as_str()).collect();
    if names.is_empty() {
        return left_of_exports(pipeline);
    }
    let mut text = format!("left to do: {}", clean(&names.join(", ")));
    let (total, unknown) = (estimate.total.seconds, &estimate.total.unknown);
    if total.high == 0.0 && !unknown.is_empty() {
        return text + "; their time is unknown";
    }
    let _ = write!(text, "; about {}", band(total, units::seconds));
    if let Some(cost) = estimate.total.money {
        let _ = write!(text, ", cost {}", band(cost, money));
    }
    if !unknown.is_empty() {
        let _ = write!(text, ", without stages of unknown time");
    }
    text
}

/// All stages are done, and only exports are left to write.
fn left_of_exports(pipeline: &Pipeline) -> String {
    let exporting = pipeline.stages.iter().filter(|spec| !spec.exports.is_empty());
    let names: Vec<&str> = exporting.map(|spec| spec.name.as_str()).collect();
    if names.is_empty() {
        "left to do: nothing".to_owned()
    } else {
        format!("left to do: the exports of {}", clean(&names.join(", ")))
    }
}

/// The accuracy of an estimate.
pub fn accuracy(outcome: &RunOutcome) -> String {
    let took = format!("took {}", units::seconds(outcome.seconds));
    let mut text = match outcome.expected() {
        Some(expected) => format!("expected {}, {took}", band(expected, units::seconds)),
        None => took,
    };
    let known = || outcome.stages.values().filter(|stage| stage.expected_seconds.is_some());
    let within = known().filter(|stage| {
        stage.expected_seconds.is_some_and(|band| (band.low..=band.high).contains(&stage.seconds))
    });
    if known().count() > 0 {
        let _ = write!(
            text,
            "; {} of {} stages took a time within their bounds",
            within.count(),
            known().count()
        );
    }
    text
}

fn signed(difference: f64, unit: fn(f64) -> String) -> String {
    let sign = if difference < 0.0 { '-' } else { '+' };
    format!("{sign}{}", unit(difference.abs()))
}

pub fn bytes(bytes: f64) -> String {
    units::bytes(bytes.max(0.0) as u64)
}

/// With enough decimal places for a small sum.
pub fn money(sum: f64) -> String {
    match sum {
        sum if sum > 0.0 && sum < 0.01 => "0.00".to_owned(),
        sum => format!("{sum:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8Path;
    use engine::manifest::{FileKind, LoadOptions, load};

    #[test]
    fn a_band_is_told_unless_it_is_none() {
        let figure = Figure { low: 30.0, likely: 60.0, high: 7200.0 };
        assert_eq!(band(figure, units::seconds), "1m00s (30.0 s to 2h00m)");
        assert_eq!(band(Figure::exact(1.2345), money), "1.23");
        assert_eq!(cell(None, bytes, band), "-");
    }

    #[test]
    fn equal_lines_of_trials_are_one_line_with_their_names() {
        let mut said = Alike::default();
        let add = |said: &mut Alike, trial: u32| {
            said.add(&format!("trained[trial={trial}]"), ": 6 steps".to_owned());
        };
        add(&mut said, 0);
        said.add("other", ": 9 steps".to_owned());
        add(&mut said, 2);
        let text = said.render(Paint::default());
        assert_eq!(text, "trained[trial=0], trained[trial=2]: 6 steps\nother: 9 steps\n");
        [3, 5].into_iter().for_each(|trial| add(&mut said, trial));
        let text = said.render(Paint::default());
        assert!(text.starts_with("trained[trial=0] to trained[trial=5] (4): 6 steps\n"), "{text}");
    }

    fn pipeline(text: &str) -> Pipeline {
        let (file, options) = (Utf8Path::new("pipeline.toml"), LoadOptions::default());
        let loaded = load(text, file, &stage_speech::catalogue(), &options, &|_| FileKind::File);
        loaded.unwrap_or_else(|problems| panic!("{problems:?}")).pipeline
    }

    #[test]
    fn a_plan_is_a_table_with_all_its_stages_together_and_the_gpus() {
        let pipeline = pipeline(
            "[pipeline]\nname = \"p\"\n[stage.clips]\nuse = \"corpus.folder\"\nfolder = \"d\"\n\
             [stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\n",
        );
        let seconds = Figure { low: 60.0, likely: 120.0, high: 240.0 };
        let voice = StageEstimate {
            basis: Basis::Measured,
            seconds: Some(seconds),
            disk_bytes: Some(Figure::exact(3e9)),
            advice: vec!["t4: batch = 2 fits".to_owned()],
            ..StageEstimate::unknown(4_000)
        };
        let total = EstimateTotal {
            seconds,
            gpu_seconds: Figure::default(),
            disk_bytes: Figure::exact(3e9),
            ram_bytes: Figure::default(),
            vram_bytes: Figure::default(),
            money: Some(Figure::exact(1.5)),
            basis: Basis::Unknown,
            unknown: vec!["clips".to_owned()],
        };
        let gpu = |name: &str, fits, is_best| OnGpu {
            name: name.to_owned(),
            seconds,
            gpu_seconds: seconds,
            money: Figure::exact(2.0),
            fits,
            is_best,
        };
        let stages = [("clips".to_owned(), StageEstimate::unknown(1)), ("voice".to_owned(), voice)];
        let estimate = Estimate {
            stages: stages.into(),
            total: total.clone(),
            gpus: vec![gpu("t4", FitVerdict::No, false), gpu("a100", FitVerdict::Yes, true)],
            assumptions: vec!["the moon is round".to_owned()],
            assumed_counts: Vec::new(),
            fitted: None,
            devices: Vec::new(),
        };
        let before = EstimateTotal { seconds: Figure::exact(90.0), ..total };
        let (pipeline, estimate) = (&pipeline, &estimate);
        let text =
            EstimateText { pipeline, estimate, before: Some(&before), paint: Paint::default() };
        insta::assert_snapshot!(text.render(), @r#"

        stage  items                    time  GPU  VRAM  RAM    disk  money  basis
        clips      1                       -    -     -    -       -      -  unknown
        voice  4,000  2m00s (1m00s to 4m00s)    -     -    -  3.0 GB      -  measured
        all           2m00s (1m00s to 4m00s)    -     -    -  3.0 GB   1.50  unknown
        voice on t4: batch = 2 fits
        about 2m00s (1m00s to 4m00s) in total, cost 1.50, plus the unknown times of clips

        on                      time                     GPU  money  fits
        t4    2m00s (1m00s to 4m00s)  2m00s (1m00s to 4m00s)   2.00  no
        a100  2m00s (1m00s to 4m00s)  2m00s (1m00s to 4m00s)   2.00  yes   cheapest that fits
        compared with the unchanged manifest: time +30.0 s, cost +0.00, disk +0 B, VRAM +0 B
        assumed: the moon is round
        "#);
    }

    #[test]
    fn a_difference_has_its_sign() {
        assert_eq!(signed(-90.0, units::seconds), "-1m30s");
        assert_eq!(signed(2e9, bytes), "+2.0 GB");
    }
}
