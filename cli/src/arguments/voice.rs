//! The arguments of the commands that speak, and of the card of a model.

use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};

use super::common::{ManifestOption, Settings};

/// Additions to a voice.
#[derive(Args, Clone, Debug, Default)]
pub struct VoiceOptions {
    /// For a folder of files: a recording of the voice, for models that need one.
    #[arg(long, value_name = "FILE")]
    pub reference: Option<Utf8PathBuf>,
    /// The text of the recording.
    #[arg(long, value_name = "TEXT", requires = "reference")]
    pub reference_text: Option<String>,
    /// For a folder of files: the folder or file of the codec, for models that need one.
    #[arg(long, value_name = "FILE|DIR")]
    pub codec: Option<Utf8PathBuf>,
    /// The speaker, by name or number, for models with several.
    #[arg(long, value_name = "NAME")]
    pub speaker: Option<String>,
    /// The language of the text, such as `en`, for models with several.
    #[arg(long, value_name = "CODE")]
    pub language: Option<String>,
    /// The effect of letters and digits that the model does not know. Default: that of the synthesis
    /// stage. Other signs, such as punctuation, are left out and named; some voices refuse them like
    /// letters.
    #[arg(long, value_enum, value_name = "EFFECT")]
    pub on_unknown: Option<OnUnknown>,
    /// The number of threads of the model. Default: the number of processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// The seed of the noise of a `.onnx` voice. Default: 1.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub settings: Settings,
}

/// The effect of characters that would be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnUnknown {
    /// Refuse the text.
    Fail,
    /// Speak it without them, and name them.
    Report,
}

impl OnUnknown {
    pub fn read(word: &str) -> Option<OnUnknown> {
        OnUnknown::from_str(word, false).ok()
    }
}

#[derive(Args, Debug)]
pub struct Say {
    /// The voice: a folder of files as `model.export` writes it, a `.onnx` voice of Piper, or
    /// `PIPELINE:STAGE`: a manifest or
    /// its folder, with a synthesis stage or a stage that outputs a model. PIPELINE alone speaks with
    /// its only synthesis stage.
    pub voice: String,
    /// The text; `-` reads it from standard input.
    pub text: String,
    /// The file to write: WAV, or what its extension names (`flac`, `mp3`, `opus`, `aac`); `-` for standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    /// Play the sound although standard output is no terminal.
    #[arg(long, conflicts_with = "output")]
    pub play: bool,
    /// The speed; 2 is twice as fast.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    #[command(flatten)]
    pub options: VoiceOptions,
}

#[derive(Args, Debug)]
pub struct Serve {
    /// The voices, as for `say`; `NAME=VOICE` renames a voice.
    #[arg(required = true, value_name = "VOICE")]
    pub voices: Vec<String>,
    /// The port on this machine; 0 is any free one.
    #[arg(long, default_value_t = 8020, conflicts_with = "listen")]
    pub port: u16,
    /// Serve other machines too, at this address, such as `0.0.0.0:8020`.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<std::net::SocketAddr>,
    /// The token that clients have to send as their API key. Default: none on this machine, and a
    /// new one with `--listen`.
    #[arg(long, value_name = "TOKEN", env = "THROSTLE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// The largest number of waiting requests; further ones get status 429.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub queue: u16,
    #[command(flatten)]
    pub options: VoiceOptions,
}

#[derive(Args, Debug)]
pub struct Card {
    /// The stage that exports the model, or the one that makes it.
    pub stage: String,
    /// The file to write. Default, or with `-`: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<Utf8PathBuf>,
    /// The title. Default: the name of the pipeline.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// The model on the hub that this one was made from.
    #[arg(long, value_name = "REPO")]
    pub base: Option<String>,
    /// The data set on the hub that it was trained on.
    #[arg(long, value_name = "REPO")]
    pub data: Option<String>,
    /// The language that it speaks, such as `fi`.
    #[arg(long, value_name = "CODE")]
    pub language: Option<String>,
    /// The repository to publish to, for the commands.
    #[arg(long, value_name = "REPO")]
    pub repo: Option<String>,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| (0.05..=20.0).contains(speed));
    speed.ok_or_else(|| "expected a number from 0.05 to 20".into())
}
