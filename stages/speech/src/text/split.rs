//! `text.sentences`: an item for each sentence of a text.

use cache::Digest;
use stage_core::{
    Context, Item, ItemJob, Job, NewItem, NewValue, Output, Reject, Setup, StageError, Value,
};

use super::sentences::{SentenceOptions, one_line, sentences};
use crate::audio::long::SegmentNames;

struct TextSplit {
    field: String,
    options: SentenceOptions,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let bare = |word: &str| word.trim_end_matches('.').to_lowercase();
    let options = SentenceOptions {
        longest: usize::try_from(parameters.integer("longest")?).unwrap_or(usize::MAX),
        abbreviations: parameters.texts("abbreviations")?.into_iter().map(bare).collect(),
    };
    Ok(Job::Item(Box::new(TextSplit { field: parameters.text("field")?.to_owned(), options })))
}

impl ItemJob for TextSplit {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let one = |item: &Item| match self.text(item, context)? {
            Ok(text) => self.split(&text),
            Err(reject) => Ok(Err(reject)),
        };
        items.iter().map(one).collect()
    }
}

impl TextSplit {
    fn text(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<String, Reject>, StageError> {
        let field = &self.field;
        Ok(match item.fields.get(field) {
            Some(Value::Text(text)) => Ok(text.to_string()),
            Some(Value::Blob(blob)) => {
                String::from_utf8(context.read(blob)?.to_vec()).map_err(|error| {
                    let at = error.utf8_error().valid_up_to();
                    Reject::new("not-text", format!("byte {at} of `{field}` is not UTF-8"))
                })
            }
            _ => Err(Reject::new("no-text", format!("the item has no text in `{field}`"))),
        })
    }

    fn split(&self, text: &str) -> Result<Result<Output, Reject>, StageError> {
        let found = match sentences(text, &self.options) {
            Ok(found) => found,
            Err(error) => return Ok(Err(Reject::new("no-spaces", error.to_string()))),
        };
        if found.ranges.is_empty() {
            return Ok(Err(Reject::new("no-text", "the text is empty")));
        }
        let mut names = SegmentNames::default();
        let mut child = |range: &std::ops::Range<usize>| {
            let sentence = one_line(&text[range.clone()]);
            let id = names.next(&Digest::of(sentence.as_bytes()));
            NewItem { id, values: Vec::new() }
                .with("text", NewValue::Text(sentence))
                .with("text_start", NewValue::Number(range.start as f64))
                .with("text_end", NewValue::Number(range.end as f64))
        };
        let children = found.ranges.iter().map(&mut child).collect();
        let mut output = Output::of_children(children)?;
        if found.parts > 0 {
            output.note("parts of overlong sentences", found.parts as u64);
        }
        Ok(Ok(output))
    }
}
