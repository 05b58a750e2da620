//! The stage `model.audition`: pairs each sentence with each checkpoint.

use std::sync::Arc;

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, PortOutput, Setup,
    Stage, StageError,
};
use stage_families::kinds::model as kinds;
use stage_formats::checkpoint::{STEP, WEIGHTS};

use crate::plain;

pub fn stage() -> Arc<dyn Stage> {
    plain::stage(&kinds::AUDITION, open)
}

struct Audition;

fn open(_: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(Job::Gather(Box::new(Audition)))
}

impl GatherJob for Audition {
    fn run(&mut self, input: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let pairs = pairs(input.items("input")?, input.items("checkpoints")?);
        Ok(GatherOutput::default().with("output", PortOutput::Dataset(pairs)))
    }
}

fn pairs(sentences: &[Item], checkpoints: &[Item]) -> Vec<NewItem> {
    let each = |sentence| checkpoints.iter().map(move |checkpoint| pair(sentence, checkpoint));
    sentences.iter().flat_map(each).collect()
}

fn pair(sentence: &Item, checkpoint: &Item) -> NewItem {
    let id = |item: &Item| NewValue::Text(item.id.to_string());
    let pair =
        NewItem::kept(sentence).with("sentence", id(sentence)).with("checkpoint", id(checkpoint));
    let taken = [STEP, WEIGHTS].into_iter();
    let taken = taken.filter_map(|name| Some((name, checkpoint.fields.get(name)?)));
    let pair =
        taken.fold(pair, |pair, (name, value)| pair.with(name, NewValue::Kept(value.clone())));
    NewItem { id: format!("{}@{}", sentence.id, checkpoint.id), ..pair }
}

#[cfg(test)]
mod tests {
    use stage_core::Value;

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

    #[test]
    fn each_sentence_meets_each_checkpoint_and_keeps_its_fields() {
        let text = |text: &str| [("text", Value::text(text))].into_iter().collect();
        let sentences = [Item::new("a", text("Yksi.")), Item::new("b", text("Kaksi."))];
        let pairs = pairs(&sentences, &[checkpoint(40), checkpoint(80)]);
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
    fn without_checkpoints_there_is_nothing_to_speak() {
        assert!(pairs(&[Item::new("a", stage_core::Fields::new())], &[]).is_empty());
    }
}
