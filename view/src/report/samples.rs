//! Synthesised samples: sentences by checkpoints, each with its measures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::pipeline::{StageId, StageSpec};
use engine::store::ReadError;
use stage_core::{Blob, FieldType, Fields, Item};

use super::run_data::{AUDIO, RunData};

/// Sentences that the same stages have synthesised.
#[derive(Debug, Default)]
pub struct Grid {
    pub stages: Vec<String>,
    pub columns: Vec<SampleColumn>,
    pub rows: Vec<SampleRow>,
    /// By position in `rows` and in `columns`.
    pub cells: BTreeMap<(usize, usize), SampleCell>,
    /// The row of a sentence.
    places: BTreeMap<String, usize>,
}

/// A checkpoint, or a stage with one model.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub struct SampleColumn {
    pub stage: String,
    pub checkpoint: Option<String>,
    pub step: f64,
}

impl SampleColumn {
    /// The checkpoint, or the stage where it has one model.
    pub fn name(&self) -> &str {
        self.checkpoint.as_deref().unwrap_or(&self.stage)
    }
}

#[derive(Debug)]
pub struct SampleRow {
    pub sentence: String,
    pub text: Option<Arc<str>>,
    /// The reference recording, if there is one.
    pub original: Option<Arc<Blob>>,
}

/// A synthesis.
#[derive(Debug, Default)]
pub struct SampleCell {
    pub audio: Option<Arc<Blob>>,
    pub measures: Vec<(String, SampleFigure)>,
}

/// The measures of a synthesis.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleFigure {
    Number(f64),
    Word(Arc<str>),
}

/// The grids of a pipeline: stages with the same sentences stand side by side.
pub fn grids(seen: &RunData) -> Result<Vec<Grid>, ReadError> {
    let mut grids: Vec<Grid> = Vec::new();
    for spec in seen.pipeline.stages.iter().filter(|spec| seen.speaks(spec)) {
        let spoken = StageSamples::of(seen, spec)?;
        let names: BTreeSet<&str> = spoken.items.values().map(sentence).collect();
        if names.is_empty() {
            continue;
        }
        let shares = |grid: &Grid| names.iter().any(|name| grid.places.contains_key(*name));
        let at = match grids.iter().position(shares) {
            Some(at) => at,
            None => {
                grids.push(Grid::default());
                grids.len() - 1
            }
        };
        grids[at].add(&spoken);
    }
    grids.iter_mut().for_each(Grid::sort);
    Ok(grids)
}

/// The syntheses of one stage.
struct StageSamples<'a> {
    spec: &'a StageSpec,
    items: BTreeMap<Arc<str>, Item>,
    originals: BTreeMap<Arc<str>, Item>,
    /// Names of fields that measure a synthesis.
    measures: BTreeSet<String>,
}

impl<'a> StageSamples<'a> {
    fn of(seen: &RunData<'a>, spec: &'a StageSpec) -> Result<StageSamples<'a>, ReadError> {
        let port = |spec: &StageSpec| spec.kind.outputs.first().map_or("", |port| port.name);
        let mut items = seen.by_id(spec.id, port(spec))?;
        let mut measures = written(spec);
        // Measures by later stages of the same syntheses belong to them.
        let follows = |later: &&StageSpec| later.id != spec.id && follows(seen, later, spec.id);
        for later in seen.pipeline.stages.iter().filter(follows) {
            let own = written(later);
            for item in seen.items(later.id, port(later))? {
                let Some(known) = items.get_mut(&item.id) else { continue };
                for name in own.iter().map(String::as_str).chain([REFERENCE]) {
                    if let Some(value) = item.fields.get(name) {
                        known.fields.set(name, value.clone());
                    }
                }
            }
            measures.extend(own);
        }
        let originals = match seen.carries_on(spec) {
            Some((above, port)) => seen.by_id(above, port)?,
            None => BTreeMap::new(),
        };
        Ok(StageSamples { spec, items, originals, measures })
    }
}

/// Tests if a stage passes on the syntheses of another stage without synthesising itself.
fn follows(seen: &RunData, later: &StageSpec, spoken: StageId) -> bool {
    !seen.speaks(later) && seen.spoken_by(later) == Some(spoken)
}

/// The field in which `quality.pair` puts the recording of a sentence.
const REFERENCE: &str = "reference_audio";

/// The fields that are shown anyway: the text, and the length beside the player.
const PLAIN: [&str; 3] = ["text", "seconds", "frames"];

/// The measures that a stage writes: numbers, and words such as the reason why a synthesis ended.
fn written(spec: &StageSpec) -> BTreeSet<String> {
    let writes = spec.kind.outputs.first().map_or(&[][..], |port| port.writes);
    let is_measure = |(_, field): &&(&str, FieldType)| *field != FieldType::Blob;
    let named = |(name, _): &(&str, FieldType)| (*name).to_owned();
    let is_news = |name: &String| !PLAIN.contains(&name.as_str());
    writes.iter().filter(is_measure).map(named).filter(is_news).collect()
}

/// The sentence of an item: from `model.audition`, else its own id.
fn sentence(item: &Item) -> &str {
    item.fields.text("sentence").unwrap_or(&item.id)
}

impl Grid {
    fn add(&mut self, spoken: &StageSamples) {
        let stage = &spoken.spec.name;
        self.stages.push(stage.clone());
        for item in spoken.items.values() {
            let fields = &item.fields;
            let checkpoint = fields.text("checkpoint").map(str::to_owned);
            let step = if checkpoint.is_some() { fields.number("step") } else { None };
            let step = step.filter(|step| step.is_finite()).unwrap_or(f64::INFINITY);
            let column = self.column(SampleColumn { stage: stage.clone(), checkpoint, step });
            let original = spoken.originals.get(&item.id);
            let original = original.and_then(|item| item.fields.blob(AUDIO));
            let original = original.or_else(|| fields.blob(REFERENCE)).cloned();
            let row = self.row(sentence(item), fields, original);
            let figure = |name: &String| Some((name.clone(), SampleFigure::of(fields, name)?));
            self.cells.insert(
                (row, column),
                SampleCell {
                    audio: fields.blob(AUDIO).cloned(),
                    measures: spoken.measures.iter().filter_map(figure).collect(),
                },
            );
        }
    }

    fn column(&mut self, column: SampleColumn) -> usize {
        match self.columns.iter().position(|own| *own == column) {
            Some(at) => at,
            None => {
                self.columns.push(column);
                self.columns.len() - 1
            }
        }
    }

    fn row(&mut self, sentence: &str, fields: &Fields, original: Option<Arc<Blob>>) -> usize {
        let at = self.places.get(sentence).copied().unwrap_or_else(|| {
            let text = fields.text("text").map(Arc::from);
            self.rows.push(SampleRow { sentence: sentence.to_owned(), text, original: None });
            self.places.insert(sentence.to_owned(), self.rows.len() - 1);
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        row.original = row.original.take().or(original);
        at
    }

    /// Sorts checkpoints by step, then models.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by(|a, b| self.columns[*a].step.total_cmp(&self.columns[*b].step));
        let place = |column: usize| order.iter().position(|own| *own == column).unwrap_or(column);
        let cells = std::mem::take(&mut self.cells);
        self.cells =
            cells.into_iter().map(|((row, column), cell)| ((row, place(column)), cell)).collect();
        self.columns = order.iter().map(|at| self.columns[*at].clone()).collect();
    }

    pub fn has_originals(&self) -> bool {
        self.rows.iter().any(|row| row.original.is_some())
    }
}

impl SampleFigure {
    fn of(fields: &Fields, name: &str) -> Option<SampleFigure> {
        let number = fields.number(name).map(SampleFigure::Number);
        number.or_else(|| fields.text(name).map(|word| SampleFigure::Word(word.into())))
    }
}
