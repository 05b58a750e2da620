//! The index of the packs: where each object is, and the records. It can be made again from the packs.

pub mod backend;
pub mod checked;
pub mod database;
pub mod gate;
pub mod ledger;
pub mod rows;
pub mod tables;
