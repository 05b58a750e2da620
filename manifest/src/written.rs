//! The manifest as written, with positions and without defaults.

use super::nearest::suggestion;
use super::node::{Entry, Node, Spanned, Table, Value};
use super::problem::{Collector, Problem, Span};
use super::session::MOST_PRICES;

pub const SECTIONS: &[&str] = &[
    "pipeline", "assets", "params", "stage", "sweep", "session", "remote", "executor", "prices",
    "expect",
];
pub const PIPELINE_KEYS: &[&str] = &["name", "seed"];
pub const ASSET_KEYS: &[&str] = &["path", "license"];
pub const SWEEP_KEYS: &[&str] = &[
    "stage", "over", "initial", "trials", "draw", "seed", "score", "of", "better", "rungs", "eta",
    "repeat",
];
pub const SESSION_KEYS: &[&str] = &["stop_after", "price_per_hour", "gpu_hours_per_week", "budget"];
pub const REMOTE_KEYS: &[&str] = &["url", "push", "require", "timeout"];
pub const PRICE_KEYS: &[&str] = &["per_hour", "vram", "speed"];
pub const EXPECT_KEYS: &[&str] = &["clips", "sound"];

/// A pipeline with more stages than this is a data set in disguise.
pub const MOST_STAGES: usize = 10_000;

#[derive(Default)]
pub struct Manifest {
    pub name: Option<Node>,
    pub seed: Option<Node>,
    pub assets: Vec<WrittenAsset>,
    pub stages: Vec<WrittenStage>,
    pub sweeps: Vec<WrittenSweep>,
    pub stop_after: Option<Node>,
    pub price_per_hour: Option<Node>,
    pub gpu_hours_per_week: Option<Node>,
    pub budget: Option<Node>,
    pub remote: Option<WrittenRemote>,
    pub executors: Vec<WrittenExecutor>,
    pub prices: Vec<WrittenPrice>,
    pub clips: Option<Node>,
    pub sound: Option<Node>,
}

pub struct WrittenRemote {
    pub span: Span,
    pub url: Option<Node>,
    pub push: Option<Node>,
    pub require: Option<Node>,
    pub timeout: Option<Node>,
}

pub struct WrittenExecutor {
    pub name: Spanned<String>,
    pub entries: Vec<Entry>,
}

pub struct WrittenPrice {
    pub name: Spanned<String>,
    pub per_hour: Option<Node>,
    pub vram: Option<Node>,
    pub speed: Option<Node>,
}

pub struct WrittenAsset {
    pub name: Spanned<String>,
    pub path: Option<Node>,
    pub license: Option<Node>,
}

#[derive(Default)]
pub struct WrittenSweep {
    pub name: Spanned<String>,
    pub stage: Option<Node>,
    pub over: Option<Node>,
    pub initial: Option<Node>,
    pub trials: Option<Node>,
    pub draw: Option<Node>,
    pub seed: Option<Node>,
    pub score: Option<Node>,
    pub of: Option<Node>,
    pub better: Option<Node>,
    pub rungs: Option<Node>,
    pub eta: Option<Node>,
    pub repeat: Option<Node>,
}

pub struct WrittenStage {
    pub name: Spanned<String>,
    pub kind: Option<Node>,
    pub matrix: Option<Entry>,
    pub export: Option<Entry>,
    /// All other keys.
    pub entries: Vec<Entry>,
}

impl Manifest {
    pub fn read(root: Table, problems: &mut Collector) -> Manifest {
        let mut manifest = Manifest::default();
        let written: Vec<Span> = root.0.iter().map(|entry| entry.key.span).collect();
        let has_pipeline = root.get("pipeline").is_some();
        for section in root.0 {
            let Some(table) = known_section(section, problems) else { continue };
            match table.0.value.as_str() {
                "pipeline" => manifest.read_pipeline(table, problems),
                "assets" => manifest.read_assets(table.1, problems),
                "stage" => manifest.read_stages(table.1, problems),
                "sweep" => manifest.read_sweeps(table.1, problems),
                "session" => manifest.read_session(table.1, problems),
                "remote" => manifest.read_remote(table, problems),
                "executor" => manifest.read_executors(table.1, problems),
                "prices" => manifest.read_prices(table.1, problems),
                "expect" => manifest.read_expected(table.1, problems),
                _ => {}
            }
        }
        if !has_pipeline {
            let place = written.into_iter().min().unwrap_or_default();
            let place = Span { end: place.start, ..place };
            problems.add(
                Problem::new("missing_key", place, "the manifest has no `[pipeline]`")
                    .help("begin with\n[pipeline]\nname = \"my-voice\""),
            );
        }
        manifest
    }

    fn read_pipeline(&mut self, section: (Spanned<String>, Table), problems: &mut Collector) {
        for entry in section.1.0 {
            match entry.key.value.as_str() {
                "name" => self.name = Some(entry.node),
                "seed" => self.seed = Some(entry.node),
                _ => problems.add(unknown_key(&entry.key, "`[pipeline]`", PIPELINE_KEYS)),
            }
        }
        if self.name.is_none() {
            problems.add(
                Problem::new("missing_key", section.0.span, "`[pipeline]` has no `name`")
                    .help("add `name = \"my-voice\"`"),
            );
        }
    }

    fn read_session(&mut self, table: Table, problems: &mut Collector) {
        for entry in table.0 {
            match entry.key.value.as_str() {
                "stop_after" => self.stop_after = Some(entry.node),
                "price_per_hour" => self.price_per_hour = Some(entry.node),
                "gpu_hours_per_week" => self.gpu_hours_per_week = Some(entry.node),
                "budget" => self.budget = Some(entry.node),
                _ => problems.add(unknown_key(&entry.key, "`[session]`", SESSION_KEYS)),
            }
        }
    }

    fn read_remote(&mut self, section: (Spanned<String>, Table), problems: &mut Collector) {
        let span = section.0.span;
        let mut remote =
            WrittenRemote { span, url: None, push: None, require: None, timeout: None };
        for entry in section.1.0 {
            match entry.key.value.as_str() {
                "url" => remote.url = Some(entry.node),
                "push" => remote.push = Some(entry.node),
                "require" => remote.require = Some(entry.node),
                "timeout" => remote.timeout = Some(entry.node),
                _ => problems.add(unknown_key(&entry.key, "`[remote]`", REMOTE_KEYS)),
            }
        }
        self.remote = Some(remote);
    }

    fn read_executors(&mut self, table: Table, problems: &mut Collector) {
        for entry in table.0 {
            check_name(&entry.key, "an executor", problems);
            if let Some((name, table)) = expect_table(entry, problems) {
                self.executors.push(WrittenExecutor { name, entries: table.0 });
            }
        }
    }

    fn read_prices(&mut self, table: Table, problems: &mut Collector) {
        if let Some(entry) = table.0.get(MOST_PRICES) {
            let message = format!("`[prices]` has more than {MOST_PRICES} GPUs");
            problems.add(Problem::new("too_large", entry.key.span, message));
            return;
        }
        for entry in table.0 {
            check_name(&entry.key, "a GPU", problems);
            let Some((name, table)) = expect_table(entry, problems) else { continue };
            let place = format!("`[prices.{}]`", name.value);
            let mut price = WrittenPrice { name, per_hour: None, vram: None, speed: None };
            for entry in table.0 {
                match entry.key.value.as_str() {
                    "per_hour" => price.per_hour = Some(entry.node),
                    "vram" => price.vram = Some(entry.node),
                    "speed" => price.speed = Some(entry.node),
                    _ => problems.add(unknown_key(&entry.key, &place, PRICE_KEYS)),
                }
            }
            self.prices.push(price);
        }
    }

    fn read_expected(&mut self, table: Table, problems: &mut Collector) {
        for entry in table.0 {
            match entry.key.value.as_str() {
                "clips" => self.clips = Some(entry.node),
                "sound" => self.sound = Some(entry.node),
                _ => problems.add(unknown_key(&entry.key, "`[expect]`", EXPECT_KEYS)),
            }
        }
    }

    fn read_assets(&mut self, table: Table, problems: &mut Collector) {
        for entry in table.0 {
            check_name(&entry.key, "an asset", problems);
            let Some(table) = expect_table(entry, problems) else { continue };
            let mut asset = WrittenAsset { name: table.0, path: None, license: None };
            let place = format!("`[assets.{}]`", asset.name.value);
            for entry in table.1.0 {
                match entry.key.value.as_str() {
                    "path" => asset.path = Some(entry.node),
                    "license" => asset.license = Some(entry.node),
                    _ => problems.add(unknown_key(&entry.key, &place, ASSET_KEYS)),
                }
            }
            if asset.path.is_none() {
                problems.add(
                    Problem::new("missing_key", asset.name.span, format!("{place} has no `path`"))
                        .help("add `path = \"…\"`, relative to the manifest"),
                );
            }
            self.assets.push(asset);
        }
    }

    fn read_stages(&mut self, table: Table, problems: &mut Collector) {
        if let Some(entry) = table.0.get(MOST_STAGES) {
            let message = format!("the manifest has more than {MOST_STAGES} stages");
            let help = "a stage processes a whole data set: put items into the rows of a table";
            problems.add(Problem::new("too_large", entry.key.span, message).help(help));
            return;
        }
        for entry in table.0 {
            check_name(&entry.key, "a stage", problems);
            if let Some((name, table)) = expect_table(entry, problems) {
                self.stages.push(WrittenStage::read(name, table, problems));
            }
        }
    }

    fn read_sweeps(&mut self, table: Table, problems: &mut Collector) {
        for entry in table.0 {
            check_name(&entry.key, "a sweep", problems);
            let Some((name, table)) = expect_table(entry, problems) else { continue };
            let place = format!("`[sweep.{}]`", name.value);
            let mut sweep = WrittenSweep { name, ..WrittenSweep::default() };
            for entry in table.0 {
                let slot = match entry.key.value.as_str() {
                    "stage" => &mut sweep.stage,
                    "over" => &mut sweep.over,
                    "initial" => &mut sweep.initial,
                    "trials" => &mut sweep.trials,
                    "draw" => &mut sweep.draw,
                    "seed" => &mut sweep.seed,
                    "score" => &mut sweep.score,
                    "of" => &mut sweep.of,
                    "better" => &mut sweep.better,
                    "rungs" => &mut sweep.rungs,
                    "eta" => &mut sweep.eta,
                    "repeat" => &mut sweep.repeat,
                    _ => {
                        problems.add(unknown_key(&entry.key, &place, SWEEP_KEYS));
                        continue;
                    }
                };
                *slot = Some(entry.node);
            }
            self.sweeps.push(sweep);
        }
    }
}

impl WrittenStage {
    fn read(name: Spanned<String>, table: Table, problems: &mut Collector) -> WrittenStage {
        let mut stage =
            WrittenStage { name, kind: None, matrix: None, export: None, entries: Vec::new() };
        for entry in table.0 {
            match entry.key.value.as_str() {
                "use" => stage.kind = Some(entry.node),
                "matrix" => stage.matrix = Some(entry),
                "export" => stage.export = Some(entry),
                _ => stage.entries.push(entry),
            }
        }
        if stage.kind.is_none() {
            let message = format!("stage `{}` has no `use`", stage.name.value);
            problems.add(Problem::new("missing_key", stage.name.span, message).help(
                "add its kind: `use = \"audio.resample\"`; `throstle stages` lists all kinds",
            ));
        }
        stage
    }
}

fn known_section(section: Entry, problems: &mut Collector) -> Option<(Spanned<String>, Table)> {
    if SECTIONS.contains(&section.key.value.as_str()) {
        return expect_table(section, problems);
    }
    problems.add(unknown_key(&section.key, "a manifest", SECTIONS));
    None
}

fn expect_table(entry: Entry, problems: &mut Collector) -> Option<(Spanned<String>, Table)> {
    let found = entry.node.describe();
    match entry.node.value {
        Value::Table(table) => Some((entry.key, table)),
        _ => {
            let message = format!("`{}` should be a table but is {found}", entry.key.value);
            problems.add(Problem::new("wrong_type", entry.node.span, message));
            None
        }
    }
}

/// Names appear in paths, in references and on terminals.
fn check_name(name: &Spanned<String>, what: &str, problems: &mut Collector) {
    if is_name(&name.value) || name.value.chars().any(char::is_control) {
        return;
    }
    let message = format!("`{}` cannot be the name of {what}", name.value);
    problems.add(
        Problem::new("bad_name", name.span, message)
            .help("use letters, digits, `-` and `_`; `assets` is reserved"),
    );
}

pub fn is_name(name: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    !name.is_empty() && name.len() <= 200 && name != "assets" && name.chars().all(allowed)
}

pub fn unknown_key(key: &Spanned<String>, place: &str, known: &[&str]) -> Problem {
    Problem::new("unknown_key", key.span, format!("{place} has no key `{}`", key.value))
        .label("unknown key")
        .help_if(suggestion(&key.value, "known keys", known.iter().copied()))
}
