//! A small disk for programs under test: a `tmpfs` in a mount namespace, removed with the programs.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Prepares `$DISK`, then runs the lines. Growing it is `grow SIZE`.
const PRELUDE: &str = r#"
set -u
DISK=$1
mkdir -p "$DISK" && mount -t tmpfs -o "size=$2" none "$DISK" || exit 99
grow() { mount -o "remount,size=$1" "$DISK" || exit 99; }
"#;

/// The exit status if the disk cannot be mounted.
const NO_DISK: i32 = 99;

/// Enters a namespace in which a disk may be mounted: as root, or as root of a user namespace.
fn entry() -> Option<&'static [&'static str]> {
    static ENTRY: OnceLock<Option<&[&str]>> = OnceLock::new();
    *ENTRY.get_or_init(|| {
        let ways: [&[&str]; 2] = [&["--mount"], &["--map-root-user", "--mount"]];
        let folder = tempfile::tempdir().unwrap();
        ways.into_iter().find(|way| {
            let output = enter(way, folder.path(), "64k", "true");
            output.is_some_and(|output| output.status.success())
        })
    })
}

/// True if a test may mount a disk on this machine. Otherwise tests with a limit on file sizes
/// replace those of full disks.
pub fn is_available() -> bool {
    let is_available = entry().is_some();
    if !is_available {
        eprintln!("no disk can be mounted here: full disks are not tried with programs");
    }
    is_available
}

fn enter(way: &[&str], folder: &Path, size: &str, lines: &str) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(way).args(["sh", "-c"]).arg(format!("{PRELUDE}{lines}"));
    command.args(["sh"]).arg(folder.join("disk")).arg(size).current_dir(folder).output().ok()
}

/// Runs shell lines in a folder with a disk of this size in `disk`, also as `$DISK`.
pub fn script(folder: &Path, size: &str, lines: &str) -> Output {
    let output = enter(entry().unwrap(), folder, size, lines).unwrap();
    assert_ne!(output.status.code(), Some(NO_DISK), "{output:?}");
    output
}
