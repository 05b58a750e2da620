//! The effects of a handler, which the schedule applies in one place.

use stage_core::event::Event;

#[derive(Default)]
pub struct Effects {
    /// Something was recorded, and has to become durable.
    pub has_recorded: bool,
    pub events: Vec<Event>,
}
