//! Commands that move a cache, its results and models to other places.

pub mod archive;
pub mod cache_commands;
pub mod card;
pub mod deliver;
pub mod export;
pub mod hub;
pub mod remote;
pub mod remote_choice;
