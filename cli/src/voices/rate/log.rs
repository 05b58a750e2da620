//! The file of a rater in the project: every vote is durable before the next pair is shown.

use std::sync::Arc;

use cache::fs::{Fs, FsFile, FsResult, Open};
use camino::{Utf8Path, Utf8PathBuf};
use stage_speech::rate::votes::{self, Vote, Votes};

use crate::error::CliError;

/// The votes of a rater, and the file that they are appended to.
pub struct VoteLog {
    fs: Arc<dyn Fs>,
    path: Utf8PathBuf,
    file: Box<dyn FsFile>,
    inode: u64,
    votes: Votes,
    /// The end of the last whole line.
    end: u64,
    /// A write failed, so that there may be a part of a line behind the end.
    is_torn: bool,
}

impl VoteLog {
    /// Opens the file, and makes it if necessary. A last line that was cut off is removed.
    pub fn open(
        fs: Arc<dyn Fs>,
        folder: &Utf8Path,
        stage: &str,
        rater: &str,
    ) -> Result<VoteLog, CliError> {
        fs.create_dir_all(folder)?;
        let path = path(folder, rater);
        let file = fs.open(&path, Open::Create)?;
        if !file.try_lock_byte(0)? {
            let message = format!("`{rater}` is rating in another program");
            return Err(CliError::failed(message, "stop that program, or choose another name"));
        }
        let inode = file.metadata()?.inode;
        let bytes = fs.read(&path)?;
        let is_begun = bytes.contains(&b'\n');
        if !is_begun {
            let head = votes::head(stage, rater);
            file.set_len(0)?;
            file.write_all_at(head.as_bytes(), 0)?;
            file.sync_data()?;
            fs.sync_dir(folder)?;
            let votes = read(&path, head.as_bytes())?;
            let end = votes.whole as u64;
            return Ok(VoteLog { fs, path, file, inode, votes, end, is_torn: false });
        }
        let votes = read(&path, &bytes)?;
        if votes.rater != rater || votes.stage != stage {
            let message = format!("`{path}` has votes of `{}` on `{}`", votes.rater, votes.stage);
            return Err(CliError::failed(message, "move that file away, or choose another name"));
        }
        let mut end = votes.whole as u64;
        if votes.lacks_end {
            file.write_all_at(b"\n", end)?;
            file.sync_data()?;
            end += 1;
        } else if votes.whole < bytes.len() {
            file.set_len(end)?;
            file.sync_data()?;
        }
        Ok(VoteLog { fs, path, file, inode, votes, end, is_torn: false })
    }

    pub fn votes(&self) -> &Votes {
        &self.votes
    }

    /// Adds a vote, which is durable on return.
    pub fn add(&mut self, vote: &Vote) -> Result<(), CliError> {
        self.append(&votes::vote(vote))?;
        self.votes.votes.push(vote.clone());
        Ok(())
    }

    /// Takes the last vote back.
    pub fn undo(&mut self) -> Result<(), CliError> {
        if self.votes.votes.is_empty() {
            return Ok(());
        }
        self.append(&votes::undo())?;
        self.votes.votes.pop();
        Ok(())
    }

    fn append(&mut self, line: &str) -> Result<(), CliError> {
        if !self.is_in_place()? {
            let path = &self.path;
            let message =
                format!("`{path}` was changed by another program; start `throstle rate` again");
            return Err(CliError::failed(message, ""));
        }
        if self.is_torn {
            self.file.set_len(self.end)?;
            self.file.sync_data()?;
        }
        self.is_torn = true;
        self.file.write_all_at(line.as_bytes(), self.end)?;
        self.file.sync_data()?;
        self.is_torn = false;
        self.end += line.len() as u64;
        Ok(())
    }

    /// Tests if the path still leads to the open file, with the length that it should have. The
    /// open file alone does not tell: it takes votes even after it was removed or replaced.
    fn is_in_place(&self) -> FsResult<bool> {
        let found = match self.fs.metadata(&self.path) {
            Err(error) if error.is_not_found() => return Ok(false),
            other => other?,
        };
        let is_whole = if self.is_torn { found.size >= self.end } else { found.size == self.end };
        Ok(found.is_file() && found.inode == self.inode && is_whole)
    }
}

fn path(folder: &Utf8Path, rater: &str) -> Utf8PathBuf {
    folder.join(format!("{rater}.jsonl"))
}

/// Reads a file of votes.
pub fn read(path: &Utf8Path, bytes: &[u8]) -> Result<Votes, CliError> {
    Votes::read(bytes).map_err(|damage| {
        CliError::failed(
            format!("`{path}`: {damage}"),
            "the file was not changed; move it to another folder",
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use cache::fs::fault::ENOSPC;
    use cache::fs::{Fault, FaultFs, MemoryFs};
    use stage_speech::rate::votes::Answer;

    use super::*;

    const FOLDER: &str = "/project/ratings/pairs";

    fn disk() -> MemoryFs {
        let fs = MemoryFs::new();
        fs.create_dir_all("/project".into()).unwrap();
        fs
    }

    fn open(fs: &MemoryFs) -> VoteLog {
        VoteLog::open(Arc::new(fs.clone()), FOLDER.into(), "pairs", "anna").unwrap()
    }

    fn vote(number: usize) -> Vote {
        let answer = if number.is_multiple_of(2) { Answer::Left } else { Answer::Right };
        let pair = format!("pair {number}");
        Vote { pair, swapped: false, repeat: false, answer, seconds: 1.0 }
    }

    fn pairs(log: &VoteLog) -> Vec<&str> {
        log.votes().votes.iter().map(|vote| &*vote.pair).collect()
    }

    /// A power cut keeps what was synced only.
    #[test]
    fn after_a_power_cut_at_any_moment_every_vote_that_was_told_to_be_stored_is_there() {
        let fs = disk();
        let mut log = open(&fs);
        for number in 0..5 {
            log.add(&vote(number)).unwrap();
            let after = fs.crash();
            assert_eq!(open(&after).votes().votes.len(), number + 1);
            for seed in 0..20 {
                assert!(open(&fs.crash_reordered(seed)).votes().votes.len() > number);
            }
        }
        log.undo().unwrap();
        assert_eq!(open(&fs.crash()).votes().votes.len(), 4);
    }

    #[test]
    fn a_line_that_was_cut_off_is_removed_and_the_next_vote_follows_the_last_whole_one() {
        let fs = disk();
        let mut log = open(&fs);
        log.add(&vote(0)).unwrap();
        let end = log.end;
        log.add(&vote(1)).unwrap();
        let whole = log.end;
        drop(log);
        let path = path(FOLDER.into(), "anna");
        for cut in end..whole {
            let fs = fs.duplicate();
            fs.open(&path, Open::ReadWrite).unwrap().set_len(cut).unwrap();
            let mut log = open(&fs);
            // Of the last one only the line end was cut off.
            let mut known = vec!["pair 0", "pair 1"];
            known.truncate(if cut + 1 == whole { 2 } else { 1 });
            assert_eq!(pairs(&log), known);
            log.add(&vote(2)).unwrap();
            drop(log);
            assert_eq!(pairs(&open(&fs)), [&known[..], &["pair 2"]].concat());
        }
    }

    /// The open file would take the votes, and nobody would find them.
    #[test]
    fn a_vote_is_refused_once_its_file_is_another_one_or_has_another_length() {
        type Fate = fn(&MemoryFs, &Utf8Path);
        let fates: [Fate; 5] = [
            |fs, path| fs.remove_file(path).unwrap(),
            |fs, path| fs.write_durably(path, &fs.read(path).unwrap()).unwrap(),
            |fs, path| {
                fs.remove_file(path).unwrap();
                fs.create_dir(path).unwrap();
            },
            |fs, path| fs.open(path, Open::ReadWrite).unwrap().set_len(5).unwrap(),
            |fs, path| fs.overwrite(path, &[&fs.read(path).unwrap()[..], b"\n"].concat()).unwrap(),
        ];
        for fate in fates {
            let fs = disk();
            let mut log = open(&fs);
            log.add(&vote(0)).unwrap();
            let path = path(FOLDER.into(), "anna");
            fate(&fs, &path);
            let before = fs.files();
            for error in [log.add(&vote(1)).unwrap_err(), log.undo().unwrap_err()] {
                let told = error.told();
                let wanted = "was changed by another program; start `throstle rate` again";
                assert!(told.contains(path.as_str()) && told.contains(wanted), "{told}");
            }
            assert_eq!((pairs(&log), fs.files()), (vec!["pair 0"], before));
        }
    }

    #[test]
    fn after_a_full_disk_the_next_vote_replaces_what_was_written_of_the_last_one() {
        let disk = disk();
        let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        let mut log = VoteLog::open(faults.clone(), FOLDER.into(), "pairs", "anna").unwrap();
        log.add(&vote(0)).unwrap();
        for bytes in [0, 1, 20] {
            faults.set(vec![Fault::Space { bytes, error: ENOSPC }]);
            log.add(&vote(1)).unwrap_err();
            log.undo().unwrap_err();
        }
        faults.set(Vec::new());
        assert_eq!(pairs(&log), ["pair 0"]);
        log.add(&vote(2)).unwrap();
        log.add(&vote(3)).unwrap();
        assert_eq!(pairs(&open(&disk.crash())), ["pair 0", "pair 2", "pair 3"]);
    }

    #[test]
    fn two_programs_cannot_rate_under_one_name() {
        let fs = disk();
        let first = open(&fs);
        let again = VoteLog::open(Arc::new(fs.clone()), FOLDER.into(), "pairs", "anna");
        let error = again.err().unwrap();
        assert!(error.to_string().contains("in another program"), "{error}");
        drop(first);
        open(&fs);
    }

    #[test]
    fn the_file_of_another_test_is_not_written_to() {
        let fs = disk();
        drop(open(&fs));
        let other = VoteLog::open(Arc::new(fs.clone()), FOLDER.into(), "other", "anna");
        let error = other.err().unwrap();
        assert!(error.to_string().contains("votes of `anna` on `pairs`"), "{error}");
    }
}
