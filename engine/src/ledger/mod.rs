//! What runs have left behind about themselves: records in the index of the cache, and logs.

pub mod gpu_hours;
pub mod history;
pub mod measure;
pub mod noted;
pub mod record;
pub mod runlog;
pub mod spending;
pub mod unrecorded;
