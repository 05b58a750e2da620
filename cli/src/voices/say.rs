//! `say`: speaks a text to a file, or aloud.

use std::io::{Read, Write};

use camino::Utf8Path;
use engine::engine::StopFlag;
use engine::units;
use stage_core::Item;
use stage_families::dropped::listed;

use super::voice::{
    self, CompressedFormat, Manner, ReadingError, Sentence, Sound, Voice, VoicePlace, Voices,
    all_dropped, play_bytes,
};
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::named;
use crate::output::is_standard;
use crate::project::Program;
use crate::run::interrupt;

/// The largest text on standard input.
const MOST: u64 = 1 << 20;

pub fn say(
    program: &Program,
    arguments: &arguments::Say,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let text = text(&arguments.text)?;
    let stop = StopFlag::default();
    interrupt::on_signals(stop.clone(), interrupt::silent())
        .map_err(CliError::process("listen for signals"))?;
    let place = VoicePlace::find(program, &arguments.voice, &arguments.options)?;
    let file = arguments.output.as_deref().filter(|file| !is_standard(file));
    file.map_or(Ok(()), |file| place.refuse(file))?;
    let mut voices = Voices::of(program, &[place], &arguments.options, &stop)?;
    let spoken = speak(program, &mut voices, &text, arguments.speed);
    voices.end();
    let sound = match spoken {
        Err(_) if stop.is_requested() => return Ok(Exit::Paused),
        spoken => spoken?,
    };
    let seconds = sound.seconds();
    let bytes = encoded(sound, file)?;
    match file {
        Some(file) => {
            named::write(file, &bytes)?;
            program.tell(&format!("{file}: {}", units::seconds(seconds)));
        }
        None if arguments.output.is_none() && (arguments.play || program.terminal.data_is_seen) => {
            let played = play_bytes(&bytes).map_err(CliError::process("play the audio"))?;
            played.ok_or_else(|| {
                let message = "no audio player was found";
                CliError::failed(
                    message,
                    "install pw-play, paplay, aplay or ffplay, or use `-o FILE`",
                )
            })?;
        }
        None => output.write_all(&bytes)?,
    }
    Ok(Exit::Done)
}

/// The sound in the format that the extension of the file names; WAV without one.
fn encoded(sound: Sound, file: Option<&Utf8Path>) -> Result<Vec<u8>, CliError> {
    let extension = file.and_then(Utf8Path::extension).map(str::to_ascii_lowercase);
    let bytes = match extension.as_deref() {
        Some("flac") => sound.flac(),
        Some("mp3") => CompressedFormat::Mp3.write(&sound),
        Some("opus" | "ogg") => CompressedFormat::Opus.write(&sound),
        Some("aac") => CompressedFormat::Aac.write(&sound),
        _ => sound.wav(),
    };
    bytes.map_err(|why| CliError::Failed { message: why, help: None })
}

fn text(given: &str) -> Result<String, CliError> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut text = String::new();
    let read = std::io::stdin().take(MOST).read_to_string(&mut text);
    read.map_err(CliError::process("read the text from standard input"))?;
    Ok(text)
}

fn speak(
    program: &Program,
    voices: &mut Voices,
    text: &str,
    speed: f64,
) -> Result<Sound, CliError> {
    let sentences = voice::sentences(text);
    if sentences.is_empty() {
        return Err(CliError::usage("the text is empty", "give a text with letters or digits"));
    }
    let own = &voices.voices[0];
    let (name, batch) = (own.name.clone(), own.batch);
    let manner = Manner { speaker: None, speed, on_unknown: None };
    let read = sentences.iter().map(|sentence| read(own, sentence, &manner));
    let read = read.collect::<Result<Vec<_>, _>>()?;
    let dropped = all_dropped(&read);
    if !dropped.is_empty() {
        program.warn(&format!("`{name}` does not know {}: left out", listed(&dropped)));
    }
    let items: Vec<Item> = read.into_iter().map(|sentence| sentence.item).collect();
    let mut whole = Sound::default();
    for (items, sentences) in items.chunks(batch).zip(sentences.chunks(batch)) {
        let results = voices.speak(0, items);
        for (result, sentence) in results.into_iter().zip(sentences) {
            let refused = |why: String| refused(&name, sentence, why);
            let result = result.map_err(|error| voice::failed(&name, &error))?;
            let output = result.map_err(|reject| refused(reject.reason))?;
            whole.append(&voice::sound(&output).map_err(refused)?);
        }
    }
    Ok(whole)
}

/// A sentence as it arrives at the model.
fn read(voice: &Voice, sentence: &str, manner: &Manner) -> Result<Sentence, CliError> {
    let unable = |why| CliError::Usage { message: why, help: None };
    let item = voice.item(sentence, manner).map_err(unable)?;
    voice.read(item, manner).map_err(|unread| match unread {
        ReadingError::Text(why) => refused(&voice.name, sentence, why),
        ReadingError::Lost { why, advice } => {
            let help = format!("{advice}; `--on-unknown report` speaks without them");
            CliError::failed(refusal(&voice.name, sentence, &why), help)
        }
        ReadingError::Stage(error) => voice::failed(&voice.name, &error),
    })
}

fn refused(voice: &str, sentence: &str, why: String) -> CliError {
    CliError::Failed { message: refusal(voice, sentence, &why), help: None }
}

fn refusal(voice: &str, sentence: &str, why: &str) -> String {
    format!("`{voice}` cannot speak {sentence:?}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_format_of_its_extension() {
        let sound = Sound { rate: 16_000, samples: vec![0; 160] };
        for (file, begins) in [
            (None, &b"RIFF"[..]),
            (Some("a.wav"), b"RIFF"),
            (Some("a.FLAC"), b"fLaC"),
            (Some("a"), b"RIFF"),
        ] {
            let bytes = encoded(sound.clone(), file.map(Utf8Path::new)).unwrap_or_default();
            assert!(bytes.starts_with(begins), "{file:?}");
        }
    }
}
