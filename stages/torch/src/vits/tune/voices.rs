//! Who has which number: by name, in an order that no other run can see otherwise.

use std::collections::BTreeSet;

use stage_core::{Context, Fields, Item, StageError};

use crate::train::clips::Sides;
use crate::vits::artifact::Model;

/// Gives the speakers of the clips the numbers of a model that knows several and names none:
/// sorted by name. A model that names its speakers keeps them.
pub fn name(base: &mut Model, sides: &Sides<'_>) -> Result<(), StageError> {
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
            format!("the clips have {} speakers, and the model has room for {places}", names.len()),
            "train on fewer of them, with `dataset.filter`, or begin from a model with more",
        ));
    }
    let mut table: Vec<String> = names.into_iter().collect();
    let rest = table.len() as i64..places;
    table.extend(rest.map(|number| format!("nobody {number}")));
    base.speakers = Some(table);
    Ok(())
}

/// Keeps the numbers of what training goes on from, whoever has joined since.
pub fn take_over(
    base: &mut Model,
    parent: Option<&Fields>,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    let Some(parent) = parent else { return Ok(()) };
    let parent = Model::read("parent", Some(parent), context)?;
    base.speakers = parent.speakers.or(base.speakers.take());
    Ok(())
}

/// How many speakers there are that the model takes for one.
pub fn mixed(base: &Model, sides: &Sides<'_>) -> Option<u64> {
    let count = names(sides).len() as u64;
    (base.config.num_speakers < 2 && count > 1).then_some(count)
}

fn names(sides: &Sides<'_>) -> BTreeSet<String> {
    let items = sides.validation.unwrap_or_default().iter().chain(sides.training);
    let speaker = |item: &Item| item.fields.text("speaker").map(str::to_owned);
    items.filter_map(speaker).collect()
}
