//! Commands that prepare a machine or a project, and the programs that are found on it.

pub mod agents;
pub mod complete;
pub mod doctor;
pub mod init;
pub mod libtorch;
pub mod manual;
pub mod new_stage;
pub mod player;
pub mod templates;
pub mod torch;
pub mod worker;
