//! Item stages: the way of items from stage to stage, and what becomes of each.

pub mod batch;
pub mod before;
pub mod duplicates;
pub mod flow;
pub mod intake;
pub mod item_results;
pub mod item_stage;
pub mod program_check;
pub mod quarantine_list;
pub mod queue;
pub mod reaction;
pub mod results;
