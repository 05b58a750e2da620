//! Every message, as a user sees it.

mod exports;
mod graph;
mod names;
mod prices;
mod text;
mod values;
