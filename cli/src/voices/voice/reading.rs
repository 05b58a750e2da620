//! The way of a sentence to its model: through the text stages of the pipeline, to the characters that
//! the model knows.

use std::fmt;

use engine::run::stage_worker::Chain;
use engine::store::Store;
use stage_core::{
    Detached, Fields, Item, ItemJob, NewValue, Output, ParameterValue, Reject, Setup, StageError,
    Value,
};
use stage_families::dropped::{self, Dropped, listed};
use stage_speech::text::audit::ClipText;
use stage_speech::text::reader::Reader;

use super::{LANGUAGE, TEXT};
use crate::arguments::OnUnknown;

/// The parameter of stages that speak, and the field of requests.
pub const ON_UNKNOWN: &str = "on_unknown";
const MODEL: &str = "model";
/// Advice for what a model does not read.
pub const WRITE_OUT: &str = "write them out in the text";

/// A sentence as it arrives at the stage that speaks.
#[derive(Debug)]
pub struct Sentence {
    pub item: Item,
    /// Characters that the model does not know.
    pub dropped: Dropped,
}

/// The reason why a sentence is not spoken.
#[derive(Debug)]
pub enum ReadingError {
    /// The text is to blame.
    Text(String),
    /// Letters or digits of it would be lost.
    Lost { why: String, advice: String },
    /// A stage before is.
    Stage(StageError),
}

/// The stages that a sentence comes through.
enum TextPath {
    Pipeline(Chain),
    /// One that writes phonemes, if any.
    Graph(Option<Box<dyn ItemJob>>),
}

pub struct Reading {
    path: TextPath,
    /// None for a model that reads every character, such as one of bytes.
    reader: Option<Reader>,
    /// Where to add a stage that writes texts in the characters of the model.
    advice: String,
}

impl fmt::Debug for Reading {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reading").field("advice", &self.advice).finish_non_exhaustive()
    }
}

impl Reading {
    /// The reading of a prepared stage. Unknown characters are decided here, before anything is spoken, so
    /// the stage itself only reports them.
    pub fn of(chain: Chain, setup: &mut Setup, store: &Store, advice: String) -> Reading {
        let model = setup.artifacts.get(MODEL).and_then(|models| models.first());
        let reader = model.and_then(|model| reader(model, store));
        if reader.is_some() && setup.parameters.text(ON_UNKNOWN).is_ok() {
            let report = ParameterValue::Text("report".to_owned());
            setup.parameters.0.insert(ON_UNKNOWN.to_owned(), report);
        }
        Reading { path: TextPath::Pipeline(chain), reader, advice }
    }

    /// The reading of a graph.
    pub fn of_graph(phonemiser: Option<Box<dyn ItemJob>>, reader: Reader) -> Reading {
        let advice = WRITE_OUT.to_owned();
        Reading { path: TextPath::Graph(phonemiser), reader: Some(reader), advice }
    }

    /// The sentence behind the text stages.
    pub fn read(&self, item: Item, on_unknown: OnUnknown) -> Result<Sentence, ReadingError> {
        let item = match self.path.apply(item).map_err(ReadingError::Stage)? {
            Ok(item) => item,
            Err(reject) => return Err(ReadingError::Text(reject.reason)),
        };
        let dropped = self.dropped(&item);
        let lost = if self.reader.as_ref().is_none_or(Reader::drops_signs) {
            dropped::spoken(&dropped)
        } else {
            dropped.clone()
        };
        let misread = self.misread(&item);
        if on_unknown == OnUnknown::Fail && !misread.is_empty() {
            let why = format!(
                "the model reads the parts of {} as numbers of their own",
                misread.join(", ")
            );
            return Err(ReadingError::Lost { why, advice: WRITE_OUT.to_owned() });
        }
        if on_unknown == OnUnknown::Fail && !lost.is_empty() {
            let why = format!("the model does not know {}", listed(&lost));
            Err(ReadingError::Lost { why, advice: self.advice.clone() })
        } else {
            Ok(Sentence { item, dropped })
        }
    }

    /// Dates, times and the like that the model would not read as such.
    fn misread(&self, item: &Item) -> Vec<String> {
        let text = item.fields.text(TEXT).unwrap_or_default();
        let misread = self.reader.as_ref().map(|reader| reader.misread(text)).unwrap_or_default();
        misread.into_iter().map(|digits| format!("`{digits}`")).collect()
    }

    /// The characters of a text that the model does not know. A text that it cannot read at all is refused
    /// by the stage, with the reason.
    fn dropped(&self, item: &Item) -> Dropped {
        let field = self.reader.as_ref().map_or(TEXT, Reader::field);
        let clip = ClipText {
            id: &item.id,
            text: item.fields.text(field).unwrap_or_default(),
            language: item.fields.text(LANGUAGE),
        };
        // The stage asks for romanised texts.
        let reader = self.reader.as_ref().filter(|reader| !reader.needs_uroman(clip.text));
        reader.and_then(|reader| reader.unknown(&clip).ok()).unwrap_or_default()
    }
}

impl TextPath {
    fn apply(&self, item: Item) -> Result<Result<Item, Reject>, StageError> {
        match self {
            TextPath::Pipeline(chain) => chain.apply(item),
            TextPath::Graph(None) => Ok(Ok(item)),
            TextPath::Graph(Some(job)) => {
                let items = std::slice::from_ref(&item);
                let made = job.process(items, &mut Detached::default())?.into_iter().next();
                Ok(made.map_or(Ok(item.clone()), |made| made.map(|made| with_texts(item, made))))
            }
        }
    }
}

/// An item with the texts that a stage has made.
fn with_texts(mut item: Item, made: Output) -> Item {
    for (name, value) in made.values {
        if let NewValue::Text(text) = value {
            item.fields.set(name, Value::text(text));
        }
    }
    item
}

/// The tokenizer of a model, if it has one of characters or pieces.
fn reader(model: &Fields, store: &Store) -> Option<Reader> {
    Reader::of_model(model, None, &mut |blob| Ok(store.read(&blob.digest)?)).ok()
}

/// Adds up the dropped characters of sentences.
pub fn all_dropped<'a>(sentences: impl IntoIterator<Item = &'a Sentence>) -> Dropped {
    let mut all = Dropped::new();
    for (character, count) in sentences.into_iter().flat_map(|sentence| &sentence.dropped) {
        *all.entry(*character).or_default() += count;
    }
    all
}
