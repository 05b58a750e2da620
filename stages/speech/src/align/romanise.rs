//! `text.romanise`: Latin letters for the words of other scripts, by the user's own program.

use std::collections::{BTreeMap, BTreeSet};

use cache::Digest;
use stage_core::key::{HashSink, Sink};
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewValue, Output, ParameterValue,
    Parameters, PortOutput, Setup, StageError,
};

use super::stage::{TextSource, written};
use super::text::{Romanisation, foreign_words};
use crate::command::private::{Private, write};
use crate::command::stage::{CommandDeclaration, fatal};
use crate::corpus::corrections::CORRECTED;
use crate::plain::{JSON, to_json};

/// The placeholder of the list of words, and the field of their romanisations.
pub const WORDS: &str = "words";
/// The file that the program reads, and the one that it writes below the folder of the outputs.
const FILE: &str = "words.txt";

struct Romanise {
    declared: CommandDeclaration,
    /// The digest of the parameters that change the results of the program.
    settings: Digest,
}

pub fn open(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let settings = settings(&setup.parameters)?;
    let declared = CommandDeclaration::of_line(&setup, (WORDS, FILE), &[WORDS], context)?;
    Ok(Job::Gather(Box::new(Romanise { declared, settings })))
}

fn settings(parameters: &Parameters) -> Result<Digest, StageError> {
    let mut sink = HashSink::default();
    sink.text("command", parameters.text("command")?);
    sink.text("version", parameters.if_set("version", Parameters::text)?.unwrap_or_default());
    for (name, value) in parameters.map("environment")? {
        if let ParameterValue::Text(value) = value {
            sink.text("name", name);
            sink.text("value", value);
        }
    }
    Ok(sink.finish())
}

/// A text that several items may have.
enum SharedText<'a> {
    Written(&'a Item),
    Corrected(&'a str),
}

impl GatherJob for Romanise {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let (mut all, mut fresh) = (Romanisation::default(), Vec::new());
        for (digest, shared) in texts(input.items("input")?) {
            let key = self.key(&digest);
            match recall(&key, context)? {
                Some(known) => all.0.extend(known.0),
                None => fresh.push((key, read(&shared, context)?)),
            }
        }
        let words: BTreeSet<&str> = fresh
            .iter()
            .flat_map(|(_, text)| foreign_words(text))
            .filter(|word| !all.0.contains_key(*word))
            .collect();
        if !words.is_empty() {
            let latin = self.latin(&words, context)?;
            all.0.extend(words.iter().map(|word| (*word).to_owned()).zip(latin));
        }
        for (key, text) in &fresh {
            let value = NewValue::bytes(JSON, to_json(&all.of(text))?);
            context.remember(key, Output::default().with(WORDS, value))?;
        }
        let artifact = vec![(WORDS.to_owned(), NewValue::bytes(JSON, to_json(&all)?))];
        let mut output = GatherOutput::default().with("output", PortOutput::Artifact(artifact));
        let lost = all.0.iter().filter(|(word, latin)| is_left(word, latin)).count();
        if lost > 0 {
            output.notes.push((
                "words that the program left without Latin letters".to_owned(),
                lost as u64,
            ));
        }
        Ok(output)
    }
}

/// Tests if the program has left a word with letters in its own script.
fn is_left(word: &str, latin: &str) -> bool {
    word.contains(char::is_alphabetic)
        && !latin.contains(|letter: char| letter.is_ascii_alphabetic())
}

/// The distinct texts of the items.
fn texts(items: &[Item]) -> BTreeMap<Digest, SharedText<'_>> {
    let mut found = BTreeMap::new();
    for item in items {
        if let TextSource::Cues(blob) | TextSource::Script(blob) = TextSource::of(item) {
            found.insert(blob.digest, SharedText::Written(item));
        }
        if let Some(text) = item.fields.text(CORRECTED) {
            found.insert(Digest::of(text.as_bytes()), SharedText::Corrected(text));
        }
    }
    found
}

fn read(shared: &SharedText, context: &mut dyn Context) -> Result<String, StageError> {
    match shared {
        SharedText::Corrected(text) => Ok((*text).to_owned()),
        SharedText::Written(item) => Ok(written(item, context)?.unwrap_or_default().text),
    }
}

fn recall(key: &Digest, context: &mut dyn Context) -> Result<Option<Romanisation>, StageError> {
    let known = context.recall(key)?;
    match known.as_ref().and_then(|fields| fields.blob(WORDS)) {
        // A damaged record is made again.
        Some(blob) => Ok(serde_json::from_slice(&context.read(blob)?).ok()),
        None => Ok(None),
    }
}

impl Romanise {
    fn key(&self, text: &Digest) -> Digest {
        let mut sink = HashSink::default();
        sink.digest("settings", &self.settings);
        sink.digest("text", text);
        sink.finish()
    }

    /// The lines of the program for a list of words.
    fn latin(
        &self,
        words: &BTreeSet<&str>,
        context: &mut dyn Context,
    ) -> Result<Vec<String>, StageError> {
        let private = Private::new(context)?;
        let folder = private.path();
        self.declared.prepare(folder)?;
        let list = folder.join(FILE);
        let lines: String = words.iter().flat_map(|word| [word, "\n"]).collect();
        write(&list, lines.as_bytes())?;
        let mut places = self.declared.places(folder);
        places.insert(WORDS.to_owned(), list.into_string());
        let made = self.declared.make(folder, &places, context).map_err(fatal)?;
        if made.is_over {
            private.give_back();
        }
        let latin = lines_of(&made.values)?;
        if latin.len() != words.len() {
            return Err(StageError::with_help(
                format!("the program wrote {} lines for {} words", latin.len(), words.len()),
                "it must write one line to `{out.words}` for each line of `{words}`, in the same \
                 order",
            ));
        }
        Ok(latin)
    }
}

fn lines_of(values: &[(String, NewValue)]) -> Result<Vec<String>, StageError> {
    let Some((_, NewValue::Bytes { bytes, .. })) = values.first() else { return Ok(Vec::new()) };
    let text = std::str::from_utf8(bytes)
        .map_err(|_| StageError::failed("the program wrote a file that is not UTF-8"))?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}
