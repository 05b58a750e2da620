//! `xtts.extend`: extends the vocabulary for another language. Nothing is computed on a device.

use std::f64::consts::TAU;

use stage_core::{
    Context, Fields, GatherInput, GatherJob, GatherOutput, Item, Job, Kind, NewValue, Parameters,
    PortOutput, Setup, Stage, StageError,
};
use stage_families::artifact::{self, CONFIG, CONFIG_KIND, LINEAGE, TOKENIZER_KIND, VOCABULARY};
use stage_families::xtts::{
    Config, Extended, Language, Pieces, TEXT_TABLES, Vocabulary, grown, kinds,
};

use crate::lineage::{ModelLineage, to_text};
use crate::random::Random;

pub struct XttsExtend;

impl Stage for XttsExtend {
    fn kind(&self) -> &'static Kind {
        &kinds::EXTEND
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(ExtendJob { parameters: setup.parameters })))
    }
}

struct ExtendJob {
    parameters: Parameters,
}

impl GatherJob for ExtendJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let model = input.artifact("model");
        let model = model.ok_or_else(|| StageError::failed("no model arrived on port `model`"))?;
        let mut config = Config::parse(&read(model, CONFIG, context)?)?;
        let longer = self.vocabulary(model, input.items("input")?, context)?;
        let language = Language::of(self.parameters.text("language")?);
        let rows = longer.vocabulary.text_tokens()?.rows;
        config.gpt.text_tokens = rows;
        if !config.languages.iter().any(|known| Language::of(known) == language) {
            config.languages.push(language.code().to_owned());
        }
        let lineage = to_text(&ModelLineage::from(model, kinds::EXTEND.name));
        let mut values = vec![
            (CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, config.to_json()?)),
            (VOCABULARY.to_owned(), NewValue::bytes(TOKENIZER_KIND, longer.vocabulary.to_json()?)),
            (LINEAGE.to_owned(), NewValue::Text(lineage)),
        ];
        values.extend(self.tables(model, rows as usize, context)?);
        let made: Vec<String> = values.iter().map(|(name, _)| name.clone()).collect();
        let kept = model.iter().filter(|(name, _)| !made.iter().any(|own| own == &***name));
        values.extend(kept.map(|(name, value)| (name.to_string(), NewValue::Kept(value.clone()))));
        let output = GatherOutput::default().with("model", PortOutput::Artifact(values));
        let notes = vec![
            ("tokens added".to_owned(), longer.tokens.len() as u64),
            ("merges added".to_owned(), longer.merges as u64),
        ];
        Ok(GatherOutput { notes, ..output })
    }
}

impl ExtendJob {
    fn vocabulary(
        &self,
        model: &Fields,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Extended, StageError> {
        let vocabulary = Vocabulary::read(&read(model, VOCABULARY, context)?)?;
        let texts = items.iter().filter_map(|item| item.fields.text("text"));
        let pieces = Pieces {
            most: self.parameters.integer("pieces")?.max(0) as usize,
            least_count: self.parameters.integer("min_count")?.max(1) as u64,
        };
        let language = Language::of(self.parameters.text("language")?);
        Ok(vocabulary.extended(texts, &language, pieces)?)
    }

    /// The tables with a row per token, extended.
    fn tables(
        &self,
        model: &Fields,
        rows: usize,
        context: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        let mut random = Random::new(self.parameters.integer("seed")? as u64);
        let mut values = Vec::new();
        for name in TEXT_TABLES {
            let field = artifact::tensor_field(name);
            let table = artifact::decode(read(model, &field, context)?)?;
            let long = grown(&table, rows, || normal(&mut random)).map_err(|e| e.of(name))?;
            values.push((field, artifact::tensor_value(&long)?));
        }
        Ok(values)
    }
}

/// By the Box-Muller method.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.fraction()).ln()).sqrt();
    radius * (TAU * random.fraction()).cos()
}

fn read(model: &Fields, name: &str, context: &mut dyn Context) -> Result<bytes::Bytes, StageError> {
    let blob = model.blob(name);
    let blob = blob.ok_or_else(|| StageError::failed(format!("the model has no `{name}`")))?;
    context.read(blob)
}
