//! `voice.choose`: the voice that speaks best, by the rules of `quality.choose`.

use std::collections::{BTreeMap, BTreeSet};

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, Parameters, PortInput,
    PortOutput, Setup, StageError, Value,
};

use crate::plain::unknown_choice;
use crate::quality::choose::{CandidateWords, ChoiceOptions, choose};

const VOICES: CandidateWords =
    CandidateWords { first: "comes first by the number of clips, then by name" };

struct Choose {
    by_speaker: bool,
    parameters: Parameters,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let by_speaker = match setup.parameters.text("by")? {
        "speaker" => true,
        "stage" => false,
        other => return Err(unknown_choice("by", other)),
    };
    // Expressions are read before anything is.
    ChoiceOptions::of(&setup.parameters, "", VOICES)?;
    Ok(Job::Gather(Box::new(Choose { by_speaker, parameters: setup.parameters })))
}

impl GatherJob for Choose {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let clips = input.items("clips")?;
        let spoken = self.spoken(&input)?;
        let voices = ordered(&spoken, clips)?;
        let named = self.parameters.if_set("base_name", Parameters::text)?;
        let base = named.unwrap_or_else(|| voices.first().copied().unwrap_or_default());
        if !voices.contains(&base) {
            return Err(StageError::with_help(
                format!("the base `{base}` has no sentences"),
                format!("known voices: {}", voices.join(", ")),
            ));
        }
        let mut options = ChoiceOptions::of(&self.parameters, base, VOICES)?;
        options.hear(&input, context)?;
        let candidates: Vec<Item> = voices.iter().enumerate().map(candidate).collect();
        let choice = choose(&spoken, &candidates, &options)?;
        let chosen = match choice.chosen {
            Some(at) => &*choice.candidates[at].id,
            None if options.falls_back => base,
            None => return Err(choice.refused()),
        };
        let kept = clips.iter().filter(|clip| is_of(clip, chosen)).map(NewItem::kept).collect();
        choice.output(chosen, ("output", PortOutput::Dataset(kept)))
    }
}

impl Choose {
    /// The measured sentences, with the fields that name voice and sentence in a choice.
    fn spoken(&self, input: &GatherInput) -> Result<Vec<Item>, StageError> {
        let mut spoken = Vec::new();
        for input in input.ports.get("input").into_iter().flatten() {
            let PortInput::Dataset { stage, items, .. } = input else { continue };
            for item in items {
                let (voice, sentence) = if self.by_speaker {
                    (item.fields.text("speaker"), item.fields.text("sentence"))
                } else {
                    (Some(instance(stage)), Some(&*item.id))
                };
                let (Some(voice), Some(sentence)) = (voice, sentence) else {
                    return Err(StageError::failed(format!(
                        "the sentence `{}` names no speaker or no sentence",
                        item.id
                    )));
                };
                let mut fields = item.fields.clone();
                fields.set("checkpoint", Value::text(voice));
                fields.set("sentence", Value::text(sentence));
                spoken.push(Item::new(format!("{sentence}@{voice}"), fields));
            }
        }
        Ok(spoken)
    }
}

/// The value in the brackets of a matrix instance, such as `aino_01` of `measured[id=aino_01]`.
fn instance(stage: &str) -> &str {
    let inside = stage.split_once('[').map(|(_, rest)| rest.trim_end_matches(']'));
    match inside {
        Some(one) if !one.contains(',') => one.split_once('=').map_or(one, |(_, value)| value),
        Some(several) => several,
        None => stage,
    }
}

fn is_of(clip: &Item, voice: &str) -> bool {
    *clip.id == *voice || clip.fields.text("speaker") == Some(voice)
}

/// The voices, those with the most clips first.
fn ordered<'a>(spoken: &'a [Item], clips: &[Item]) -> Result<Vec<&'a str>, StageError> {
    let voices: BTreeSet<&str> =
        spoken.iter().filter_map(|item| item.fields.text("checkpoint")).collect();
    let count = |voice: &str| clips.iter().filter(|clip| is_of(clip, voice)).count();
    let counts: BTreeMap<&str, usize> = voices.iter().map(|voice| (*voice, count(voice))).collect();
    if let Some((voice, _)) = counts.iter().find(|(_, count)| **count == 0) {
        return Err(StageError::with_help(
            format!("no clip on `clips` belongs to `{voice}`"),
            "a voice is the `speaker` of clips, or the id of a clip",
        ));
    }
    let mut voices: Vec<&str> = voices.into_iter().collect();
    voices.sort_by_key(|voice| std::cmp::Reverse(counts[voice]));
    Ok(voices)
}

/// A candidate of a choice; its step is its place.
fn candidate((at, voice): (usize, &&str)) -> Item {
    Item::new(*voice, [("step", Value::Number(at as f64))].into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::instance;

    #[test]
    fn a_voice_is_the_value_of_its_instance() {
        assert_eq!(instance("measured[id=aino_01]"), "aino_01");
        assert_eq!(instance("measured[id=a/b=c]"), "a/b=c");
        assert_eq!(instance("measured[id=a,rate=2]"), "id=a,rate=2");
        assert_eq!(instance("measured"), "measured");
    }
}
