//! Models beside the untuned base: the tables of `quality.gain` and `quality.choose`.

use engine::store::ReadError;
use serde_json::Value;

use super::run_data::{RunData, json};

/// The kinds, and the places of their tables.
const KINDS: [(&str, (&str, &str)); 2] =
    [("quality.gain", ("output", "report")), ("quality.choose", ("report", "report"))];

/// The table of one stage.
#[derive(Debug, Default, PartialEq)]
pub struct GainTable {
    pub stage: String,
    pub base: String,
    pub sentences: u64,
    pub confidence: f64,
    /// In the order of the columns.
    pub measures: Vec<String>,
    pub models: Vec<GainModel>,
    /// The stage has chosen one of the models, or the base.
    pub chosen: Option<String>,
    /// What the judges say of real recordings.
    pub ceilings: Vec<GainModel>,
    pub lengths: Option<GainLengths>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Default, PartialEq)]
pub struct GainModel {
    pub name: String,
    /// By position in `measures`.
    pub figures: Vec<Option<GainFigure>>,
    /// The reason why it was not chosen.
    pub out: Option<String>,
    /// Its rank by people who listened, if they were asked.
    pub rank: Option<u64>,
}

/// Characters of the median sentence and of the median recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GainLengths {
    pub sentences: f64,
    pub recordings: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GainFigure {
    pub value: f64,
    /// Its own bounds; none in tables of earlier versions.
    pub own: Option<(f64, f64)>,
    pub base: f64,
    /// Value minus base, and its bounds.
    pub difference: f64,
    pub low: f64,
    pub high: f64,
}

impl GainFigure {
    /// True if the interval shows a difference.
    pub fn is_shown(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// All of them, by the stages in their order.
pub fn comparisons(seen: &RunData) -> Result<Vec<GainTable>, ReadError> {
    let mut found = Vec::new();
    for stage in &seen.stages {
        let place = KINDS.iter().find(|(kind, _)| *kind == stage.spec.kind.name);
        let (Some((_, place)), Some(outcome)) = (place, &stage.outcome) else { continue };
        if let Some(report) = json(seen.store, outcome, *place)? {
            found.extend(read(&stage.spec.name, &report));
        }
    }
    Ok(found)
}

fn read(stage: &str, report: &Value) -> Option<GainTable> {
    let models = report["models"].as_array()?;
    let mut measures: Vec<String> = Vec::new();
    for name in
        models.iter().filter_map(|model| model["measures"].as_object()).flat_map(|own| own.keys())
    {
        if !measures.contains(name) {
            measures.push(name.clone());
        }
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let warnings = report["warnings"].as_array().into_iter().flatten().filter_map(text);
    let base = text(&report["base"])?;
    let lengths = &report["lengths"];
    let median = |of: &str| lengths[of]["median"].as_f64();
    let ceilings = report["ceilings"].as_array().into_iter().flatten();
    let mut comparison = GainTable {
        stage: stage.to_owned(),
        base: base.clone(),
        sentences: report["sentences"].as_u64().unwrap_or_default(),
        confidence: report["confidence"].as_f64().unwrap_or_default(),
        models: models.iter().filter_map(|model| read_model(model, &measures)).collect(),
        ceilings: ceilings.filter_map(|row| read_ceiling(row, &measures)).collect(),
        lengths: median("sentences")
            .zip(median("recordings"))
            .map(|(sentences, recordings)| GainLengths { sentences, recordings }),
        // `quality.gain` chooses nothing.
        chosen: report.get("chosen").map(|chosen| text(chosen).unwrap_or_else(|| base.clone())),
        warnings: warnings.collect(),
        measures,
    };
    comparison.add_base();
    Some(comparison)
}

fn read_model(model: &Value, measures: &[String]) -> Option<GainModel> {
    let figure = |name: &String| {
        let own = &model["measures"][name.as_str()];
        let difference = &own["difference"];
        Some(GainFigure {
            value: own["value"].as_f64()?,
            own: bounds(own),
            base: own["base"].as_f64()?,
            difference: difference["value"].as_f64()?,
            low: difference["low"].as_f64()?,
            high: difference["high"].as_f64()?,
        })
    };
    Some(GainModel {
        name: model["id"].as_str()?.to_owned(),
        figures: measures.iter().map(figure).collect(),
        out: model["out"].as_str().map(str::to_owned),
        rank: model["rated"]["rank"].as_u64(),
    })
}

/// A row of recordings, which is compared with no model.
fn read_ceiling(row: &Value, measures: &[String]) -> Option<GainModel> {
    let figure = |name: &String| {
        let own = &row["measures"][name.as_str()];
        let value = own["value"].as_f64()?;
        Some(GainFigure { value, own: bounds(own), ..GainFigure::default() })
    };
    let name = row["id"].as_str()?.to_owned();
    Some(GainModel { name, figures: measures.iter().map(figure).collect(), ..GainModel::default() })
}

fn bounds(figure: &Value) -> Option<(f64, f64)> {
    figure["low"].as_f64().zip(figure["high"].as_f64())
}

impl GainTable {
    /// The base comes first. Tables of earlier choices have its figures only with the others.
    fn add_base(&mut self) {
        if let Some(at) = self.models.iter().position(|model| model.name == self.base) {
            self.models[..=at].rotate_right(1);
            return;
        }
        let known = |at: usize| {
            let figures = self.models.iter().filter_map(|model| *model.figures.get(at)?);
            let base = figures.map(|figure| figure.base).next();
            base.map(|value| GainFigure { value, base: value, ..GainFigure::default() })
        };
        let figures = (0..self.measures.len()).map(known).collect();
        self.models
            .insert(0, GainModel { name: self.base.clone(), figures, ..GainModel::default() });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn figure(value: f64, low: f64, high: f64) -> Value {
        json!({ "value": value, "base": 0.3,
            "difference": { "value": value - 0.3, "low": low, "high": high } })
    }

    #[test]
    fn the_base_and_every_model_have_a_row_with_their_figures() {
        let report = json!({ "base": "base", "chosen": "step-4", "sentences": 50, "confidence": 0.9,
            "warnings": ["w"],
            "models": [
                { "id": "step-2", "out": "worse", "measures": { "mean(cer)": figure(0.3, -0.1, 0.1) } },
                { "id": "step-4", "rated": { "rank": 1 }, "measures": { "mean(cer)": figure(0.1, -0.3, -0.1) } },
                { "id": "step-6", "out": "the sentence `a` was not measured", "measures": {} },
            ] });
        let found = read("chosen", &report).unwrap();
        let names: Vec<&str> = found.models.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["base", "step-2", "step-4", "step-6"]);
        let shown: Vec<Option<bool>> =
            found.models.iter().map(|model| model.figures[0].map(|own| own.is_shown())).collect();
        assert_eq!(shown, [Some(false), Some(false), Some(true), None]);
        assert_eq!(found.models[0].figures[0].unwrap().value, 0.3);
        assert_eq!((found.models[1].rank, found.models[2].rank), (None, Some(1)));
        assert_eq!((found.chosen.as_deref(), found.sentences), (Some("step-4"), 50));
    }

    #[test]
    fn recordings_have_rows_and_the_base_comes_first() {
        let own = json!({ "value": 0.05, "low": 0.02, "high": 0.08 });
        let report = json!({ "base": "base", "sentences": 40, "confidence": 0.9,
            "models": [
                { "id": "step-4", "measures": { "mean(cer)": figure(0.1, -0.3, -0.1) } },
                { "id": "base", "measures": { "mean(cer)": figure(0.3, 0.0, 0.0) } },
            ],
            "ceilings": [{ "id": "recordings", "recordings": 40, "measures": { "mean(cer)": own } }],
            "lengths": { "sentences": { "median": 60.0 }, "recordings": { "median": 30.0 } } });
        let found = read("gain", &report).unwrap();
        let names: Vec<&str> = found.models.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["base", "step-4"]);
        let ceiling = found.ceilings[0].figures[0].unwrap();
        assert_eq!((ceiling.value, ceiling.own), (0.05, Some((0.02, 0.08))));
        assert_eq!(found.lengths, Some(GainLengths { sentences: 60.0, recordings: 30.0 }));
    }

    #[test]
    fn a_choice_of_the_base_and_a_table_without_a_choice_differ() {
        let choice = json!({ "base": "base", "chosen": null, "models": [] });
        assert_eq!(read("s", &choice).unwrap().chosen.as_deref(), Some("base"));
        let gain =
            json!({ "base": "base", "models": [{ "id": "base", "measures": {} }, "damaged"] });
        let found = read("s", &gain).unwrap();
        assert_eq!((found.chosen, found.models.len()), (None, 1));
        assert_eq!(read("s", &json!([])), None);
    }
}
