//! The inputs of a program as files in its private folder.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::OnceLock;

use bytes::Bytes;
use cache::in_shares;
use camino::{Utf8Path, Utf8PathBuf};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use stage_core::{Blob, Context, Item, StageError};

use super::private::{INPUTS, create, write};
use crate::audio::sniff;

/// Fewer inputs are written by one thread: others would cost more than they save.
const FEW: usize = 64;
/// The folders for many inputs. Threads that create files in the same folder wait for each other,
/// ext4 even for seconds.
const SHARES: usize = 8;
/// The inputs in a row in one of these folders: a thread takes as many at a time.
const IN_A_ROW: usize = 16;

/// Writes a file for the command. It is a copy: a program may change its input in place.
pub fn lay_out(file: &Utf8Path, kind: &str, bytes: &Bytes) -> Result<Utf8PathBuf, StageError> {
    let file = Utf8PathBuf::from(format!("{file}.{}", extension(kind, bytes)));
    write(&file, bytes)?;
    Ok(file)
}

/// Tools go by the extension, and the kind ends in it: `audio/wav`. The bytes of a user's recording
/// determine its format.
pub fn extension(kind: &str, bytes: &[u8]) -> String {
    match kind {
        Blob::RECORDING => sniff::extension(bytes).unwrap_or(Blob::RECORDING).to_owned(),
        kind => safe_name(kind.rsplit('/').next().unwrap_or_default()),
    }
}

/// A name of letters, digits, hyphens and underscores only.
pub fn safe_name(name: &str) -> String {
    let is_safe = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    name.chars().map(|character| if is_safe(character) { character } else { '_' }).collect()
}

/// Writes the bytes in these fields of all items as files. Returns their paths with the blobs, by item
/// and then by field.
pub fn lay_out_all<'a>(
    items: &'a [Item],
    fields: &[String],
    folder: &Utf8Path,
    context: &mut dyn Context,
) -> Result<Vec<(Utf8PathBuf, &'a Blob)>, StageError> {
    let all = items.iter().enumerate().flat_map(|(number, item)| {
        let blob = move |name: &String| {
            let blob: &Blob = item.fields.blob(name)?;
            Some((format!("{number:06}-{}", safe_name(name)), blob))
        };
        fields.iter().filter_map(blob)
    });
    let (names, blobs): (Vec<String>, Vec<&Blob>) = all.unzip();
    lay_out_as(&names, &blobs, folder, context)
}

/// Writes these blobs as files with these names. Returns their paths with the blobs.
pub fn lay_out_as<'a>(
    names: &[String],
    blobs: &[&'a Blob],
    folder: &Utf8Path,
    context: &mut dyn Context,
) -> Result<Vec<(Utf8PathBuf, &'a Blob)>, StageError> {
    if blobs.len() < FEW {
        let one = |(name, blob): (&String, &&'a Blob)| {
            let bytes = context.read(blob)?;
            Ok((lay_out(&folder.join(INPUTS).join(name), &blob.kind, &bytes)?, *blob))
        };
        return names.iter().zip(blobs).map(one).collect();
    }
    create_shares(folder, blobs.len())?;
    let files: Vec<OnceLock<Utf8PathBuf>> = blobs.iter().map(|_| OnceLock::new()).collect();
    context.read_each(blobs, &|at, bytes| {
        let file = lay_out(&share(folder, at).join(&names[at]), &blobs[at].kind, &bytes)?;
        files[at].get_or_init(|| file);
        Ok(())
    })?;
    Ok(files.into_iter().filter_map(OnceLock::into_inner).zip(blobs.iter().copied()).collect())
}

/// The folder for one of many inputs.
fn share(folder: &Utf8Path, input: usize) -> Utf8PathBuf {
    folder.join(INPUTS).join((input / IN_A_ROW % SHARES).to_string())
}

/// Creates the folders for this number of inputs.
fn create_shares(folder: &Utf8Path, inputs: usize) -> Result<(), StageError> {
    let shares = inputs.div_ceil(IN_A_ROW).min(SHARES);
    (0..shares).try_for_each(|number| create(&share(folder, number * IN_A_ROW)))
}

/// Removes the files in the folders for many inputs, on several threads: most of the time goes into
/// freeing their pages. Errors are left to the removal of the whole folder.
pub fn remove(folder: &Utf8Path, made: Option<(u64, u64)>) {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened = File::options().read(true).custom_flags(flags.bits()).open(folder);
    // A program may have put something else under any of these names.
    let is_made =
        |found: &File| found.metadata().is_ok_and(|found| Some((found.dev(), found.ino())) == made);
    let Some(opened) = opened.ok().filter(is_made) else { return };
    let open = |above: BorrowedFd, name: &str| openat(above, name, flags, Mode::empty());
    let Ok(inputs) = open(opened.as_fd(), INPUTS) else { return };
    let remove = |numbers: Range<usize>| -> Vec<()> {
        for number in numbers {
            let name = number.to_string();
            let Ok(share) = open(inputs.as_fd(), &name) else { continue };
            let Ok(entries) = fs::read_dir(folder.join(INPUTS).join(&name)) else { continue };
            for entry in entries.flatten() {
                let _ = unlinkat(&share, entry.file_name().as_os_str(), UnlinkatFlags::NoRemoveDir);
            }
        }
        Vec::new()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    in_shares(SHARES, 1, threads, remove);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::super::private::identity;
    use super::*;

    fn names(folder: &Utf8Path) -> Vec<String> {
        let entries = folder.read_dir_utf8().unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_owned()).collect()
    }

    #[test]
    fn many_inputs_are_removed_and_nothing_that_is_under_their_name() {
        let many = 2 * SHARES * IN_A_ROW;
        let fill = |folder: &Utf8Path| {
            create_shares(folder, many).unwrap();
            (0..many).for_each(|n| fs::write(share(folder, n).join(n.to_string()), "x").unwrap());
        };
        let left = |folder: &Utf8Path| -> usize {
            let below = |name: String| names(&folder.join(INPUTS).join(name)).len();
            names(&folder.join(INPUTS)).into_iter().map(below).sum()
        };
        // The name of the inputs, of one of their folders, and none is a link to files of others.
        for (own, linked, expected) in [
            (true, None, 0),
            (true, Some("in"), many),
            (true, Some("in/3"), many / SHARES),
            (false, None, many),
        ] {
            let place = tempfile::tempdir().unwrap();
            let above = Utf8Path::from_path(place.path()).unwrap();
            let (folder, theirs) = (above.join("command"), above.join("theirs"));
            fill(&theirs);
            fill(&folder);
            if let Some(name) = linked {
                fs::rename(folder.join(name), folder.join("moved")).unwrap();
                symlink(theirs.join(name), folder.join(name)).unwrap();
            }
            let made = if own { identity(folder.as_std_path()) } else { None };
            remove(&folder, made);
            assert_eq!(left(&theirs), many);
            assert_eq!(left(&folder), expected, "{linked:?}");
        }
    }
}
