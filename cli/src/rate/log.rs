//! The file of a rater in the project: every vote is durable before the next pair is shown.

use cache::fs::{Fs, FsFile, Open};
use camino::{Utf8Path, Utf8PathBuf};
use stage_speech::rate::votes::{self, Vote, Votes};

use crate::error::CliError;

/// The votes of a rater, and the file that they are appended to.
pub struct Log {
    file: Box<dyn FsFile>,
    votes: Votes,
    /// The end of the last whole line.
    end: u64,
    /// A write failed, so that the end of the file is unknown.
    is_broken: bool,
}

impl Log {
    /// Opens the file, and makes it if necessary. A last line that was cut off is removed.
    pub fn open(fs: &dyn Fs, folder: &Utf8Path, stage: &str, rater: &str) -> Result<Log, CliError> {
        fs.create_dir_all(folder)?;
        let path = path(folder, rater);
        let file = fs.open(&path, Open::Create)?;
        if !file.try_lock_byte(0)? {
            let message = format!("`{rater}` is rating in another program");
            return Err(CliError::failed(message, "end that one first, or take another name"));
        }
        let bytes = fs.read(&path)?;
        let is_begun = bytes.contains(&b'\n');
        if !is_begun {
            let head = votes::head(stage, rater);
            file.set_len(0)?;
            file.write_all_at(head.as_bytes(), 0)?;
            file.sync_data()?;
            fs.sync_dir(folder)?;
            let votes = read(&path, head.as_bytes())?;
            return Ok(Log { file, end: votes.whole as u64, votes, is_broken: false });
        }
        let votes = read(&path, &bytes)?;
        if votes.rater != rater || votes.stage != stage {
            let message = format!("`{path}` has votes of `{}` on `{}`", votes.rater, votes.stage);
            return Err(CliError::failed(message, "move it away, or take another name"));
        }
        let end = votes.whole as u64;
        if votes.whole < bytes.len() {
            file.set_len(end)?;
            file.sync_data()?;
        }
        Ok(Log { file, votes, end, is_broken: false })
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
        if self.is_broken {
            let message = "an earlier vote could not be stored";
            return Err(CliError::failed(message, "start `throstle rate` again"));
        }
        self.is_broken = true;
        self.file.write_all_at(line.as_bytes(), self.end)?;
        self.file.sync_data()?;
        self.is_broken = false;
        self.end += line.len() as u64;
        Ok(())
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
    use cache::fs::MemoryFs;
    use stage_speech::rate::votes::Answer;

    use super::*;

    const FOLDER: &str = "/project/ratings/pairs";

    fn disk() -> MemoryFs {
        let fs = MemoryFs::new();
        fs.create_dir_all("/project".into()).unwrap();
        fs
    }

    fn open(fs: &dyn Fs) -> Log {
        Log::open(fs, FOLDER.into(), "pairs", "anna").unwrap()
    }

    fn vote(number: usize) -> Vote {
        let answer = if number % 2 == 0 { Answer::Left } else { Answer::Right };
        let pair = format!("pair {number}");
        Vote { pair, swapped: false, repeat: false, answer, seconds: 1.0 }
    }

    fn pairs(log: &Log) -> Vec<&str> {
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
            assert_eq!(pairs(&log), ["pair 0"]);
            log.add(&vote(2)).unwrap();
            drop(log);
            assert_eq!(pairs(&open(&fs)), ["pair 0", "pair 2"]);
        }
    }

    #[test]
    fn two_programs_cannot_rate_under_one_name() {
        let fs = disk();
        let first = open(&fs);
        let error = Log::open(&fs, FOLDER.into(), "pairs", "anna").err().unwrap();
        assert!(error.to_string().contains("in another program"), "{error}");
        drop(first);
        open(&fs);
    }

    #[test]
    fn the_file_of_another_test_is_not_written_to() {
        let fs = disk();
        drop(open(&fs));
        let error = Log::open(&fs, FOLDER.into(), "other", "anna").err().unwrap();
        assert!(error.to_string().contains("votes of `anna` on `pairs`"), "{error}");
    }
}
