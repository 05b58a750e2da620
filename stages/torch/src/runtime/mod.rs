//! The side of libtorch that no model defines: its missing functions, memory, threads and copies.

pub mod budget;
pub mod heap;
pub mod parity;
pub mod shim;
pub mod threads;
pub mod upload;
