//! Who has which number: by name, in an order that no other run can see otherwise.

use std::collections::BTreeSet;

use stage_core::{Item, StageError};

use crate::train::clips::Sides;
use crate::vits::artifact::Model;

/// Gives the speakers of the clips the numbers of a model that knows several and names none:
/// sorted by name. A model that names its speakers keeps them.
pub fn name(base: &mut Model, sides: &Sides<'_>) -> Result<(), StageError> {
    let places = base.config.num_speakers;
    if places < 2 || base.speakers.is_some() {
        return Ok(());
    }
    let items = sides.validation.unwrap_or_default().iter().chain(sides.training);
    let speaker = |item: &'_ Item| item.fields.text("speaker").map(str::to_owned);
    let names: BTreeSet<String> = items.filter_map(speaker).collect();
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
