//! The stage `model.audition`: pairs each sentence with each checkpoint and model.

use std::sync::Arc;

use stage_core::{
    Context, Fields, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, PortInput,
    PortOutput, Setup, Stage, StageError, Value,
};
use stage_families::kinds::model as kinds;
use stage_formats::checkpoint::{self, STEP, WEIGHTS};

use crate::plain;

/// The name of the model on the port of this name.
const BASE: &str = "base";

pub fn stage() -> Arc<dyn Stage> {
    plain::stage(&kinds::AUDITION, open)
}

struct ModelAudition;

fn open(_: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(Job::Gather(Box::new(ModelAudition)))
}

impl GatherJob for ModelAudition {
    fn run(&mut self, input: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let sentences = input.items("input")?;
        let voices = voices(&input)?;
        if voices.is_empty() && !input.ports.contains_key("checkpoints") {
            return Err(StageError::with_help(
                "there are no checkpoints and no models to speak with",
                "set `checkpoints` to those of a training, or name models on `base` or `models`",
            ));
        }
        let pairs = PortOutput::Dataset(pairs(sentences, &voices));
        Ok(GatherOutput::default().with("output", pairs))
    }
}

/// A checkpoint or a model.
struct AuditionVoice {
    name: String,
    /// `step` and `weights`.
    values: Vec<(&'static str, NewValue)>,
}

impl AuditionVoice {
    fn of_checkpoint(item: &Item) -> AuditionVoice {
        let kept = |name| Some((name, NewValue::Kept(item.fields.get(name)?.clone())));
        let values = [STEP, WEIGHTS].into_iter().filter_map(kept).collect();
        AuditionVoice { name: item.id.to_string(), values }
    }

    fn of_model(name: &str, step: f64, fields: &Fields) -> Result<AuditionVoice, StageError> {
        let kept =
            |(name, value): (&Arc<str>, &Value)| (name.to_string(), NewValue::Kept(value.clone()));
        let item = checkpoint::item(0, None, fields.iter().map(kept).collect())?;
        let weights = item.values.into_iter().find(|(name, _)| name == WEIGHTS);
        let weights = weights.map(|(_, value)| (WEIGHTS, value));
        let values = [(STEP, NewValue::Number(step))].into_iter().chain(weights).collect();
        Ok(AuditionVoice { name: name.to_owned(), values })
    }
}

/// The base, the checkpoints, and the other models after them.
fn voices(input: &GatherInput) -> Result<Vec<AuditionVoice>, StageError> {
    let base = input.artifact(BASE).map(|fields| AuditionVoice::of_model(BASE, 0.0, fields));
    let mut voices: Vec<AuditionVoice> = base.into_iter().collect::<Result<_, _>>()?;
    let checkpoints: &[Item] =
        if input.ports.contains_key("checkpoints") { input.items("checkpoints")? } else { &[] };
    voices.extend(checkpoints.iter().map(AuditionVoice::of_checkpoint));
    let steps = checkpoints.iter().filter_map(|item| item.fields.number(STEP));
    let last = steps.fold(0.0, f64::max);
    for (number, model) in input.ports.get("models").into_iter().flatten().enumerate() {
        let PortInput::Artifact { stage, fields } = model else { continue };
        voices.push(AuditionVoice::of_model(stage, last + 1.0 + number as f64, fields)?);
    }
    let again =
        (1..voices.len()).find(|at| voices[..*at].iter().any(|own| own.name == voices[*at].name));
    match again {
        None => Ok(voices),
        Some(at) => Err(StageError::with_help(
            format!("two models are called `{}`", voices[at].name),
            "a model on `models` has the name of its stage; the model on `base` is called `base`",
        )),
    }
}

fn pairs(sentences: &[Item], voices: &[AuditionVoice]) -> Vec<NewItem> {
    let each = |sentence| voices.iter().map(move |voice| pair(sentence, voice));
    sentences.iter().flat_map(each).collect()
}

fn pair(sentence: &Item, voice: &AuditionVoice) -> NewItem {
    let text = |text: &str| NewValue::Text(text.to_owned());
    let pair = NewItem::kept(sentence)
        .with("sentence", text(&sentence.id))
        .with("checkpoint", text(&voice.name));
    let values = voice.values.iter();
    let pair = values.fold(pair, |pair, (name, value)| pair.with(name, value.clone()));
    NewItem { id: format!("{}@{}", sentence.id, voice.name), ..pair }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    fn checkpoint(step: u32) -> Item {
        let fields = [
            (STEP, Value::Number(f64::from(step))),
            (WEIGHTS, Value::text(format!("weights of {step}"))),
        ];
        Item::new(format!("step-{step}"), fields.into_iter().collect())
    }

    fn values(item: &NewItem) -> Vec<(&str, &NewValue)> {
        item.values.iter().map(|(name, value)| (name.as_str(), value)).collect()
    }

    fn input(ports: Vec<(&str, Vec<PortInput>)>) -> GatherInput {
        let ports = ports.into_iter().map(|(port, inputs)| (port.to_owned(), inputs));
        GatherInput { ports: ports.collect::<BTreeMap<_, _>>() }
    }

    fn dataset(items: Vec<Item>) -> Vec<PortInput> {
        vec![PortInput::Dataset { stage: String::new(), items, rejects: Vec::new() }]
    }

    fn model(stage: &str, family: &str) -> PortInput {
        let fields = [("family", Value::text(family))].into_iter().collect();
        PortInput::Artifact { stage: stage.to_owned(), fields }
    }

    #[test]
    fn each_sentence_meets_each_checkpoint_and_keeps_its_fields() {
        let text = |text: &str| [("text", Value::text(text))].into_iter().collect();
        let sentences = [Item::new("a", text("Yksi.")), Item::new("b", text("Kaksi."))];
        let voices =
            [checkpoint(40), checkpoint(80)].map(|item| AuditionVoice::of_checkpoint(&item));
        let pairs = pairs(&sentences, &voices);
        let ids: Vec<&str> = pairs.iter().map(|pair| pair.id.as_str()).collect();
        assert_eq!(ids, ["a@step-40", "a@step-80", "b@step-40", "b@step-80"]);
        let kept = |value: Value| NewValue::Kept(value);
        let own = |text: &str| NewValue::Text(text.to_owned());
        assert_eq!(
            values(&pairs[1]),
            [
                ("text", &kept(Value::text("Yksi."))),
                ("sentence", &own("a")),
                ("checkpoint", &own("step-80")),
                (STEP, &kept(Value::Number(80.0))),
                (WEIGHTS, &kept(Value::text("weights of 80"))),
            ]
        );
    }

    #[test]
    fn the_base_is_at_step_0_and_other_models_are_after_the_last_checkpoint() {
        let input = input(vec![
            ("checkpoints", dataset(vec![checkpoint(40), checkpoint(80)])),
            ("base", vec![model("", "vits")]),
            ("models", vec![model("first", "vits"), model("merged", "other")]),
        ]);
        let voices = voices(&input).unwrap();
        let named = |voice: &AuditionVoice| match &voice.values[0].1 {
            NewValue::Number(step) => (voice.name.clone(), *step),
            NewValue::Kept(Value::Number(step)) => (voice.name.clone(), *step),
            other => panic!("{other:?}"),
        };
        let found: Vec<(String, f64)> = voices.iter().map(named).collect();
        let wanted = [
            ("base", 0.0),
            ("step-40", 40.0),
            ("step-80", 80.0),
            ("first", 81.0),
            ("merged", 82.0),
        ];
        assert_eq!(found, wanted.map(|(name, step)| (name.to_owned(), step)));
        // Equal models are equal files, whatever they are called.
        assert_eq!(voices[0].values[1], voices[3].values[1]);
        assert_ne!(voices[0].values[1], voices[4].values[1]);
    }

    #[test]
    fn two_models_of_one_name_are_refused() {
        let twice = vec![("base", vec![model("", "a")]), ("models", vec![model("base", "b")])];
        let error = voices(&input(twice)).err().unwrap();
        assert_eq!(error.to_string(), "two models are called `base`");
    }

    #[test]
    fn without_checkpoints_there_is_nothing_to_speak() {
        let sentence = Item::new("a", stage_core::Fields::new());
        assert!(pairs(std::slice::from_ref(&sentence), &[]).is_empty());
        let none = input(vec![("input", dataset(vec![sentence]))]);
        assert!(voices(&none).unwrap().is_empty());
    }
}
