//! The processes with libtorch: their threads, their messages, and stages that stay open in them.

pub mod client;
pub mod desk;
pub mod device;
pub mod process;
pub mod stage_worker;
pub mod watchdog;
pub mod worker;
