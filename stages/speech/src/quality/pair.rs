//! `quality.pair`: each synthesis with the recording of the same sentence.

use std::collections::BTreeMap;

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, PortOutput,
    Reject, Setup, StageError,
};

struct PairStage {
    by: String,
    reference_by: String,
    take: Vec<String>,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let by = parameters.text("by")?.to_owned();
    let reference_by = if parameters.is_set("reference_by") {
        parameters.text("reference_by")?.to_owned()
    } else {
        by.clone()
    };
    let take = parameters.texts("take")?.into_iter().map(str::to_owned).collect();
    Ok(Job::Gather(Box::new(PairStage { by, reference_by, take })))
}

impl GatherJob for PairStage {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let syntheses = input.items("input")?;
        let references = self.references(input.items("reference")?)?;
        let (mut pairs, mut alone) = (Vec::new(), Vec::new());
        for (place, item) in syntheses.iter().enumerate() {
            match key(item, &self.by).and_then(|key| references.get(key)) {
                Some(reference) => pairs.push(self.pair(item, reference)?),
                None => alone.push((place, self.alone(item))),
            }
        }
        if pairs.is_empty() && !syntheses.is_empty() {
            return Err(self.strangers(syntheses.len(), references.len()));
        }
        context.set_aside("input", alone)?;
        Ok(GatherOutput::default().with("output", PortOutput::Dataset(pairs)))
    }
}

/// The key that pairs an item: its id, or the text in a field.
fn key<'a>(item: &'a Item, by: &str) -> Option<&'a str> {
    if by == "id" { Some(&item.id) } else { item.fields.text(by) }
}

impl PairStage {
    fn references<'a>(&self, items: &'a [Item]) -> Result<BTreeMap<&'a str, &'a Item>, StageError> {
        let mut found: BTreeMap<&str, &Item> = BTreeMap::new();
        for item in items {
            let Some(key) = key(item, &self.reference_by) else { continue };
            if let Some(other) = found.insert(key, item) {
                return Err(StageError::with_help(
                    format!(
                        "the recordings `{}` and `{}` have the same `{}`",
                        other.id, item.id, self.reference_by
                    ),
                    "keep one of them with `dataset.filter`, or pair by another field",
                ));
            }
        }
        Ok(found)
    }

    fn pair(&self, item: &Item, reference: &Item) -> Result<NewItem, StageError> {
        self.take.iter().try_fold(NewItem::kept(item), |pair, name| {
            let value = reference.fields.get(name).ok_or_else(|| {
                StageError::with_help(
                    format!("the recording `{}` has no field `{name}` to take", reference.id),
                    "`take` names fields of the items on `reference`",
                )
            })?;
            Ok(pair.with(&format!("reference_{name}"), NewValue::Kept(value.clone())))
        })
    }

    fn alone(&self, item: &Item) -> Reject {
        let (by, reference_by) = (&self.by, &self.reference_by);
        let reason = match key(item, by) {
            Some(key) => format!("no recording has `{key}` as its `{reference_by}`"),
            None => format!("it has no text in `{by}` to find its recording by"),
        };
        Reject::new("no-recording", reason)
    }

    fn strangers(&self, syntheses: usize, references: usize) -> StageError {
        StageError::with_help(
            format!(
                "no item of `input` ({syntheses}) matches an item of `reference` ({references}): \
                 no `{}` equals a `{}`",
                self.by, self.reference_by
            ),
            "`throstle items STAGE` lists the ids; set `by` and `reference_by` to pair by other \
             fields",
        )
    }
}
