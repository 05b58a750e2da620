//! The kind `vits.finetune`: VITS trained on clips.

use crate::artifact;
use stage_core::artifact::LOG;
use stage_core::catalogue::train::{
    CHECKPOINTS, absent, at_least_one, choice, count, device_mistakes, number, shared,
};
use stage_core::cost::{Cost, Training};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType, Place,
    Work,
};

const CLIP: &[(&str, FieldType)] = &[("text", FieldType::Text), ("audio", FieldType::Blob)];

const MAY_READ: &[(&str, FieldType)] =
    &[("speaker", FieldType::Text), ("spectrogram", FieldType::Blob)];

pub static FINETUNE: Kind = Kind {
    name: "vits.finetune",
    version: 2,
    summary: "Trains a VITS model and its discriminator on clips.",
    doc: "\
A step has two phases. First the discriminator is trained on all clips of the step to distinguish
recorded from generated sound; then the generator is trained on the same clips against the updated
discriminator. A step depends neither on its batches nor on its number of devices. Of each clip one
part of `segment` is made into sound. Held-out clips are never trained on; at every validation the
same parts of them are made with the same noise, and the distance of the mel spectrograms
(`held_out/mel`) decides what is kept (`take`) and when to end (`patience`).

So that progress can be heard and seen in TensorBoard, up to 17 validations, evenly spread, leave
samples of up to three held-out clips in the log: the text of a short, a middling and a long one as
the model speaks it (`full_generation_sample0` to `2`; none while it would take more than 20
seconds), and of the first of them the mel spectrogram of a part as it was recorded and as it was
made (`slice/mel_org`, `slice/mel_gen`), that of the whole clip (`all/mel`), and which frames belong
to which token (`all/attn`).

A run that is stopped, killed or cut off goes on from its last checkpoint and ends with the same
weights to the bit as one that never was, on the CPU.

Clips are set aside where they are shorter than a part or longer than `max_seconds`, where they have
fewer frames than their text has tokens, and where their text has letters or digits that the model has
no symbol for; marks that it has none for are dropped, and counted in the notes. Audio at another rate
than the model's is refused. A clip whose text has letters or digits beyond ASCII is set aside where the
model reads romanised texts (`is_uroman`). When more than `quarantine` are set aside, the stage fails
before its first step. `spectrogram`, of `vits.spectrogram`, is taken where clips
have it, and else computed.

Where the model knows several speakers, `speaker` says who speaks. A model that does not name them
takes the names of the clips, sorted; one that does keeps its own, and `new_speakers` says what is to
become of others: they are refused, or each gets a row of its own behind those of the known speakers,
whose rows are taken over to the bit. Such a row is drawn from `seed` and the name about the mean of
the known ones and as far from it as they are; who joined is in the notes.

Published models of MMS have no discriminator: a fresh one is drawn from the seed, or one is taken
from the model on `judge`. The result has one, so that training can go on, and synthesis ignores it.

Before the first step a preflight looks for what would spoil the run: it makes two steps, again with
a stop, a save and a reload between them, refuses frozen tensors that move and losses that are no
numbers, and speaks one short text, which must not be silent.",
    work: Work::Train,
    place: Place::Worker,
    cost: Cost::Training(Training { family: artifact::VITS, adapters: false }),
    inputs: &[
        InputPort {
            reads: FieldSet::These(CLIP),
            may_read: MAY_READ,
            doc: "Clips as mono `audio/wav` at the model's rate, with their texts.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "validation",
            reads: FieldSet::These(CLIP),
            may_read: MAY_READ,
            optional: true,
            doc: "Held-out clips. A clip that is also on `input` is not trained on.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "base",
            reads: FieldSet::All,
            doc: "The model to begin from: of `model.import`, `vits.init` or `vits.finetune`.",
            takes: &[artifact::VITS],
            ..InputPort::ARTIFACT
        },
        InputPort {
            name: "judge",
            reads: FieldSet::All,
            optional: true,
            doc: "A model that provides the discriminator instead of `base`.",
            takes: &[artifact::VITS],
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[
        OutputPort {
            name: "model",
            writes: &[("config", FieldType::Blob), ("family", FieldType::Text)],
            open: true,
            doc: "The model with its discriminator: `config`, the tokenizer's files, `lineage` \
                (what it was made from, as JSON), `speakers` where it knows several, and one \
                field `tensor/NAME` for each tensor, named as in transformers, weights in pairs \
                where they are trained so.",
            gives: &[artifact::VITS],
            ..OutputPort::ARTIFACT
        },
        OutputPort {
            name: "log",
            writes: &[("metrics", FieldType::Blob), ("events", FieldType::Blob)],
            doc: "`metrics`: losses, norms, learning rate and passes by step, and where the \
                discriminator came from, as JSON. `events`: the same and the parameters as an \
                event file of TensorBoard, under the names of the original project, such as \
                `loss/g/mel`, with sound and pictures of held-out clips. Its clock counts a \
                second a step, so that equal runs give equal files.",
            gives: &[LOG],
            ..OutputPort::ARTIFACT
        },
        CHECKPOINTS,
    ],
    parameters: &PARAMETERS,
    check: device_mistakes,
    ..Kind::BASE
};

const fn with_number(name: &str, default: f64) -> Parameter {
    Parameter { default: Default::Number(default), ..shared(name) }
}

const fn with_count(name: &str, default: i64) -> Parameter {
    Parameter { default: Default::Integer(default), ..shared(name) }
}

static PARAMETERS: [Parameter; 42] = [
    shared("steps"),
    shared("epochs"),
    with_number("learning_rate", 2e-5),
    with_count("warm_up", 0),
    choice(
        "schedule",
        &["exponential", "constant", "linear", "cosine"],
        "The learning rate schedule after the warm-up: `exponential` multiplies it by \
            `rate_decay` after each pass over the clips; others keep it constant, or decay to \
            `final_rate` of it at the last step.",
    ),
    number("rate_decay", 1.0, 0.999875, "Of the schedule `exponential`, a pass."),
    shared("final_rate"),
    Parameter { doc: "Clips that are computed at a time.", ..with_count("batch", 16) },
    Parameter {
        doc: "Batches to one step. Every clip, frame and token counts the same, whichever batch it \
              is in.",
        ..shared("accumulation")
    },
    Parameter {
        // Its convolutions never compute in TF32.
        parameter_type: ParameterType::Choice(&["auto", "f32", "bf16", "fp16"]),
        doc: "The compute type of convolutions. Weights, spectrograms, likelihoods, durations and \
            losses are in f32, and fp16 has its loss scaled. `auto`: bf16 if the GPU supports it, \
            fp16 on older ones, f32 on the CPU. Unsupported types are refused.",
        ..shared("precision")
    },
    shared("optimizer"),
    choice(
        "dropout",
        &["off", "original"],
        "`original` drops as the paper does (its rates are in the model's `config.json`); the \
            recipe for fine-tuning that is used most does not.",
    ),
    Parameter {
        name: "freeze",
        parameter_type: ParameterType::List(&ParameterType::Text),
        default: Default::Texts(&[]),
        doc: "Patterns of the generator's tensors that stay as they are, such as \
            `text_encoder.*`; `*` stands for anything. How many each one matched is in the notes, \
            and one that matches none is an error.",
        ..Parameter::BASE
    },
    choice(
        "discriminator",
        &["auto", "base", "new"],
        "The discriminator if none is given on the port: that of the base, or a new one if the \
            base has none (`auto`), or always a new one (`new`).",
    ),
    choice(
        "new_speakers",
        &["refuse", "add"],
        "The treatment of speakers that a model with named speakers lacks. `add` lets them join it.",
    ),
    Parameter {
        name: "segment",
        parameter_type: ParameterType::Duration,
        default: Default::Absent,
        doc: "The part of each clip that is made into sound, in whole frames; if not given, the \
              model's own, which is about half a second.",
        ..Parameter::BASE
    },
    Parameter {
        name: "max_seconds",
        parameter_type: ParameterType::Duration,
        default: Default::Seconds(20.0),
        doc: "The longest clip.",
        ..Parameter::BASE
    },
    at_least_one(count("bands", 80, "Mel bands of the loss."), 1024),
    number("mel_weight", 1e6, 35.0, "The weight of the mel spectrogram loss."),
    number("kl_weight", 1e6, 1.5, "The weight of the KL divergence of posterior and prior."),
    number("duration_weight", 1e6, 1.0, "The weight of the duration loss."),
    number("adversarial_weight", 1e6, 1.0, "The weight of the adversarial loss."),
    number("feature_weight", 1e6, 1.0, "The weight of the feature matching loss."),
    Parameter {
        doc: "Decoupled; on all tensors, as the original has it.",
        ..with_number("weight_decay", 0.01)
    },
    with_number("beta_1", 0.8),
    with_number("beta_2", 0.99),
    with_number("epsilon", 1e-9),
    Parameter {
        doc: "The largest norm of the gradients of each net; 0 for none. Several hundred are \
              common, so that a small bound makes every step equally long.",
        ..with_number("clip", 1000.0)
    },
    shared("validation_fraction"),
    shared("validate_every"),
    shared("patience"),
    shared("min_delta"),
    shared("take"),
    shared("keep"),
    shared("max_skipped"),
    shared("save_every"),
    shared("save_interval"),
    shared("seed"),
    shared("on_change"),
    shared("devices"),
    shared("preflight"),
    absent(shared("report_every")),
];
