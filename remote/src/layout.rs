//! The names in a remote. They are made of digests and numbers only.

use cache::{Digest, volume_name};

/// The names below the packs.
pub const PACKS: &str = "packs";
pub const RESULTS: &str = "results";
pub const OBJECTS: &str = "objects";
pub const KNOWN: &str = "known";
pub const LOGS: &str = "logs";
pub const CHECKPOINTS: &str = "ckpt";
/// Says that a folder is a remote, and its format.
pub const MARK: &str = "THROSTLE";
pub const FORMAT: &str = "throstle remote 1\n";

/// The folder of a pack.
pub fn pack(id: &Digest) -> String {
    format!("{PACKS}/{id}")
}

pub fn volume(id: &Digest, number: u32) -> String {
    format!("{PACKS}/{id}/{}", volume_name(number))
}

/// The positions in a pack; without it, volumes are no pack.
pub fn index(id: &Digest) -> String {
    format!("{PACKS}/{id}/INDEX")
}

/// The index that `unpack-cache` reads.
pub fn archive(id: &Digest) -> String {
    format!("{PACKS}/{id}/ARCHIVE")
}

pub fn object(digest: &Digest) -> String {
    let text = digest.to_string();
    format!("{OBJECTS}/{}/{text}", &text[..2])
}

pub fn result(key: &Digest) -> String {
    format!("{RESULTS}/{key}")
}

pub fn scope(scope: &Digest) -> String {
    format!("{KNOWN}/{scope}")
}

pub fn known(scope: &Digest, pack: &Digest) -> String {
    format!("{KNOWN}/{scope}/{pack}")
}

/// The scope and the pack of a label, from its name.
pub fn label_of(name: &str) -> Option<(Digest, Digest)> {
    let (of, pack) = name.strip_prefix(KNOWN)?.strip_prefix('/')?.split_once('/')?;
    let (of, pack) = (of.parse().ok()?, pack.parse().ok()?);
    (known(&of, &pack) == name).then_some((of, pack))
}

/// The name in messages for a pack without any label.
pub fn any_label(pack: &Digest) -> String {
    format!("{KNOWN}/*/{pack}")
}

/// The checkpoints of a training.
pub fn checkpoints(key: &Digest) -> String {
    format!("{CHECKPOINTS}/{key}")
}

pub fn checkpoint(key: &Digest, number: u64) -> String {
    format!("{CHECKPOINTS}/{key}/{number:010}")
}

/// The training and the number of a listed checkpoint.
pub fn checkpoint_of(name: &str) -> Option<(Digest, u64)> {
    let (key, number) = name.strip_prefix(CHECKPOINTS)?.strip_prefix('/')?.split_once('/')?;
    let (key, number) = (key.parse().ok()?, number.parse().ok()?);
    (checkpoint(&key, number) == name).then_some((key, number))
}

pub fn log(name: &str) -> String {
    format!("{LOGS}/{name}")
}

/// Tests if a folder of this name is a part of a remote.
pub fn is_folder(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_digest = |part: &str| part.parse::<Digest>().is_ok();
    match parts[..] {
        [PACKS | RESULTS | OBJECTS | KNOWN | LOGS | CHECKPOINTS] => true,
        [PACKS | KNOWN | CHECKPOINTS, id] => is_digest(id),
        [OBJECTS, start] => start.len() == 2,
        _ => false,
    }
}

/// The problem of an entry with the wrong type.
pub fn expected(name: &str) -> &'static str {
    if is_folder(name) { "not a folder" } else { "not a file" }
}

/// Tests if a remote has its own files or folders under this name.
pub fn is_own(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    name == MARK || is_folder(first)
}

/// A file that is being written, or that was when a push broke off.
pub fn is_unfinished(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|last| last.starts_with(".throstle-"))
}

/// The digest at the end of a listed name.
pub fn digest_of(name: &str) -> Option<Digest> {
    name.rsplit('/').next()?.parse().ok()
}

/// The pack that a listed name belongs to.
pub fn pack_of(name: &str) -> Option<Digest> {
    name.strip_prefix(PACKS)?.strip_prefix('/')?.split('/').next()?.parse().ok()
}

/// Tests if a name is below this folder of the remote.
pub fn is_in(name: &str, folder: &str) -> bool {
    name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Tests if a name is one that this program gives to a file of a pack.
pub fn is_of_pack(name: &str) -> bool {
    pack_of(name).is_some_and(|id| {
        name == index(&id) || name == archive(&id) || volume_number(&id, name).is_some()
    })
}

/// The number of a volume of this pack.
pub fn volume_number(id: &Digest, name: &str) -> Option<u32> {
    let last = name.rsplit('/').next()?;
    let number = last.strip_prefix("volume-")?.strip_suffix(".pack")?.parse().ok()?;
    (volume(id, number) == name).then_some(number)
}

/// The name of a log is accepted only in the form that this program writes.
pub fn is_log(name: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let Some(stem) = name.strip_suffix(".jsonl") else { return false };
    !stem.is_empty() && stem.len() <= 300 && stem.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_name_is_understood_only_if_it_could_have_been_made_here() {
        let digest = Digest::of(b"x");
        assert_eq!(digest_of(&known(&digest, &digest)), Some(digest));
        assert_eq!(pack_of(&volume(&digest, 3)), Some(digest));
        assert_eq!(label_of(&known(&digest, &digest)), Some((digest, digest)));
        for name in [any_label(&digest), format!("known/x/{digest}"), scope(&digest)] {
            assert_eq!(label_of(&name), None, "{name}");
        }
        for name in ["packs/../x", "packs", "packs/ABC/INDEX", "results/..", "known/a/../../etc"] {
            assert_eq!((digest_of(name), pack_of(name)), (None, None), "{name}");
        }
        assert_eq!(checkpoint_of(&checkpoint(&digest, 7)), Some((digest, 7)));
        for number in ["7", "00000000007", "-000000007", "+000000007", "0000000007/x"] {
            assert_eq!(checkpoint_of(&format!("ckpt/{digest}/{number}")), None, "{number}");
        }
        for folder in [pack(&digest), scope(&digest), checkpoints(&digest), "objects/ab".to_owned()]
        {
            assert!(is_folder(&folder) && is_own(&folder), "{folder}");
        }
        for file in [result(&digest), index(&digest), object(&digest), log("a-1-b.jsonl")] {
            assert!(!is_folder(&file) && is_own(&file), "{file}");
        }
        assert!(!is_own("notes/todo") && is_own(MARK));
        assert!(is_log("voice-17-ab.jsonl"));
        for name in ["../x.jsonl", "a/b.jsonl", ".jsonl", "x.txt", "a\nb.jsonl"] {
            assert!(!is_log(name), "{name}");
        }
    }
}
