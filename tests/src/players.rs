//! Programs of others that `tools/players.sh` and `tools/judges.sh` install.

use std::path::PathBuf;
use std::process::Command;

use crate::guide::root;

/// Its Python, if it can import these modules.
pub fn players(modules: &str) -> Option<PathBuf> {
    let python = root().join(".players/bin/python");
    let import = format!("import {modules}");
    let has = Command::new(&python).args(["-c", &import]).output();
    has.is_ok_and(|output| output.status.success()).then_some(python)
}

/// The folder of the judges, if all of them are installed.
pub fn judges() -> Option<PathBuf> {
    let folder = root().join(".judges");
    let is_whole = folder.join("wanted").exists() && folder.join("whisper-base/model.bin").exists();
    is_whole.then_some(folder)
}

/// Its folder with packages of Node, if `node` finds this one there.
pub fn node_players(package: &str) -> Option<PathBuf> {
    let folder = root().join(".players/node");
    let find = format!("require.resolve({package:?})");
    let has = Command::new("node").args(["-e", &find]).current_dir(&folder).output();
    has.is_ok_and(|output| output.status.success()).then_some(folder)
}
