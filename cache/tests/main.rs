//! Tests of the cache through its public interface, a module for each subject, as one program.

mod common;

mod archive;
mod archive_edits;
mod archive_trouble;
mod crash;
mod damage;
mod faults;
mod leftovers;
mod long_records;
mod lost_packs;
mod model;
mod restart;
mod sharing;
mod stat;
mod store;
mod sweep;
mod unfinished;
