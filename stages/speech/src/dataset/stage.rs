//! The stages of the family `dataset` except packing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::dataset::kinds;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, ParameterValue,
    Parameters, PortInput, PortOutput, Reject, Setup, Stage, StageError,
};

use stage_families::clips::{repeats, repeats_note};

use super::corpus;
use super::filter::{Condition, DropReason, Test};
use super::merge::{self, Prefix};
use super::pack;
use super::split::{self, Member, SplitSide};
use crate::plain::{stage, unknown_choice};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![
        stage(&kinds::SPLIT, open_split),
        stage(&kinds::FILTER, open_filter),
        stage(&kinds::MERGE, open_merge),
        stage(&kinds::ITEM, open_item),
        stage(&kinds::CORPUS, corpus::open),
        stage(&kinds::PACK, pack::stage::open),
    ]
}

/// A note, and the number of items that have it.
type Note = (String, u64);

struct DatasetSplit {
    options: split::SplitOptions,
    group: Option<String>,
    keeps_repeats: bool,
}

fn open_split(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let minimum = parameters.integer("minimum_per_speaker")?;
    let group =
        if parameters.is_set("group") { Some(parameters.text("group")?.to_owned()) } else { None };
    let options = split::SplitOptions {
        fraction: parameters.number("fraction")?,
        salt: parameters.text("split_salt")?.to_owned(),
        minimum_per_speaker: usize::try_from(minimum).unwrap_or_default(),
    };
    let keeps_repeats = parameters.text("repeats")? == kinds::KEEP_REPEATS;
    Ok(Job::Gather(Box::new(DatasetSplit { options, group, keeps_repeats })))
}

impl GatherJob for DatasetSplit {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let items = input.items("input")?;
        let members: Result<Vec<Member<'_>>, StageError> =
            items.iter().map(|item| self.member(item)).collect();
        let sides = split::split(&members?, &self.options);
        let (left_out, repeated) = self.repeats(items, &sides, context)?;
        let pairs = || {
            let all = items.iter().zip(&sides).enumerate();
            all.filter(|(at, _)| !left_out.contains(at)).map(|(_, pair)| pair)
        };
        let of = |wanted: SplitSide| -> Vec<NewItem> {
            let pairs = pairs().filter(|(_, side)| **side == wanted);
            pairs.map(|(item, _)| NewItem::kept(item)).collect()
        };
        let all = pairs().map(|(item, side)| {
            NewItem::kept(item).with("side", NewValue::Text(side_name(*side).to_owned()))
        });
        let (training, validation) = (of(SplitSide::Training), of(SplitSide::Validation));
        let mut notes = vec![
            ("training".to_owned(), training.len() as u64),
            ("validation".to_owned(), validation.len() as u64),
        ];
        if validation.is_empty() && training.len() > 1 && self.options.fraction > 0.0 {
            notes.push((none_held_out(left_out.len()), training.len() as u64));
        }
        let leaks = split::leaks(
            pairs().filter_map(|(item, side)| Some((item.fields.text("text")?, *side))),
        );
        if !leaks.is_empty() {
            notes.push(("texts on both sides".to_owned(), leaks.len() as u64));
        }
        notes.extend(repeated);
        let output = GatherOutput::default()
            .with("all", PortOutput::Dataset(all.collect()))
            .with("training", PortOutput::Dataset(training))
            .with("validation", PortOutput::Dataset(validation));
        Ok(GatherOutput { notes, ..output })
    }
}

/// The note of a split without held-out clips. `repeats`: the number that repeat a training clip.
fn none_held_out(repeats: usize) -> String {
    match repeats {
        0 => "items, none held out (raise `fraction`)".to_owned(),
        1 => "items, none held out (`repeats` dropped the only one, which has the sound of a training clip)"
            .to_owned(),
        repeats => format!(
            "items, none held out (`repeats` dropped all {repeats}, which have the sound of training clips)"
        ),
    }
}

impl DatasetSplit {
    /// Reports the held-out clips with the sound of a training clip: those that are left out by
    /// name, and otherwise a note.
    fn repeats(
        &self,
        items: &[Item],
        sides: &[SplitSide],
        context: &mut dyn Context,
    ) -> Result<(BTreeSet<usize>, Option<Note>), StageError> {
        let sound = |item: &Item| item.fields.blob("audio").map(|audio| audio.digest);
        let pairs = items.iter().zip(sides);
        let found = repeats(
            pairs.map(|(item, side)| (&*item.id, sound(item), *side == SplitSide::Validation)),
        );
        let Some((first, original)) = found.first() else { return Ok(Default::default()) };
        if self.keeps_repeats {
            let note = repeats_note(&items[*first].id, original);
            return Ok((BTreeSet::new(), Some((note, found.len() as u64))));
        }
        let reject = |(at, original): &(usize, &str)| {
            let reason = format!("its sound is that of `{original}`, which is in training");
            (*at, Reject::new(Reject::REPEATED, reason))
        };
        context.set_aside("input", found.iter().map(reject).collect())?;
        Ok((found.into_iter().map(|(at, _)| at).collect(), None))
    }

    fn member<'a>(&self, item: &'a Item) -> Result<Member<'a>, StageError> {
        let group = match &self.group {
            None => None,
            Some(field) => Some(item.fields.text(field).ok_or_else(|| {
                StageError::failed(format!(
                    "the item `{}` has no text in the field `{field}`, which the split groups by",
                    item.id
                ))
            })?),
        };
        Ok(Member { id: &item.id, group, speaker: item.fields.text("speaker") })
    }
}

fn side_name(side: SplitSide) -> &'static str {
    match side {
        SplitSide::Training => "training",
        SplitSide::Validation => "validation",
    }
}

struct Filter(Vec<Condition>);

fn open_filter(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let mut conditions = Vec::new();
    for written in setup.parameters.list("where")? {
        conditions.extend(conditions_of(written)?);
    }
    Ok(Job::Gather(Box::new(Filter(conditions))))
}

/// One table of `where`: a field and one test or several.
fn conditions_of(written: &ParameterValue) -> Result<Vec<Condition>, StageError> {
    let ParameterValue::Map(map) = written else {
        return Err(StageError::failed(format!("a condition must be a table, not {written}")));
    };
    let table = stage_core::Parameters(map.clone());
    let field = table.text("field")?;
    let bound = |name: &str| -> Result<Option<f64>, StageError> {
        table.is_set(name).then(|| table.number(name)).transpose()
    };
    let length = |name: &str| -> Result<Option<u64>, StageError> {
        Ok(bound(name)?.map(|number| number.max(0.0) as u64))
    };
    let texts = |name: &str| -> Result<Vec<String>, StageError> {
        Ok(table.texts(name)?.into_iter().map(str::to_owned).collect())
    };
    let mut tests = Vec::new();
    if table.is_set("min") || table.is_set("max") {
        tests.push(Test::Between { min: bound("min")?, max: bound("max")? });
    }
    if table.is_set("min_length") || table.is_set("max_length") {
        tests.push(Test::Length { min: length("min_length")?, max: length("max_length")? });
    }
    if table.is_set("any_of") {
        tests.push(Test::AnyOf(texts("any_of")?));
    }
    if table.is_set("none_of") {
        tests.push(Test::NoneOf(texts("none_of")?));
    }
    if table.is_set("not_empty") && table.flag("not_empty")? {
        tests.push(Test::NotEmpty);
    }
    if tests.is_empty() {
        return Err(StageError::with_help(
            format!("the condition on `{field}` tests nothing"),
            "add `min`, `max`, `any_of`, `none_of`, `min_length`, `max_length` or `not_empty`",
        ));
    }
    Ok(tests.into_iter().map(|test| Condition { field: field.to_owned(), test }).collect())
}

impl GatherJob for Filter {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let items = input.items("input")?;
        let mut unmet: BTreeMap<String, u64> = BTreeMap::new();
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut kept, mut untested) = (Vec::new(), Vec::new());
        for (place, item) in items.iter().enumerate() {
            let failed = self.0.iter().find_map(|condition| {
                condition.check(item).err().map(|failure| (condition, failure))
            });
            match failed {
                None => kept.push(NewItem::kept(item)),
                Some((condition, failure)) => {
                    let field = condition.field.as_str();
                    *missing.entry(field).or_default() +=
                        usize::from(failure == DropReason::Missing);
                    if failure == DropReason::Missing && !condition.is_for_missing() {
                        untested.push((place, condition.untested()))
                    } else {
                        *unmet.entry(format!("left out by `{field}`")).or_default() += 1
                    }
                }
            }
        }
        if let Some((field, _)) =
            missing.iter().find(|(_, count)| **count == items.len() && !items.is_empty())
        {
            return Err(StageError::failed(format!(
                "no item has the field `{field}`, which the condition tests"
            )));
        }
        context.set_aside("input", untested)?;
        let output = GatherOutput::default().with("output", PortOutput::Dataset(kept));
        Ok(GatherOutput { notes: unmet.into_iter().collect(), ..output })
    }
}

struct Merge(Prefix);

fn open_merge(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let prefix = match setup.parameters.text("prefix")? {
        "never" => Prefix::Never,
        "stage" => Prefix::Stage,
        other => return Err(unknown_choice("prefix", other)),
    };
    Ok(Job::Gather(Box::new(Merge(prefix))))
}

impl GatherJob for Merge {
    fn run(&mut self, input: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let arrived = input.ports.get("input").map(Vec::as_slice).unwrap_or_default();
        let sets: Vec<(&str, &[Item])> = arrived
            .iter()
            .filter_map(|input| match input {
                PortInput::Dataset { stage, items, .. } => Some((stage.as_str(), items.as_slice())),
                PortInput::Artifact { .. } | PortInput::Sums { .. } => None,
            })
            .collect();
        let merged =
            merge::merge(&sets, self.0).map_err(|error| StageError::failed(error.to_string()))?;
        let items = merged.iter().map(NewItem::kept).collect();
        Ok(GatherOutput::default().with("output", PortOutput::Dataset(items)))
    }
}

/// The id of the item; without one, the only item.
struct One(Option<String>);

fn open_item(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let id = setup.parameters.if_set("id", Parameters::text)?;
    Ok(Job::Gather(Box::new(One(id.map(str::to_owned)))))
}

impl GatherJob for One {
    fn run(&mut self, input: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let items = input.items("input")?;
        let found = match &self.0 {
            Some(id) => items.iter().find(|item| *item.id == **id),
            None => items.first().filter(|_| items.len() == 1),
        };
        let item = found.ok_or_else(|| {
            let message = match &self.0 {
                Some(id) => {
                    format!("there is no item `{id}` among the {} of `input`", items.len())
                }
                None => format!("`input` has {} items: set `id` to choose one", items.len()),
            };
            StageError::with_help(message, "`throstle items STAGE` lists the ids of a stage")
        })?;
        let artifact = PortOutput::Artifact(NewItem::kept(item).values);
        Ok(GatherOutput::default().with("output", artifact))
    }
}
