//! `rate.votes`: the votes of all raters, from their files.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use stage_core::{
    Context, Item, Job, Reject, Setup, SourceJob, SourceOutput, StageError, Value, World,
};

use super::votes::{Answer, Vote, VotePreference, Votes};

const EXTENSION: &str = "jsonl";

struct RatingSource {
    folder: Utf8PathBuf,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let folder = Utf8PathBuf::from(setup.parameters.text("folder")?);
    Ok(Job::Source(Box::new(RatingSource { folder })))
}

impl SourceJob for RatingSource {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let mut output = SourceOutput::default();
        let Some(listed) = world.list_if_any(&self.folder)? else { return Ok(output) };
        let mut files: Vec<Utf8PathBuf> = listed.files;
        files.retain(|file| file.extension() == Some(EXTENSION));
        files.sort();
        let mut raters: BTreeMap<String, Utf8PathBuf> = BTreeMap::new();
        for file in files {
            let read = world.read_one(&self.folder.join(&file))?;
            let votes = read.and_then(|bytes| {
                Votes::read(&bytes).map_err(|damage| Reject::new("no-votes", damage.to_string()))
            });
            match votes {
                Ok(votes) => match raters.get(&votes.rater) {
                    Some(first) => {
                        let reason = format!("`{first}` also has votes of `{}`", votes.rater);
                        output.rejects.push((file.into_string(), Reject::new("twice", reason)));
                    }
                    None => {
                        output.items.extend(items(&votes));
                        raters.insert(votes.rater, file);
                    }
                },
                Err(reject) => output.rejects.push((file.into_string(), reject)),
            }
        }
        Ok(output)
    }
}

fn items(votes: &Votes) -> Vec<Item> {
    let one = |(at, vote): (usize, &Vote)| {
        let answer = match vote.preferred() {
            VotePreference::One => "one",
            VotePreference::Other => "other",
            VotePreference::Same => "same",
        };
        let side = match vote.answer {
            Answer::Left => "left",
            Answer::Right => "right",
            Answer::Same => "none",
        };
        let fields = [
            ("rater", votes.rater.as_str()),
            ("pair", vote.pair.as_str()),
            ("answer", answer),
            ("side", side),
            ("repeat", if vote.repeat { "yes" } else { "no" }),
        ];
        let fields = fields.map(|(name, text)| (name, Value::text(text)));
        Item::new(format!("{}/{:05}", votes.rater, at + 1), fields.into_iter().collect())
    };
    votes.votes.iter().enumerate().map(one).collect()
}
