//! The kinds of the family `audio`. All of them read any common container, and write 16-bit PCM WAV
//! with a plain header.

use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, Expands, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType,
    Unit,
};

pub const KINDS: &[&Kind] = &[&DECODE, &RESAMPLE, &LOUDNESS, &TRIM, &CHECK, &PAUSES, &SEGMENT];

/// Sound that is read and written again.
const REWRITTEN: Rates = Rates {
    seconds_per_item: 5e-5,
    seconds_per_second: 6e-4,
    bytes_per_second: 88_200.0,
    sample_rate: Some(44_100.0),
    spread: 3.0,
    origin: "sound is read, worked on and written at 1,700 times its speed on one core, and a clip \
             takes 50 µs more (docs/benchmarks.md, chain and small clips), as 16 bit mono of 44.1 kHz \
             where no rate is known",
    ..Rates::LIGHT
};
const DECODED: Rates = Rates { seconds_per_second: 3e-3, ..REWRITTEN };
const HEARD: Rates = Rates { bytes_per_second: 0.0, ..REWRITTEN };

const RECORDINGS: InputPort = InputPort {
    reads: FieldSet::These(&[("audio", FieldType::Blob)]),
    doc: "Recordings as WAV, FLAC, MP3, Ogg Vorbis, M4A (AAC, ALAC) or AIFF.",
    ..InputPort::DATASET
};

const CHANNELS: Parameter = Parameter {
    name: "channels",
    parameter_type: ParameterType::Choice(&["mean", "left", "right", "error"]),
    default: Default::Text("mean"),
    doc: "The treatment of several channels. The mean of channels in opposite phase cancels the \
        voice; a note reports it.",
    ..Parameter::BASE
};

const ALLOW_TRUNCATED: Parameter = Parameter {
    name: "allow_truncated",
    parameter_type: ParameterType::Flag,
    default: Default::Flag(false),
    doc: "Keeps recordings with less data than their header declares, with a note.",
    ..Parameter::BASE
};

const LONGEST: Parameter = Parameter {
    name: "longest",
    parameter_type: ParameterType::Duration,
    default: Default::Seconds(600.0),
    unit: Unit::Seconds,
    doc: "Longer recordings are quarantined while they are read, before they fill the memory.",
    ..Parameter::BASE
};

/// An optional number; without it, its limit is off.
const SHARE: ParameterType = ParameterType::Number { min: 0.0, max: 1.0 };

pub static DECODE: Kind = Kind {
    name: "audio.decode",
    version: 3,
    summary: "Decodes recordings in any common format.",
    doc: "Truncated files, samples that are not numbers, and files without sound are quarantined \
        with a specific reason. Encoder delay is removed if the container states it. A length in a \
        header never limits what is read: a false one is noted. Joined files and chained streams \
        are read as one recording if rate and channels agree. Whatever is left out is noted with \
        its amount.",
    cost: Cost::Rates(DECODED),
    inputs: &[RECORDINGS],
    outputs: &[OutputPort {
        writes: &[
            ("audio", FieldType::Blob),
            ("seconds", FieldType::Number),
            ("rate", FieldType::Number),
        ],
        doc: "The same recordings as WAV, and their length and sample rate.",
        ..OutputPort::DATASET
    }],
    parameters: &[CHANNELS, ALLOW_TRUNCATED, LONGEST],
    ..Kind::BASE
};

pub static RESAMPLE: Kind = Kind {
    name: "audio.resample",
    version: 5,
    summary: "Converts audio to another sample rate.",
    doc: "Flat within 0.1 dB to 96 % of the band, aliases below -130 dB, no delay. Audio that \
          already has this rate keeps its samples, bit for bit, in a file without other chunks. A higher rate adds no frequencies: \
          a note gives the original rate and the highest frequency of such recordings.",
    cost: Cost::Rates(REWRITTEN),
    inputs: &[RECORDINGS],
    outputs: &[OutputPort {
        writes: &[("audio", FieldType::Blob)],
        doc: "The same clips at the new rate.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "rate",
            parameter_type: ParameterType::Integer { min: 4_000, max: 384_000 },
            default: Default::Integer(16_000),
            unit: Unit::Hertz,
            doc: "The sample rate of the output.",
            ..Parameter::BASE
        },
        CHANNELS,
        ALLOW_TRUNCATED,
        LONGEST,
    ],
    ..Kind::BASE
};

pub static LOUDNESS: Kind = Kind {
    name: "audio.loudness",
    version: 3,
    summary: "Brings recordings to one loudness.",
    doc: "Integrated loudness after EBU R128; clips shorter than 0.4 s go by their plain level.",
    cost: Cost::Rates(REWRITTEN),
    inputs: &[RECORDINGS],
    outputs: &[OutputPort {
        writes: &[("audio", FieldType::Blob), ("gain_db", FieldType::Number)],
        doc: "The clips at equal loudness, and the gain of each.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "target",
            parameter_type: ParameterType::Number { min: -60.0, max: 0.0 },
            default: Default::Number(-23.0),
            unit: Unit::Lufs,
            doc: "The loudness to reach.",
            ..Parameter::BASE
        },
        Parameter {
            name: "max_gain",
            parameter_type: ParameterType::Number { min: 0.0, max: 60.0 },
            default: Default::Number(20.0),
            unit: Unit::Decibel,
            doc: "The largest gain of a quiet recording.",
            ..Parameter::BASE
        },
        Parameter {
            name: "peak_ceiling",
            parameter_type: ParameterType::Number { min: -20.0, max: 0.0 },
            default: Default::Number(-1.0),
            unit: Unit::Decibel,
            doc: "The limit of the true peak, which includes peaks between samples.",
            ..Parameter::BASE
        },
        CHANNELS,
    ],
    ..Kind::BASE
};

pub static TRIM: Kind = Kind {
    name: "audio.trim",
    version: 4,
    summary: "Trims the silence before and after the speech.",
    doc: "A voice activity detector finds the speech. A clip without speech is quarantined.",
    cost: Cost::Rates(REWRITTEN),
    inputs: &[RECORDINGS],
    outputs: &[OutputPort {
        writes: &[("audio", FieldType::Blob), ("seconds", FieldType::Number)],
        doc: "The trimmed clips, and their length.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "keep",
            parameter_type: ParameterType::Duration,
            default: Default::Seconds(0.25),
            unit: Unit::Seconds,
            doc: "The silence kept before and after the speech.",
            ..Parameter::BASE
        },
        Parameter {
            name: "threshold",
            parameter_type: SHARE,
            default: Default::Number(0.5),
            doc: "The detector score from which a frame counts as speech.",
            ..Parameter::BASE
        },
        Parameter {
            name: "shortest",
            parameter_type: ParameterType::Duration,
            default: Default::Seconds(0.05),
            unit: Unit::Seconds,
            doc: "Shorter bursts are clicks, not speech.",
            ..Parameter::BASE
        },
        CHANNELS,
    ],
    ..Kind::BASE
};

pub static CHECK: Kind = Kind {
    name: "audio.check",
    version: 3,
    summary: "Measures recordings and quarantines bad ones.",
    doc: "A recording that violates a limit is quarantined; the reason lists all violated limits \
        with value and limit. Recordings do not change. A measure of a clip that is too short or \
        too silent for it is 0 and violates no limit.",
    cost: Cost::Rates(HEARD),
    inputs: &[RECORDINGS],
    outputs: &[OutputPort {
        writes: &[
            ("seconds", FieldType::Number),
            ("peak_dbfs", FieldType::Number),
            ("rms_dbfs", FieldType::Number),
            ("clipped_share", FieldType::Number),
            ("dc_offset", FieldType::Number),
            ("silence_share", FieldType::Number),
            ("snr", FieldType::Number),
            ("bandwidth_hz", FieldType::Number),
            ("rolloff_hz", FieldType::Number),
        ],
        doc: "The recordings that are good enough, with their measures.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "min_duration",
            parameter_type: ParameterType::Duration,
            default: Default::Seconds(0.5),
            unit: Unit::Seconds,
            doc: "The shortest recording.",
            ..Parameter::BASE
        },
        Parameter {
            name: "max_duration",
            parameter_type: ParameterType::Duration,
            default: Default::Seconds(20.0),
            unit: Unit::Seconds,
            doc: "The longest recording.",
            ..Parameter::BASE
        },
        Parameter {
            name: "min_peak",
            parameter_type: ParameterType::Number { min: -100.0, max: 0.0 },
            default: Default::Number(-40.0),
            unit: Unit::Decibel,
            doc: "The lowest peak, relative to full scale; a quieter recording usually means a \
                dead microphone.",
            ..Parameter::BASE
        },
        Parameter {
            name: "max_clipped",
            parameter_type: SHARE,
            default: Default::Number(0.001),
            doc: "The share of samples in runs of three or more at full scale.",
            ..Parameter::BASE
        },
        Parameter {
            name: "max_dc_offset",
            parameter_type: SHARE,
            default: Default::Number(0.05),
            doc: "The mean sample, as a share of full scale.",
            ..Parameter::BASE
        },
        Parameter {
            name: "max_silence",
            parameter_type: SHARE,
            default: Default::Number(0.8),
            doc: "The share of frames of 20 ms below -50 dBFS.",
            ..Parameter::BASE
        },
        Parameter {
            name: "min_snr",
            parameter_type: ParameterType::Number { min: -20.0, max: 100.0 },
            default: Default::Absent,
            unit: Unit::Decibel,
            doc: "The signal to noise ratio, estimated from the distribution of amplitudes. Not \
                  checked unless given.",
            ..Parameter::BASE
        },
        Parameter {
            name: "min_bandwidth",
            parameter_type: ParameterType::Number { min: 0.0, max: 400_000.0 },
            default: Default::Absent,
            unit: Unit::Hertz,
            doc: "The highest frequency within 60 dB of the strongest one. A limit of 4200 \
                  finds telephone recordings at any sample rate. Not checked unless given.",
            ..Parameter::BASE
        },
        Parameter {
            name: "min_correlation",
            parameter_type: ParameterType::Number { min: -1.0, max: 1.0 },
            default: Default::Number(-0.5),
            doc: "The correlation of the two channels of a stereo recording: below this their mean \
                  loses the voice. -1 accepts all.",
            ..Parameter::BASE
        },
        CHANNELS,
        ALLOW_TRUNCATED,
        LONGEST,
    ],
    ..Kind::BASE
};

/// The kind of the list of pauses.
pub const PAUSES_KIND: &str = "pauses/npy";

const LONG_RECORDINGS: InputPort = InputPort {
    reads: FieldSet::These(&[("audio", FieldType::Blob)]),
    doc: "Recordings of any length as WAV, FLAC, MP3, Ogg Vorbis, M4A (AAC, ALAC) or AIFF.",
    ..InputPort::DATASET
};

const fn seconds(name: &'static str, default: f64, doc: &'static str) -> Parameter {
    Parameter {
        name,
        parameter_type: ParameterType::Duration,
        default: Default::Seconds(default),
        unit: Unit::Seconds,
        doc,
        ..Parameter::BASE
    }
}

pub static PAUSES: Kind = Kind {
    name: "audio.pauses",
    version: 2,
    summary: "Finds the pauses of long recordings.",
    doc: "\
A pause is a part of at least `least` in which the energy of a short window is more than `dip`
decibels below the largest energy around it. This is computed in integers and at every sample, from
the neighbourhood alone: loudness plays no part, and an edit moves no pause that is not next to it.

A recording is read in parts, so hours of sound fit into the memory.",
    cost: Cost::Rates(Rates { bytes_per_item: 1e4, ..HEARD }),
    inputs: &[LONG_RECORDINGS],
    outputs: &[OutputPort {
        writes: &[("pauses", FieldType::Blob), ("seconds", FieldType::Number)],
        doc: "The recordings with their pauses, each with its start, its end and its quietest \
              sample, and their length.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "dip",
            parameter_type: ParameterType::Number { min: 1.0, max: 60.0 },
            default: Default::Number(12.0),
            unit: Unit::Decibel,
            doc: "The depth of a pause below the loudest window around it.",
            ..Parameter::BASE
        },
        seconds("least", 0.2, "The shortest pause."),
        seconds("box", 0.1, "The length of the window around each sample."),
        seconds("around", 1.5, "The sound on each side that a window is compared with."),
    ],
    ..Kind::BASE
};

pub static SEGMENT: Kind = Kind {
    name: "audio.segment",
    version: 2,
    summary: "Cuts long recordings into segments at their pauses.",
    doc: "\
Each recording becomes several items. A cut is at the quietest sample of a pause that is long or
the longest one near it; a part that is still too long is cut at its longest pause. Only pauses
nearby decide, so an edit changes the segments that it touches and one or two beside them.

The samples are not changed: 16 bits stay as they are, and finer ones are rounded. The id of a
segment is the id of its recording, a slash, and ten letters from a hash of its sound, so segments
keep their ids when others come, go or change. Of equal segments of a recording the second is `-2`.
Put `audio.resample`, `audio.loudness` and `audio.trim` behind this stage, not before it.

Parts without a pause that are longer than `longest` are left out, and a note counts their seconds.
A recording without any segment is quarantined.",
    expands: Some(Expands { bytes_per_child: 9.3 * 88_200.0 }),
    cost: Cost::Rates(REWRITTEN),
    inputs: &[InputPort {
        reads: FieldSet::These(&[("audio", FieldType::Blob), ("pauses", FieldType::Blob)]),
        ..LONG_RECORDINGS
    }],
    outputs: &[OutputPort {
        writes: &[
            ("audio", FieldType::Blob),
            ("start", FieldType::Number),
            ("seconds", FieldType::Number),
        ],
        doc: "The segments as WAV, with their start in the recording and their length in seconds.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        seconds("shortest", 1.0, "The shortest segment."),
        seconds("longest", 20.0, "The longest segment."),
        seconds(
            "wanted",
            6.0,
            "A pause is a cut if it is the longest one within this time on both sides.",
        ),
        seconds("cut_at", 0.9, "A pause of this length is always a cut."),
    ],
    ..Kind::BASE
};
