//! `text.phonemise`: the phonemes of texts, by espeak-ng as a program.
//!
//! espeak-ng writes a line for each clause, without its punctuation. So texts are split into clauses
//! here, and each keeps its mark. An empty line stands between the clauses in both directions.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

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
        _: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let clauses = |item| clauses_of(item, is_latin(&self.voice));
        let texts: Vec<Result<Vec<Clause>, Reject>> = items.iter().map(clauses).collect();
        let all: Vec<&Clause> = texts.iter().flatten().flatten().collect();
        let mut said = self.phonemes(&all)?.into_iter();
        let outputs = texts.into_iter().map(|text| {
            let own = text?;
            let phonemes =
                joined(own.iter().map(|clause| (said.next().unwrap_or_default(), clause.mark)));
            if phonemes.is_empty() {
                Err(Reject::new("no-phonemes", "espeak-ng says nothing for the text"))
            } else {
                Ok(Output::default().with(PHONEMES, NewValue::Text(phonemes)))
            }
        });
        Ok(outputs.collect())
    }
}

/// Codes of languages of espeak-ng that are not written in Latin letters.
const OTHER_SCRIPTS: [&str; 53] = [
    "am", "ar", "as", "ba", "be", "bg", "bn", "bpy", "chr", "cmn", "cv", "el", "fa", "grc", "gu",
    "hak", "he", "hi", "hy", "ja", "ka", "kk", "kn", "ko", "kok", "ky", "lo", "mk", "ml", "mn",
    "mr", "my", "ne", "nog", "om", "or", "pa", "ru", "sa", "sd", "shn", "si", "sr", "ta", "te",
    "th", "ti", "tt", "ug", "uk", "ur", "yue", "zh",
];

/// Tests if the language of a voice is written in Latin letters.
fn is_latin(voice: &str) -> bool {
    let code = voice.split(['-', '_', '+']).next().unwrap_or_default();
    !OTHER_SCRIPTS.contains(&code)
}

/// Tests if a letter belongs to another script than the Latin one.
fn is_foreign(letter: char) -> bool {
    let is_latin_block = matches!(letter, '\0'..='\u{24F}' | '\u{250}'..='\u{36F}' | '\u{1D00}'..='\u{1EFF}'
        | '\u{2C60}'..='\u{2C7F}' | '\u{A720}'..='\u{A7FF}' | '\u{AB30}'..='\u{AB6F}' | '\u{FB00}'..='\u{FB06}'
        | '\u{FF21}'..='\u{FF5A}');
    letter.is_alphabetic() && !is_latin_block
}

fn clauses_of(item: &Item, is_latin: bool) -> Result<Vec<Clause>, Reject> {
    let text =
        item.fields.text("text").ok_or_else(|| Reject::new("no-text", "the item has no `text`"))?;
    if text.contains(STRESS_AND_LENGTH) {
        let reason = "the text has marks of stress or length: it is phonemes already";
        return Err(Reject::new("phonemes", reason));
    }
    if let Some(letter) = text.chars().find(|letter| is_latin && is_foreign(*letter)) {
        let reason = format!(
            "the voice does not read `{letter}`: espeak-ng would say its name; write the text in Latin \
             letters, or choose the `voice` of its language"
        );
        return Err(Reject::new("script", reason));
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
    fn phonemes(&self, clauses: &[&Clause]) -> Result<Vec<String>, StageError> {
        if clauses.is_empty() {
            return Ok(Vec::new());
        }
        let said = self.run(clauses)?;
        if said.len() == clauses.len() {
            return Ok(said);
        }
        // A clause had an empty line of its own: it is not known which one.
        let alone = |clause: &&Clause| Ok(self.run(&[*clause])?.join(" ").trim().to_owned());
        clauses.iter().map(alone).collect()
    }

    /// What espeak-ng says for some clauses, by the empty lines between them.
    fn run(&self, clauses: &[&Clause]) -> Result<Vec<String>, StageError> {
        let lines: String =
            clauses.iter().flat_map(|clause| [clause.text.as_str(), "\n\n"]).collect();
        let output = self.output(&["-q", "-b", "1", "--ipa", "-v", &self.voice], &lines)?;
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
        let output = self.output(&["--version"], "")?;
        if output.split_whitespace().any(|word| word == wanted) {
            return Ok(());
        }
        let found = output.lines().next().unwrap_or_default();
        let message = format!("`version` is `{wanted}`, but the program is \"{found}\"");
        Err(StageError::with_help(message, "install that version, or change `version`"))
    }

    /// Runs espeak-ng to its end.
    fn output(&self, arguments: &[&str], input: &str) -> Result<String, StageError> {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env_clear().envs(&self.environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = programs::start(&mut command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StageError::with_help(
                format!("there is no program `{PROGRAM}`"),
                "install espeak-ng, for example with `apt install espeak-ng`",
            ),
            _ => failed(error),
        })?;
        let (stdin, output, errors) = program.pipes();
        // Both pipes are in use at once, since each holds only so much.
        let (output, errors) = std::thread::scope(|scope| {
            let write = move || {
                // A program that reads no more has said why.
                stdin.map(|mut stdin| stdin.write_all(input.as_bytes()))
            };
            std::thread::Builder::new().spawn_scoped(scope, write).map_err(failed)?;
            Ok::<_, StageError>((read(output)?, read(errors)?))
        })?;
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
    fn letters_of_other_scripts_are_refused_where_the_voice_reads_latin_ones() {
        let item = |text: &str| {
            let mut fields = Fields::new();
            fields.set("text", stage_core::Value::text(text));
            Item::new("a", fields)
        };
        let code = |voice: &str, text: &str| {
            clauses_of(&item(text), is_latin(voice)).err().map(|reject| reject.code)
        };
        assert_eq!(code("en-us", "caf\u{E9} \u{1E9E} \u{2013} 5\u{20AC}"), None);
        assert_eq!(code("en-us", "\u{4F60}"), Some("script".into()));
        assert_eq!(code("fi", "\u{43F}"), Some("script".into()));
        assert_eq!((code("ru", "\u{43F}"), code("cmn-latn", "\u{4F60}")), (None, None));
        assert_eq!(code("en-us", "h\u{259}l\u{2C8}o"), Some("phonemes".into()));
    }

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
