//! The file of a rater's votes: JSON lines that are only appended to.
//!
//! The first line names the stage and the rater; each further one is a vote, or takes the last vote
//! back. A last line that was cut off while it was written does not count.

use serde::{Deserialize, Serialize};

use stage_formats::mark::MARK;

/// The version of the format.
const VERSION: u32 = 1;
/// The longest name of a rater, in characters.
const LONGEST_NAME: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Left,
    Right,
    /// No difference.
    Same,
}

/// The answer to one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vote {
    pub pair: String,
    /// The second voice of the pair was on the left.
    pub swapped: bool,
    /// The pair was played before, with the sides exchanged.
    pub repeat: bool,
    pub answer: Answer,
    /// The time from the first sight of the pair to the answer.
    pub seconds: f64,
}

impl Vote {
    /// The preferred voice of the pair: the first one, the second one, or none.
    pub fn preferred(&self) -> VotePreference {
        match (self.answer, self.swapped) {
            (Answer::Same, _) => VotePreference::Same,
            (Answer::Left, false) | (Answer::Right, true) => VotePreference::One,
            (Answer::Left, true) | (Answer::Right, false) => VotePreference::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VotePreference {
    One,
    Other,
    Same,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
enum VoteLine {
    Votes { version: u32, stage: String, rater: String },
    Vote(Vote),
    Undo,
}

/// The votes in a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Votes {
    pub stage: String,
    pub rater: String,
    /// Those that were not taken back, in the order of the answers.
    pub votes: Vec<Vote>,
    /// The bytes up to the end of the last whole line.
    pub whole: usize,
    /// That line lacks its line end, as after an edit by hand.
    pub lacks_end: bool,
}

/// The reason why a file has no votes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("the first line is not the header of a file of votes")]
    NoVotes,
    #[error("the votes have the version {0}, expected {VERSION}")]
    Version(u32),
    #[error("line {line}: {reason}")]
    Line { line: usize, reason: String },
}

impl Votes {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it is none of votes, or a whole line of it is not a vote.
    pub fn read(bytes: &[u8]) -> Result<Votes, Damage> {
        let mark = if bytes.starts_with(MARK) { MARK.len() } else { 0 };
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(mark, |at| at + 1);
        // A line that was cut off is no whole JSON.
        let lacks_end = serde_json::from_slice::<VoteLine>(&bytes[end..]).is_ok();
        let whole = if lacks_end { bytes.len() } else { end };
        let mut lines = bytes[mark..whole].split(|byte| *byte == b'\n').enumerate();
        let first = lines.next().map(|(_, line)| line).unwrap_or_default();
        let Ok(VoteLine::Votes { version, stage, rater }) = serde_json::from_slice(first) else {
            return Err(Damage::NoVotes);
        };
        if version != VERSION {
            return Err(Damage::Version(version));
        }
        let mut votes = Votes { stage, rater, votes: Vec::new(), whole, lacks_end };
        for (at, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
            let wrong = |reason: String| Damage::Line { line: at + 1, reason };
            match serde_json::from_slice(line).map_err(|error| wrong(error.to_string()))? {
                VoteLine::Vote(vote) => votes.votes.push(vote),
                VoteLine::Undo => drop(votes.votes.pop()),
                VoteLine::Votes { .. } => return Err(wrong("a second header line".to_owned())),
            }
        }
        Ok(votes)
    }

    /// The vote on a pair, or on its repetition.
    pub fn on(&self, pair: &str, repeat: bool) -> Option<&Vote> {
        self.votes.iter().find(|vote| vote.pair == pair && vote.repeat == repeat)
    }
}

/// The first line of a file.
pub fn head(stage: &str, rater: &str) -> String {
    line(&VoteLine::Votes { version: VERSION, stage: stage.to_owned(), rater: rater.to_owned() })
}

/// The line of a vote.
pub fn vote(vote: &Vote) -> String {
    line(&VoteLine::Vote(vote.clone()))
}

/// The line that takes the last vote back.
pub fn undo() -> String {
    line(&VoteLine::Undo)
}

fn line(line: &VoteLine) -> String {
    // Numbers and texts can always be written; a number that is not finite becomes `null`.
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

/// Tests if a name of a rater can be the name of a file everywhere.
pub fn is_name(name: &str) -> bool {
    let is_good = |letter: char| letter.is_alphanumeric() || "-_".contains(letter);
    !name.is_empty() && name.chars().count() <= LONGEST_NAME && name.chars().all(is_good)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn one(pair: &str, answer: Answer) -> Vote {
        Vote { pair: pair.to_owned(), swapped: false, repeat: false, answer, seconds: 1.5 }
    }

    fn file() -> String {
        head("pairs", "anna") + &vote(&one("a", Answer::Left)) + &vote(&one("b", Answer::Same))
    }

    #[test]
    fn votes_are_read_as_they_were_written() {
        let read = Votes::read(file().as_bytes()).unwrap();
        assert_eq!((read.stage.as_str(), read.rater.as_str()), ("pairs", "anna"));
        assert_eq!(read.votes, [one("a", Answer::Left), one("b", Answer::Same)]);
        assert_eq!(read.whole, file().len());
        assert_eq!(read.on("b", false), Some(&one("b", Answer::Same)));
        assert_eq!(read.on("b", true), None);
    }

    #[test]
    fn an_undone_vote_does_not_count_and_can_be_given_again() {
        let text = file() + &undo() + &vote(&one("b", Answer::Right));
        let read = Votes::read(text.as_bytes()).unwrap();
        assert_eq!(read.votes, [one("a", Answer::Left), one("b", Answer::Right)]);
        let nothing = head("pairs", "anna") + &undo();
        assert_eq!(Votes::read(nothing.as_bytes()).unwrap().votes, []);
    }

    /// Wherever the process was killed, every whole line counts, and no other.
    #[test]
    fn a_file_that_is_cut_anywhere_has_the_votes_of_its_whole_lines() {
        let text = file();
        let head = head("pairs", "anna").len();
        for end in head..=text.len() {
            let read = Votes::read(&text.as_bytes()[..end]).unwrap();
            // Only its line end was cut off.
            let lacks_end = text[end..].starts_with('\n');
            let lines = text[..end].matches('\n').count() + usize::from(lacks_end);
            assert_eq!((read.votes.len(), read.lacks_end), (lines - 1, lacks_end), "{end}");
            assert!(lacks_end || text[..read.whole].ends_with('\n'));
        }
        assert_eq!(Votes::read(&text.as_bytes()[..head - 2]), Err(Damage::NoVotes));
        let marked = Votes::read(&[MARK, text.as_bytes()].concat()).unwrap();
        let plain = Votes::read(text.as_bytes()).unwrap();
        assert_eq!((marked.votes, marked.whole), (plain.votes, plain.whole + MARK.len()));
    }

    #[test]
    fn other_files_are_told_with_their_line() {
        assert_eq!(Votes::read(b""), Err(Damage::NoVotes));
        assert_eq!(Votes::read(b"{}\n"), Err(Damage::NoVotes));
        let other = head("pairs", "anna").replace(":1,", ":9,");
        assert_eq!(Votes::read(other.as_bytes()), Err(Damage::Version(9)));
        let damaged = file() + "{\"is\":\"vote\"}\n";
        let error = Votes::read(damaged.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 4: "), "{error}");
    }

    #[test]
    fn sides_and_voices_are_told_apart() {
        let preferred = |swapped, answer| Vote { swapped, ..one("a", answer) }.preferred();
        assert_eq!(preferred(false, Answer::Left), VotePreference::One);
        assert_eq!(preferred(true, Answer::Left), VotePreference::Other);
        assert_eq!(preferred(true, Answer::Right), VotePreference::One);
        assert_eq!(preferred(true, Answer::Same), VotePreference::Same);
    }

    #[test]
    fn a_name_of_a_rater_is_a_name_of_a_file() {
        for good in ["anna", "Äiti-2", "a_b"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "../a", "a/b", "a.b", "a b", "-\n", &"a".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
