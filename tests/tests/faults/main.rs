//! What goes wrong around a run: failing file operations, lost power, kills, damage, hostile data,
//! broken programs, and other processes. Finished work stays, and the next run finishes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod broken_programs;
mod clock;
mod damage;
mod exchanged;
mod hostile;
mod kill;
mod machine;
mod operations;
mod power;
mod scale;
mod sharing;
mod stages;
mod unruly;
