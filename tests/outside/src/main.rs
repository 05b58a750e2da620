//! `throstle` with one more stage, `my.whisper`. It has every command of `throstle`; manifests that
//! use the stage run with this program and are checked, planned and explained by it.

mod whisper;

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let mut stages = stage_speech::stages();
    stages.push(Arc::new(whisper::WhisperStage));
    cli::main(stages)
}
