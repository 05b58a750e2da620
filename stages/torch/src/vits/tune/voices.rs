//! Speaker numbers: assigned by name, in an order that is the same in every run.

use std::collections::BTreeSet;

use stage_core::key::{HashSink, Sink};
use stage_core::{Context, Fields, Item, StageError};
use stage_formats::shapes::listed;
use tch::{Kind, Tensor};

use crate::nn::random::Random;
use crate::nn::weights::Weights;
use crate::train::clips::Sides;
use crate::vits::artifact::VitsModel;

/// The tensor of speaker embeddings.
const TABLE: &str = "embed_speaker.weight";

/// Assigns numbers to the speakers of the clips, for a model with several unnamed speakers: sorted
/// by name. A model with named speakers keeps them.
pub fn name(
    base: &mut VitsModel,
    sides: &Sides<'_>,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    let places = base.config.num_speakers;
    if places < 2 || base.speakers.is_some() {
        return Ok(());
    }
    let names = names(sides);
    let is_number =
        |name: &String| name.parse().is_ok_and(|number: i64| (0..places).contains(&number));
    if names.iter().all(is_number) {
        return Ok(());
    }
    if names.len() as i64 > places {
        return Err(StageError::with_help(
            format!("the clips have {} speakers, but the model has room for {places}", names.len()),
            "train on fewer speakers with `dataset.filter`, or begin from a model with more",
        ));
    }
    let mut table: Vec<String> = names.into_iter().collect();
    let rest = table.len() as i64..places;
    table.extend(rest.map(|number| format!("nobody {number}")));
    base.set_speakers(table, context)
}

/// Assigns the next numbers to speakers that a model with named speakers lacks, sorted by name, if
/// they may join; reports them.
pub fn join(
    base: &mut VitsModel,
    sides: &Sides<'_>,
    may_join: bool,
    context: &mut dyn Context,
) -> Result<Vec<String>, StageError> {
    let Some(mut known) = base.speakers.clone().filter(|known| known.len() > 1) else {
        return Ok(Vec::new());
    };
    let is_new = |name: &String| base.speaker(Some(name)).is_err();
    let new: Vec<String> = names(sides).into_iter().filter(is_new).collect();
    match (new.is_empty(), may_join) {
        (true, _) => return Ok(new),
        (false, true) => (),
        (false, false) => {
            return Err(StageError::with_help(
                format!(
                    "the model has the speakers {}, but the clips have {}",
                    known.join(", "),
                    listed(new.iter().map(String::as_str))
                ),
                "add them to the model with `new_speakers = \"add\"`, correct the names, or leave \
                 these clips out with `dataset.filter`",
            ));
        }
    }
    known.extend(new.iter().cloned());
    base.set_speakers(known, context)?;
    Ok(new)
}

/// The embedding rows by speaker number, with new speakers last. Their rows depend on the seed,
/// their names and the existing rows.
pub fn seat(weights: &mut Weights, names: &[String], seed: u64) {
    let Some(table) = weights.get(TABLE) else { return };
    let [rows, width] = table.size()[..] else { return };
    let known = table.to_kind(Kind::Double);
    let mean = known.mean_dim([0i64].as_slice(), false, Kind::Double);
    let deviation = known.std_dim([0i64].as_slice(), false, false);
    let mut parts = vec![table.shallow_clone()];
    for name in names.iter().skip(rows as usize) {
        let mut random = Random::new(seed ^ number_of(name));
        let row = &mean + random.normal(&[width], 1.0) * &deviation;
        parts.push(row.unsqueeze(0).to_kind(table.kind()));
    }
    weights.insert(TABLE, Tensor::cat(&parts, 0));
}

/// The same number for a name everywhere.
fn number_of(name: &str) -> u64 {
    let mut sink = HashSink::default();
    sink.text("speaker", name);
    let digest = sink.finish();
    digest.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Keeps the numbers of the parent, even if speakers have joined since.
pub fn take_over(
    base: &mut VitsModel,
    parent: Option<&Fields>,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    let Some(parent) = parent else { return Ok(()) };
    let parent = VitsModel::read("parent", Some(parent), context)?;
    match parent.speakers {
        Some(names) => base.set_speakers(names, context),
        None => Ok(()),
    }
}

/// The number of speakers that the model treats as one.
pub fn mixed(base: &VitsModel, sides: &Sides<'_>) -> Option<u64> {
    let count = names(sides).len() as u64;
    (base.config.num_speakers < 2 && count > 1).then_some(count)
}

fn names(sides: &Sides<'_>) -> BTreeSet<String> {
    let items = sides.validation.unwrap_or_default().iter().chain(sides.training);
    let speaker = |item: &Item| item.fields.text("speaker").map(str::to_owned);
    items.filter_map(speaker).collect()
}
