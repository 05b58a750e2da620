//! `[session]`, `[prices]` and `[expect]`: the conditions of a run, and inputs of estimates. None
//! of them enters a key.

use stage_core::{ParameterType, ParameterValue, Unit};

use super::node::Node;
use super::problem::{Collector, Problem};
use super::value::{Checks, plain};
use super::written::{Manifest, WrittenPrice};
use crate::pipeline::{ExpectedClips, Price, Session};

/// The largest number of GPUs to compare.
pub const MOST_PRICES: usize = 100;

pub fn session(manifest: &Manifest, checks: &Checks, problems: &mut Collector) -> Session {
    let mut values = SessionValues { checks, problems };
    let session = Session {
        stop_after_seconds: values.seconds("stop_after", manifest.stop_after.as_ref()),
        price_per_hour: values.number("price_per_hour", manifest.price_per_hour.as_ref(), 1e9),
        gpu_hours_per_week: values.number(
            "gpu_hours_per_week",
            manifest.gpu_hours_per_week.as_ref(),
            168.0,
        ),
        budget: values.number("budget", manifest.budget.as_ref(), 1e12),
        prices: manifest.prices.iter().filter_map(|price| values.price(price)).collect(),
        expected: ExpectedClips {
            clips: values.number("clips", manifest.clips.as_ref(), 1e9),
            sound_seconds: values.seconds("sound", manifest.sound.as_ref()),
            lines: Default::default(),
        },
    };
    if let (Some(node), None) = (&manifest.budget, &manifest.price_per_hour) {
        let message = "`budget` needs `price_per_hour`";
        problems.add(
            Problem::new("missing_key", node.span, message)
                .help("add `price_per_hour = 1.20` to `[session]`"),
        );
    }
    session
}

struct SessionValues<'a, 'b> {
    checks: &'a Checks<'b>,
    problems: &'a mut Collector,
}

impl SessionValues<'_, '_> {
    fn value(
        &mut self,
        name: &'static str,
        kind: ParameterType,
        node: Option<&Node>,
    ) -> Option<ParameterValue> {
        self.checks.value(&plain(name, kind, Unit::None), node?, self.problems)
    }

    fn number(&mut self, name: &'static str, node: Option<&Node>, max: f64) -> Option<f64> {
        match self.value(name, ParameterType::Number { min: 0.0, max }, node)? {
            ParameterValue::Number(number) => Some(number),
            _ => None,
        }
    }

    fn seconds(&mut self, name: &'static str, node: Option<&Node>) -> Option<f64> {
        match self.value(name, ParameterType::Duration, node)? {
            ParameterValue::Seconds(seconds) => Some(seconds),
            _ => None,
        }
    }

    fn bytes(&mut self, name: &'static str, node: Option<&Node>) -> Option<u64> {
        match self.value(name, ParameterType::Size, node)? {
            ParameterValue::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// `None` if something is missing or wrong, which is reported.
    fn price(&mut self, written: &WrittenPrice) -> Option<Price> {
        let per_hour = self.number("per_hour", written.per_hour.as_ref(), 1e9);
        let vram_bytes = self.bytes("vram", written.vram.as_ref());
        let speed = self.number("speed", written.speed.as_ref(), 1e6);
        for (key, node, example) in
            [("per_hour", &written.per_hour, "1.20"), ("vram", &written.vram, "\"40GB\"")]
        {
            if node.is_none() {
                let message = format!("`[prices.{}]` has no `{key}`", written.name.value);
                let help = format!("add `{key} = {example}`");
                let problem = Problem::new("missing_key", written.name.span, message);
                self.problems.add(problem.help(help));
            }
        }
        if let (Some(node), Some(0.0)) = (&written.speed, speed) {
            let message = "`speed` must be more than 0";
            let help = "an A100 has 1; a GPU that takes twice as long has 0.5";
            self.problems.add(Problem::new("out_of_range", node.span, message).help(help));
        }
        Some(Price {
            name: written.name.value.clone(),
            per_hour: per_hour?,
            vram_bytes: vram_bytes?,
            speed: speed.unwrap_or(1.0),
        })
    }
}
