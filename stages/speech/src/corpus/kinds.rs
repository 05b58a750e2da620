//! The kinds of the family `corpus`: sources that read the user's recordings.

use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType, Work,
};

pub const KINDS: &[&Kind] =
    &[&TABLE, &FOLDER, &JSONL, &PARQUET, &SENTENCES, &RECORDINGS, &CORRECTIONS];

const CLIPS: &[OutputPort] = &[OutputPort {
    writes: &[("audio", FieldType::Blob), ("text", FieldType::Text), ("speaker", FieldType::Text)],
    passes: None,
    open: true,
    doc: "The clips, with further columns as fields. `speaker` exists if the corpus names one.",
    ..OutputPort::DATASET
}];

const SOURCE: Kind =
    Kind { work: Work::Source, cost: Cost::Rates(Rates::LIGHT), outputs: CLIPS, ..Kind::BASE };

const AUDIO_FOLDER: Parameter = Parameter {
    name: "audio",
    parameter_type: ParameterType::SourcePath,
    default: Default::Absent,
    doc: "The folder that audio paths are relative to. Default: the folder of the table or list \
          itself. Absolute paths may begin with this folder.",
    ..Parameter::BASE
};

const PARTS: Parameter = Parameter {
    name: "parts",
    parameter_type: ParameterType::Choice(&["cut", "off"]),
    default: Default::Text("cut"),
    doc: "The use of times and channels. `cut`: the clip is this part of its file. `off`: the files \
          are cut already, and times and channels are plain fields.",
    ..Parameter::BASE
};

const TOKENS: Parameter = Parameter {
    name: "tokens",
    parameter_type: ParameterType::SourcePath,
    default: Default::Absent,
    doc: "The folder with tokens that another tool has made, `ID.npy` for the clip `ID`; often the \
          folder of the clips themselves. They become the field `found_tokens`, for `vq.adopt`.",
    ..Parameter::BASE
};

const fn optional(name: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, default: Default::Absent, doc, ..Parameter::BASE }
}

const fn names(name: &'static str, doc: &'static str) -> Parameter {
    Parameter {
        name,
        parameter_type: ParameterType::List(&ParameterType::Text),
        default: Default::Texts(&[]),
        doc,
        ..Parameter::BASE
    }
}

const fn source_path(name: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, parameter_type: ParameterType::SourcePath, doc, ..Parameter::BASE }
}

pub static TABLE: Kind = Kind {
    name: "corpus.table",
    version: 6,
    summary: "Reads clips from a table with bars, commas, semicolons or tabs.",
    doc: "Two columns are file and text. Three are LJSpeech (file, raw text, normalised text) if \
        the two texts are alike; else file, text and speaker, with the speaker on either side: it \
        repeats or has fewer words than the text. If up to eight rows leave this open, they are \
        read as file, text and speaker, with a note, unless their values contradict it. Any other \
        table needs a header or `columns`; so does one with more columns.\n\nThe id \
        of a clip is its `id` column, or its path without the extension of audio. A path without \
        extension is looked up as .wav, .flac, .mp3, .ogg and .m4a. A name that differs from that of a \
        file in letter case or Unicode form only is found, with a note. Unusable rows are quarantined \
        with their line and byte. Recordings without a row are noted: those in the folder `audio`, or \
        without it in the folders of the files that rows name, but not in the folder of the manifest \
        itself. The table may be compressed with gzip.\n\nColumns `start` and `end` \
        or `duration` (in seconds, or as `start_ms`) and `channel` (from 0) say which part of its \
        file a clip is. The part is cut out, sample by sample, and has the fields `recording`, \
        `start` and `seconds`. Several parts of a file without ids get their times in \
        milliseconds as ids: `talk-0001500-0002750`.",
    parameters: &[
        source_path("table", "The table, in UTF-8."),
        AUDIO_FOLDER,
        TOKENS,
        Parameter {
            name: "separator",
            parameter_type: ParameterType::Choice(&["auto", "bar", "comma", "tab", "semicolon"]),
            default: Default::Text("auto"),
            doc: "The separator of columns. `auto`: the bar if the first row has one, else the \
                tab, else the comma or semicolon that comes first.",
            ..Parameter::BASE
        },
        Parameter {
            name: "quoting",
            parameter_type: ParameterType::Choice(&["auto", "on", "off"]),
            default: Default::Text("auto"),
            doc: "The use of double quotes around cells. `auto`: in tables with commas or \
                semicolons only.",
            ..Parameter::BASE
        },
        Parameter {
            name: "header",
            parameter_type: ParameterType::Choice(&["auto", "yes", "no"]),
            default: Default::Text("auto"),
            doc: "Tells if the first row has column names. `auto`: yes if it names a file and a \
                text.",
            ..Parameter::BASE
        },
        names(
            "columns",
            "Names of the columns in order: `file`, `text`, `speaker`, `id`, `start`, `end`, \
                `duration`, `channel`, names of further fields, `-` to skip one.",
        ),
        PARTS,
    ],
    ..SOURCE
};

pub static FOLDER: Kind = Kind {
    name: "corpus.folder",
    version: 4,
    summary: "Reads clips with a `.lab` or `.txt` file beside each, one folder per speaker.",
    doc: "The first folder below `folder` is the speaker of a clip, and the id of the clip is `FOLDER/NAME`, \
        without the extension. Audio without a transcript, transcripts without audio, and duplicate \
        clips are quarantined.",
    parameters: &[
        source_path("folder", "The folder with the speakers' folders."),
        optional(
            "transcript",
            "The ending of the texts, such as `.normalized.txt` in LibriTTS: that of `a.wav` is \
             `a.normalized.txt`. Other texts are ignored then. Default: `.lab` or `.txt`.",
        ),
        TOKENS,
        Parameter {
            name: "speaker",
            parameter_type: ParameterType::Choice(&[
                "auto", "first", "second", "third", "last", "none",
            ]),
            default: Default::Text("auto"),
            doc: "The folder that names the speaker, counted from `folder`; `last` is the folder of \
                  the clip itself. `auto` is the first one. If that is ambiguous, as in \
                  `train/SPEAKER/x.wav` or with a single folder of folders, the stage fails and \
                  lists the choices.",
            ..Parameter::BASE
        },
    ],
    ..SOURCE
};

pub static JSONL: Kind = Kind {
    name: "corpus.jsonl",
    version: 6,
    summary: "Reads clips from JSON lines, such as manifests of NeMo or lhotse.",
    doc: "A key with dots leads into objects and lists: `supervisions.0.text`. Further texts and \
          numbers become fields. A line that has a key twice is quarantined. The file may be \
          compressed with gzip.\n\nA line may be a part of its file, with `offset` or `start`, \
          `duration` or `end` (in seconds), and `channel` (from 0). The part is cut out, sample by \
          sample, and has the fields `recording`, `start` and `seconds`. `duration` alone is the \
          length of the whole file, as in manifests of NeMo; if another line of the manifest has a \
          start, the part begins at 0. Several parts of a file without ids get their times in milliseconds as ids: `talk-0001500-0002750`.\n\nEach \
          supervision of a cut of lhotse is a clip; if a cut has several, they are numbered from \
          `CUT-0`. Cuts of several recordings, with several channels or with transforms are \
          quarantined.",
    parameters: &[
        source_path("file", "The file with one JSON object per line."),
        AUDIO_FOLDER,
        TOKENS,
        names(
            "file_keys",
            "Keys of the audio path; the first that exists is used. If empty, the usual names.",
        ),
        names("text_keys", "Keys of the text."),
        names("speaker_keys", "Keys of the speaker."),
        names("id_keys", "Keys of the id."),
        PARTS,
    ],
    ..SOURCE
};

pub static PARQUET: Kind = Kind {
    name: "corpus.parquet",
    version: 5,
    summary: "Reads clips from Parquet files of Hugging Face, with the audio inside.",
    doc: "The audio column is a struct of `bytes` and `path`. Columns may be uncompressed or \
          compressed with snappy. The id of a clip is its `id` column or its path without the \
          extension of audio. If clips have no path, or all have the same path, their ids are the \
          name of the file and the row number.",
    parameters: &[
        source_path("path", "A `.parquet` file, or a folder of them."),
        optional("audio_column", "The struct column; the only one if not given."),
        optional("text_column", "The column of the text."),
        optional("speaker_column", "The column of the speaker."),
        optional("id_column", "The column of the id."),
    ],
    ..SOURCE
};

pub static SENTENCES: Kind = Kind {
    name: "corpus.sentences",
    summary: "Reads sentences to synthesise: a list, or a text file with one per line.",
    doc: "\
Sentences of the list come before those of the file. Empty lines, lines that begin with `#`, and
spaces around a sentence are ignored; a duplicate, and an empty entry of the list, is quarantined, which does
not count as a missing sentence.

The id of a sentence is its number, such as `001`, or with `ids = \"content\"` a hash of its text,
which does not change when other sentences are inserted.",
    outputs: &[OutputPort {
        writes: &[("text", FieldType::Text)],
        passes: None,
        doc: "The sentences.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        names("sentences", "The sentences."),
        Parameter {
            default: Default::Absent,
            ..source_path("file", "A text file in UTF-8 with one sentence a line.")
        },
        Parameter {
            name: "ids",
            parameter_type: ParameterType::Choice(&["number", "content"]),
            default: Default::Text("number"),
            doc: "The source of the ids.",
            ..Parameter::BASE
        },
        Parameter {
            name: "first",
            parameter_type: ParameterType::Integer { min: 1, max: 1_000_000_000 },
            default: Default::Absent,
            doc: "Reads only this number of sentences, from the first.",
            ..Parameter::BASE
        },
    ],
    ..SOURCE
};

pub static RECORDINGS: Kind = Kind {
    name: "corpus.recordings",
    version: 3,
    summary: "Reads long recordings with subtitles, a script, or neither.",
    doc: "\
Reads every recording of a folder (WAV, FLAC, MP3, M4A, Ogg Vorbis, AIFF), and the text beside it
with the same name: subtitles as `.srt` or `.vtt`, the `.json` of Whisper, or a script as `.txt`.
Times of subtitles are hints only. A recording without a text gets the common `script`, if there is
one. Sound in another format, such as Opus or WMA, and videos are recordings too if none of the above has
the name: the stage that decodes them names the format and the `ffmpeg` line that converts it.

The id of a recording is its path without the extension. Texts without a recording, recordings with
several texts or with a folder in the place of a text, and texts that cannot be read are quarantined,
the last with the line.

`audio.pauses` and `audio.segment` cut the recordings. A lossy recording that is encoded again
changes everywhere, so keep lossless ones if you edit them.",
    outputs: &[OutputPort {
        writes: &[
            ("audio", FieldType::Blob),
            ("recording", FieldType::Text),
            ("cues", FieldType::Blob),
            ("script", FieldType::Blob),
        ],
        passes: None,
        doc: "The recordings with their name. `cues` are the subtitles and `script` is the text, \
              if present.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        source_path("folder", "The folder with the recordings."),
        Parameter {
            default: Default::Absent,
            ..source_path("script", "A text file in UTF-8 for all recordings without a text.")
        },
    ],
    ..SOURCE
};

/// The value of `drops` for which `text.align` quarantines dropped segments.
pub const MARK: &str = "mark";

pub static CORRECTIONS: Kind = Kind {
    name: "corpus.corrections",
    applies_corrections: true,
    version: 4,
    summary: "Applies a table of corrections to segments: new texts, drops, splits and joins.",
    doc: "\
`throstle review` writes the table while you listen. A line has the id of a segment in the column
`segment` and an `action`: `text` replaces the text by that of the column `text`, `drop` removes the
segment, `split` cuts it after the seconds in `at`, and `join` appends the next segment of the
recording, which has the name in `with`. Further columns are remarks.

The id of a segment ends with a hash of its sound, and a line belongs to that hash: it stays valid when the
recording is edited elsewhere, and lines of several people can be put together. Parts of a split and
joined segments have such names too, and lines of their own. A line that is written by hand may also have the whole
id of a clip, as `throstle items` shows it; a line for its sound takes precedence. Two different lines for one segment are
an error that names both. `unused` lists the lines without effect, each with the reason:
`throstle items corrected.unused` shows them.

Put it behind `audio.segment`, so that only new sounds are recognised, with `drops = \"mark\"`, and let
`text.align` read its segments. The field `corrected` has the text of a person: `text.align` uses it
instead of the script, and `quality.align` lets it pass. For clips that have texts, put it behind their
source. A part of such a clip is left out until it has a text of its own in the table.",
    work: Work::Gather,
    inputs: &[InputPort {
        reads: FieldSet::All,
        doc: "Segments or clips with their `audio`. A join needs `recording`, `start` and `seconds`.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[("audio", FieldType::Blob), ("text", FieldType::Text)],
        doc: "The segments with their corrections. `corrected` is the text of a person.",
        ..OutputPort::DATASET
    }, OutputPort {
        name: "unused",
        passes: None,
        writes: &[
            ("line", FieldType::Number),
            ("segment", FieldType::Text),
            ("correction", FieldType::Text),
            ("reason", FieldType::Text),
        ],
        doc: "The lines of the table without effect.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "table",
            parameter_type: ParameterType::OptionalFile,
            default: Default::Absent,
            doc: "The table, a CSV file in UTF-8. Until there is one, nothing is corrected.",
            ..Parameter::BASE
        },
        Parameter {
            name: "drops",
            parameter_type: ParameterType::Choice(&["quarantine", MARK]),
            default: Default::Text("quarantine"),
            doc: "`mark`: dropped segments go on with the field `dropped`, and `text.align` \
                  quarantines them after it has aligned their neighbours.",
            ..Parameter::BASE
        },
    ],
    ..SOURCE
};
