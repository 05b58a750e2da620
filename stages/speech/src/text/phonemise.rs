//! `text.phonemise`: the phonemes of texts, by espeak-ng as a program.
//!
//! espeak-ng writes a line for each clause, without its punctuation. So texts are split into clauses
//! here, and each keeps its mark. An empty line stands between the clauses in both directions.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::{Command, Stdio};

use cache::fs::{Fs, RealFs};
use camino::Utf8Path;
use stage_core::{
    Context, Fields, Item, ItemJob, Job, NewValue, Output, Reject, Setup, StageError,
};
use stage_families::artifact::{TOKENIZER_CONFIG, VOCABULARY};
use stage_families::vits::{PHONEMES, VitsTokenizer};
use stage_programs as programs;

use super::clauses::{Clause, clauses};

const PROGRAM: &str = "espeak-ng";
/// Marks of stress and length, which no text has.
const STRESS_AND_LENGTH: [char; 3] = ['\u{2C8}', '\u{2CC}', '\u{2D0}'];

struct Phonemise {
    voice: String,
    environment: BTreeMap<String, String>,
}

pub fn open(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let given = setup.parameters.if_set("voice", |parameters, name| parameters.text(name))?;
    let own = setup
        .artifacts
        .get("model")
        .and_then(|all| all.first())
        .map(|model| voice_of(model, context))
        .transpose()?;
    let voice = match (given, own) {
        (Some(voice), _) => voice.to_owned(),
        (None, Some(voice)) => voice,
        (None, None) => {
            return Err(StageError::with_help(
                "no voice of espeak-ng is given",
                "set `voice`, such as `en-us`, or read a voice of Piper on port `model`",
            ));
        }
    };
    let job = Phonemise { voice, environment: setup.environment.clone() };
    if let Some(version) =
        setup.parameters.if_set("version", |parameters, name| parameters.text(name))?
    {
        job.check_version(version)?;
    }
    Ok(Job::Item(Box::new(job)))
}

fn voice_of(model: &Fields, context: &mut dyn Context) -> Result<String, StageError> {
    let mut file = |name: &str| match model.blob(name) {
        Some(blob) => context.read(blob),
        None => Err(StageError::failed(format!("the model on port `model` has no `{name}`"))),
    };
    let tokenizer = VitsTokenizer::read(&file(VOCABULARY)?, &file(TOKENIZER_CONFIG)?)?;
    tokenizer.voice().map(str::to_owned).ok_or_else(|| {
        StageError::with_help(
            "the model on port `model` reads characters, not phonemes",
            "leave this stage out",
        )
    })
}

impl ItemJob for Phonemise {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let texts: Vec<Result<Vec<Clause>, Reject>> = items.iter().map(clauses_of).collect();
        let all: Vec<&Clause> = texts.iter().flatten().flatten().collect();
        let mut said = self.phonemes(&all, context)?.into_iter();
        let outputs = texts.into_iter().map(|text| {
            let own = text?;
            let phonemes =
                joined(own.iter().map(|clause| (said.next().unwrap_or_default(), clause.mark)));
            match phonemes.is_empty() {
                true => Err(Reject::new("no-phonemes", "espeak-ng says nothing for the text")),
                false => Ok(Output::default().with(PHONEMES, NewValue::Text(phonemes))),
            }
        });
        Ok(outputs.collect())
    }
}

fn clauses_of(item: &Item) -> Result<Vec<Clause>, Reject> {
    let text =
        item.fields.text("text").ok_or_else(|| Reject::new("no-text", "the item has no `text`"))?;
    if text.contains(STRESS_AND_LENGTH) {
        let reason = "the text has marks of stress or length: it is phonemes already";
        return Err(Reject::new("phonemes", reason));
    }
    Ok(clauses(text))
}

/// The phonemes of a text from those of its clauses.
fn joined(clauses: impl Iterator<Item = (String, Option<char>)>) -> String {
    let said = clauses.filter(|(phonemes, _)| !phonemes.is_empty());
    let parts: Vec<String> = said
        .map(|(phonemes, mark)| phonemes + &mark.map(String::from).unwrap_or_default())
        .collect();
    parts.join(" ")
}

impl Phonemise {
    /// The phonemes of each clause.
    fn phonemes(
        &self,
        clauses: &[&Clause],
        context: &mut dyn Context,
    ) -> Result<Vec<String>, StageError> {
        if clauses.is_empty() {
            return Ok(Vec::new());
        }
        let said = self.run(clauses, context)?;
        if said.len() == clauses.len() {
            return Ok(said);
        }
        // A clause had an empty line of its own: it is not known which one.
        let alone =
            |clause: &&Clause| Ok(self.run(&[*clause], context)?.join(" ").trim().to_owned());
        clauses.iter().map(alone).collect()
    }

    /// What espeak-ng says for some clauses, by the empty lines between them.
    fn run(
        &self,
        clauses: &[&Clause],
        context: &mut dyn Context,
    ) -> Result<Vec<String>, StageError> {
        let lines: String =
            clauses.iter().flat_map(|clause| [clause.text.as_str(), "\n\n"]).collect();
        let folder = tempfile::Builder::new().prefix("phonemes-").tempdir_in(context.scratch()?);
        let folder = folder.map_err(failed)?;
        let input = folder.path().join("texts");
        let path = Utf8Path::from_path(&input)
            .ok_or_else(|| StageError::failed("the folder of the cache is not UTF-8"))?;
        RealFs.write_durably(path, lines.as_bytes()).map_err(StageError::of_file)?;
        let input = std::fs::File::open(&input).map_err(failed)?;
        let output = self.output(&["-q", "-b", "1", "--ipa", "-v", &self.voice], input.into())?;
        let mut said: Vec<String> = vec![String::new()];
        for line in output.lines().map(str::trim) {
            match (line.is_empty(), said.last_mut()) {
                (false, Some(clause)) => {
                    let space = if clause.is_empty() { "" } else { " " };
                    *clause += &format!("{space}{}", without_languages(line));
                }
                _ => said.push(String::new()),
            }
        }
        // Nothing stands behind the last empty line.
        said.pop();
        Ok(said)
    }

    fn check_version(&self, wanted: &str) -> Result<(), StageError> {
        let output = self.output(&["--version"], Stdio::null())?;
        if output.split_whitespace().any(|word| word == wanted) {
            return Ok(());
        }
        let found = output.lines().next().unwrap_or_default();
        let message = format!("`version` is `{wanted}`, but the program is \"{found}\"");
        Err(StageError::with_help(message, "install that version, or change `version`"))
    }

    /// Runs espeak-ng to its end.
    fn output(&self, arguments: &[&str], input: Stdio) -> Result<String, StageError> {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env_clear().envs(&self.environment);
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = programs::start(&mut command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StageError::with_help(
                format!("there is no program `{PROGRAM}`"),
                "install espeak-ng, for example with `apt install espeak-ng`",
            ),
            _ => failed(error),
        })?;
        let (_, output, errors) = program.pipes();
        let output = read(output)?;
        let errors = read(errors)?;
        let ended = program.end().map_err(failed)?;
        if ended.status.success() {
            return Ok(output);
        }
        let said = errors.lines().next().unwrap_or("no reason given").trim().to_owned();
        Err(StageError::with_help(
            format!("{PROGRAM} failed with the voice `{}`: {said}", self.voice),
            format!("`{PROGRAM} --voices` lists the voices"),
        ))
    }
}

fn failed(error: io::Error) -> StageError {
    StageError::of_io(format!("{PROGRAM}: {error}"), &error)
}

fn read(pipe: Option<impl Read>) -> Result<String, StageError> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).map_err(failed)?;
    }
    String::from_utf8(bytes)
        .map_err(|_| StageError::failed(format!("{PROGRAM} wrote text that is not UTF-8")))
}

/// A line without the names of languages around foreign words, such as `(en)`.
fn without_languages(line: &str) -> String {
    let mut rest = line;
    let mut kept = String::new();
    while let Some((before, behind)) = rest.split_once('(') {
        kept += before;
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_languages_are_no_phonemes() {
        assert_eq!(without_languages("(en)kj(gu)a"), "kja");
        assert_eq!(without_languages("a(b"), "a");
        assert_eq!(without_languages("abc"), "abc");
    }

    #[test]
    fn clauses_keep_their_marks_and_silent_ones_are_left_out() {
        let clauses = [("a", Some(',')), ("", Some('!')), ("b", None)];
        let clauses = clauses.into_iter().map(|(said, mark)| (said.to_owned(), mark));
        assert_eq!(joined(clauses), "a, b");
    }
}
