//! The kinds of the family `text`.

use stage_core::cost::{Cost, Rates};
use stage_core::{
    Batching, Cause, Default, Expands, FieldSet, FieldType, InputPort, Kind, Mistake, OutputPort,
    Parameter, ParameterType, Parameters, PortType, Role, Work,
};
use stage_families::artifact::VITS;
use stage_families::kinds::audit::TEXTS;
use stage_families::vits::PHONEMES;

use crate::command::kinds::{ENVIRONMENT, VERSION, VERSION_COMMAND, mistakes_of_line};

pub const KINDS: &[&Kind] = &[&NORMALIZE, &SENTENCES, &PHONEMISE, &ROMANISE, &ALIGN];

/// The languages of spelled-out numbers, after the choice to keep digits. Their words are in
/// `stages/families/src/numbers`.
pub const NUMBERS: &[&str] = &[
    "keep", "am", "ar", "cs", "de", "en", "es", "fi", "fr", "gu", "hi", "hu", "it", "ja", "ko",
    "nl", "pl", "pt", "ru", "tr", "zh",
];

/// The language of letters in upper and lower case.
pub const LANGUAGE: Parameter = Parameter {
    name: "language",
    default: Default::Absent,
    doc: "The language of `case`, such as `tr`: Turkish and Azerbaijani have a dotted and a dotless i, \
          and Lithuanian keeps the dot of an i below an accent. The default is that of `numbers`.",
    ..Parameter::BASE
};

/// Finds a name in the place of a code.
pub(crate) fn mistakes_of_language(parameters: &Parameters) -> Vec<Mistake> {
    let written = parameters.text("language").unwrap_or_default();
    let code = written.split(['-', '_']).next().unwrap_or_default();
    let is_code = (2..=3).contains(&code.len()) && code.chars().all(|it| it.is_ascii_alphabetic());
    if !parameters.is_set("language") || is_code {
        return Vec::new();
    }
    vec![Mistake {
        parameter: "language",
        message: format!("`{written}` is not a language code"),
        help: Some("write a code of two or three letters, such as `tr` or `lt`".to_owned()),
    }]
}

pub static NORMALIZE: Kind = Kind {
    name: "text.normalize",
    version: 4,
    summary: "Normalises texts, and spells out numbers.",
    doc: "Unicode form, quotes, dashes, spaces, invisible and control characters, emoji, and \
        letter case by choice. Every change is counted in the notes. Numbers are spelled out only \
        where their reading is unambiguous: whole numbers, decimals, percents, and ordinals with a \
        mark such as `2nd`, `2\u{ba}`, `2\u{aa}` or `2-\u{439}`. Where numerals inflect, the form for counting is \
        written; a 1 before an Italian, Spanish or Portuguese noun agrees with it (`una casa`), unless \
        it names what stands before it (`tasto 1`), and stays behind an article, before a month, and \
        if the noun does not show its gender. Years are read like other numbers. Digits that begin \
        with a zero, and telephone numbers behind a word such as `tel.` or with a country code, are \
        read one by one. Ranges, dates, times, amounts of \
        money (`3,50 euro` too), numbers with an attached unit, and what else may be a telephone number or a list \
        (`600 100 200`, more than nine digits in a row) stay. Remaining digits are counted, and \
        `text.audit` stops on them if its model lacks them; a model of `xtts.extend` gets a token for each. A second pass changes nothing.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[TEXTS],
    outputs: &[OutputPort {
        writes: &[("text", FieldType::Text)],
        doc: "The clips with their texts normalised.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "form",
            parameter_type: ParameterType::Choice(&["nfc", "nfd", "nfkc"]),
            default: Default::Text("nfc"),
            doc: "The Unicode form that the target tokenizer was made with.",
            ..Parameter::BASE
        },
        Parameter {
            name: "case",
            parameter_type: ParameterType::Choice(&["keep", "lower", "upper"]),
            default: Default::Text("keep"),
            doc: "The conversion of upper and lower case.",
            ..Parameter::BASE
        },
        LANGUAGE,
        Parameter {
            name: "keep",
            parameter_type: ParameterType::List(&ParameterType::Choice(&[
                "quote",
                "dash",
                "ellipsis",
                "space",
                "invisible",
                "control",
                "emoji",
            ])),
            default: Default::Texts(&[]),
            doc: "Kinds of characters that stay as they are.",
            ..Parameter::BASE
        },
        Parameter {
            name: "joiners",
            parameter_type: ParameterType::Choice(&["indic", "keep", "remove"]),
            default: Default::Text("indic"),
            doc: "Zero-width joiners: kept in Indic scripts, where they are spelling, or \
                everywhere, or nowhere.",
            ..Parameter::BASE
        },
        Parameter {
            name: "numbers",
            parameter_type: ParameterType::Choice(NUMBERS),
            default: Default::Text("keep"),
            doc: "The language in which numbers are spelled out. `keep` leaves them as they are.",
            ..Parameter::BASE
        },
    ],
    check: |parameters, _| mistakes_of_language(parameters),
    ..Kind::BASE
};

pub static SENTENCES: Kind = Kind {
    name: "text.sentences",
    summary: "Splits long texts into sentences.",
    doc: "\
Each text becomes several items, one for each sentence. The id of a sentence is the id of its text, a
slash, and ten letters from a hash of its words, so sentences keep their ids when others come, go or
change. Of equal sentences of a text the second is `-2`.

A sentence ends at `.`, `!`, `?`, `\u{2026}` or the sign of another script, with the quotes and brackets
behind it, if a space follows and the next word does not begin with a small letter; signs such as
`\u{3002}` need no space. An empty line ends a sentence, a single line break does not. These are no
ends: the dots in `3.5`, `e.g.`, `Mr. Smith`, `J. R. R. Tolkien`, `U.S. law`, `3. 4. 1926`, and those
of your own `abbreviations`. Words such as `etc.` and `Inc.` end a sentence if the next word begins
with a capital.

A sentence that is longer than `longest` is split at a comma, semicolon, colon or dash, else between
two words; a note counts the parts. Thai, Lao and Burmese do not mark sentences as others do, so they
are split at their spaces in this way. A text with neither ends nor spaces is quarantined with the
name of its script.",
    expands: Some(Expands { bytes_per_child: 90.0 }),
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort {
        reads: FieldSet::Named { parameter: "field", also: &[] },
        doc: "Items with long texts.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[
            ("text", FieldType::Text),
            ("text_start", FieldType::Number),
            ("text_end", FieldType::Number),
        ],
        doc: "The sentences, with one space for each run of spaces and line breaks. `text_start` \
              and `text_end` are the first byte in the original text and the byte behind the last.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "field",
            default: Default::Text("text"),
            doc: "The field with the text: a text, or a file in UTF-8 such as the `script` of \
                  `corpus.recordings`.",
            ..Parameter::BASE
        },
        Parameter {
            name: "longest",
            parameter_type: ParameterType::Integer { min: 10, max: 1_000_000 },
            default: Default::Integer(400),
            doc: "The most characters of a sentence.",
            ..Parameter::BASE
        },
        Parameter {
            name: "abbreviations",
            parameter_type: ParameterType::List(&ParameterType::Text),
            default: Default::Texts(&[]),
            doc: "More words with a dot that end no sentence, such as `\"Kap.\"`.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static PHONEMISE: Kind = Kind {
    name: "text.phonemise",
    summary: "Writes the phonemes of texts, by espeak-ng.",
    doc: "\
Voices of Piper read phonemes. This stage writes them to the field `phonemes`, and leaves `text` as it
is. `vits.synthesize` and `text.audit` read `phonemes` for a model that needs them.

espeak-ng is a program that you install, for example with `apt install espeak-ng`. Another version may
write other phonemes: set `version` to have it checked, and to make it part of the key. Names of
languages around foreign words are left out, and punctuation stays. A text with marks of stress or
length is quarantined, since it is phonemes already; so is a text with letters beyond the Latin script
where the language of the voice is written in it, since espeak-ng reads their names.",
    batching: Batching::ByCount { parameter: "batch" },
    cost: Cost::Rates(Rates {
        seconds_per_item: 1e-3,
        origin: "espeak-ng writes the phonemes of a thousand sentences in a second (measured)",
        ..Rates::LIGHT
    }),
    inputs: &[
        TEXTS,
        InputPort {
            name: "model",
            reads: FieldSet::These(&[("vocab.json", FieldType::Blob)]),
            may_read: &[("tokenizer_config.json", FieldType::Blob)],
            optional: true,
            replaced_by: &["voice"],
            doc: "The voice of Piper that will read the phonemes: it names the voice of espeak-ng.",
            takes: &[VITS],
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort {
        writes: &[(PHONEMES, FieldType::Text)],
        doc: "The texts with their phonemes.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "voice",
            default: Default::Absent,
            doc: "The voice of espeak-ng, such as `en-us` or `fi`. If not given, that of `model`.",
            ..Parameter::BASE
        },
        Parameter {
            name: "version",
            default: Default::Absent,
            doc: "The expected version of espeak-ng, such as `1.51`.",
            ..Parameter::BASE
        },
        Parameter {
            name: "batch",
            parameter_type: ParameterType::Integer { min: 1, max: 10_000 },
            default: Default::Integer(256),
            role: Role::Execution,
            doc: "The largest number of texts for one start of espeak-ng.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static ROMANISE: Kind = Kind {
    name: "text.romanise",
    summary: "Writes the words of scripts and subtitles in Latin letters, by your own program.",
    doc: "\
Some recognisers know only Latin letters, such as MMS_FA with its 28 symbols. For texts in another
script, `text.align` uses the romanised words of this stage in the alignment, and segments keep the
original text with its punctuation.

The program is yours, such as uroman (`pip install uroman`). It reads a file with one word in each
line, and writes one line for each. The words are those of `script`, `cues` and `corrected` with
letters or digits beyond ASCII, without the punctuation around them, each once. A word is what stands
between spaces: put spaces between the words of scripts that have none, such as Chinese, Japanese and
Thai.

The program runs once for all new texts; the words of other texts are remembered. It runs in a
private folder with a clean environment, like that of `command`. A note counts words that it left
without Latin letters; in the alignment these match any sound.",
    work: Work::Gather,
    inputs: &[InputPort {
        reads: FieldSet::All,
        doc: "Recordings of `corpus.recordings`, or their segments with `corrected`.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[("words", FieldType::Blob)],
        doc: "The words and their romanisations as JSON.",
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "command",
            default: Default::Text("uroman -i {words} -o {out.words}"),
            doc: "The line for `sh -c`. `{words}` is the path of the file with the words, \
                `{out.words}` the path of the file to write, `{base}` the folder of the manifest. \
                With uroman, `-l hin` names the language of the words in ISO 639-3.",
            ..Parameter::BASE
        },
        ENVIRONMENT,
        VERSION,
        VERSION_COMMAND,
    ],
    check: |parameters, unknown| mistakes_of_line(parameters, unknown, &["words", "out.words"]),
    ..Kind::BASE
};

pub static ALIGN: Kind = Kind {
    name: "text.align",
    version: 2,
    causes: &[Cause {
        code: "no-text",
        advice: "the recogniser hears almost none of the words, so it is probably for another language, or \
                 the texts belong to other recordings: read what it hears with a stage `asr.transcribe` \
                 that has the same `model`",
    }],
    summary: "Finds the words of each segment in the script or subtitles of its recording.",
    doc: "\
All segments of a recording are aligned with its text at once, by the symbol probabilities of a
recogniser for each frame (CTC). Places where words of the text and of the greedy transcript agree
come first, and the rest is aligned between them; words of subtitles are searched within five
seconds of their cue. If words are further from their cues, the times of all cues of that recording
are ignored: its subtitles are read as a script, and a note counts these cues. Sound without a text
is allowed between sentences, and sentences may be left out. Each segment gets its part of the text
as it is written, with its punctuation. Without a text, segments get the transcript of the
recogniser.

A segment is quarantined if no word of the text is in it, if more than half of it is sound without a
text, or if one of its ends is within a word. `unheard` lists parts of the text that were heard in
no recording. Characters that the recogniser does not know, such as digits, match any sound: spell
numbers out in the text where you can.

A segment with the field `corrected`, which `corpus.corrections` gives, has that text; its words are
aligned within the segment. One with `dropped` is quarantined after its neighbours are aligned.

A recording is aligned again when its segments or its text change; others are remembered.",
    work: Work::Gather,
    cost: Cost::Rates(Rates {
        seconds_per_second: 5e-3,
        bytes_per_item: 1e3,
        spread: 5.0,
        origin: "an hour of sound is aligned in 20 s where anchors are found",
        ..Rates::LIGHT
    }),
    inputs: &[
        InputPort {
            reads: FieldSet::All,
            doc: "Segments of `audio.segment` with the emissions of `asr.emit`.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "segments",
            reads: FieldSet::All,
            optional: true,
            doc: "The same segments before they were resampled for the recogniser: these get the \
                  texts.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "romanised",
            optional: true,
            doc: "The words in Latin letters, of `text.romanise`: used for words with letters that \
                  the recogniser does not know. The segments keep the text as it is written.",
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[
        OutputPort {
            writes: &[
                ("text", FieldType::Text),
                ("align_mean", FieldType::Number),
                ("align_worst", FieldType::Number),
                ("align_edge", FieldType::Number),
                ("letters_per_second", FieldType::Number),
                ("words", FieldType::Blob),
            ],
            doc: "The segments with their text. `align_mean` is the mean logarithm of the \
                  probability of a frame, `align_worst` that of the worst ten frames in a row, \
                  `align_edge` the probability of the first or the last letter, the lower one; if the \
                  letter beside it is heard, any letter counts in its place, so that a misheard \
                  letter is not taken for a clipped one; `words` are start, end and \
                  word as JSON.",
            ..OutputPort::DATASET
        },
        OutputPort {
            name: "unheard",
            port_type: PortType::Artifact,
            writes: &[("unheard", FieldType::Blob)],
            doc: "Parts of the text that were not heard, as JSON.",
            ..OutputPort::ARTIFACT
        },
    ],
    parameters: &[
        Parameter {
            name: "star",
            parameter_type: ParameterType::Flag,
            default: Default::Flag(true),
            doc: "Allow sound without a text between sentences.",
            ..Parameter::BASE
        },
        Parameter {
            name: "anchors",
            parameter_type: ParameterType::Integer { min: 1, max: 50 },
            default: Default::Integer(5),
            doc: "The number of consecutive words that have to agree to anchor the alignment.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};
