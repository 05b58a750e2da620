//! The kind `vits.finetune`: VITS trained on clips.

use super::tokenizer::PHONEMES;
use crate::artifact;
use crate::kinds::parameters::{
    absent, at_least_one, checkpoints, choice, count, duration, known, number, shared,
    training_mistakes, with_count, with_number,
};
use crate::kinds::training::patterns;
use stage_core::artifact::LOG;
use stage_core::cost::{Cost, Training};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, Mistake, OutputPort, Parameter, ParameterType,
    ParameterValue, Parameters, ParentNeeds, Place, StageError, Work,
};

const CLIP: &[(&str, FieldType)] = &[("text", FieldType::Text), ("audio", FieldType::Blob)];

const MAY_READ: &[(&str, FieldType)] =
    &[("speaker", FieldType::Text), ("spectrogram", FieldType::Blob), (PHONEMES, FieldType::Text)];

pub static FINETUNE: Kind = Kind {
    name: "vits.finetune",
    version: 2,
    summary: "Trains a VITS model and its discriminator on clips.",
    doc: "\
A step has two phases. First the discriminator is trained on all clips of the step to distinguish
recorded from generated sound; then the generator is trained on the same clips against the updated
discriminator. A step depends neither on its batches nor on its number of devices. One part of each
clip, of the length `segment`, is decoded to sound. Held-out clips are never trained on; every
validation decodes the same parts of them with the same noise, and the distance of the mel
spectrograms (`held_out/mel`) decides which state is kept (`take`) and when training ends
(`patience`).

So that progress can be heard and seen in TensorBoard, up to 17 validations, evenly spread, leave
samples of up to three held-out clips in the log: the text of a short, a medium and a long one as
the model speaks it (`full_generation_sample0` to `2`; none that would take more than 20 seconds),
and of the first clip the mel spectrogram of a part as recorded and as generated (`slice/mel_org`,
`slice/mel_gen`), that of the whole clip (`all/mel`), and the alignment of frames and tokens
(`all/attn`).

A run that is stopped, killed or cut off resumes from its last checkpoint and ends with the same
weights as an uninterrupted run: on the CPU to the bit, on a GPU to rounding.

Clips are quarantined if they are shorter than a part or longer than `max_seconds`, if they have
fewer frames than their text has tokens, or if their text has letters or digits without a symbol in
the model; other unknown marks are dropped, and counted in the notes. Audio at another rate than the
model's is refused. If the model reads romanised texts (`is_uroman`), clips with letters or digits
beyond ASCII in their texts are quarantined. If more than `quarantine` are quarantined, the stage
fails before its first step. `spectrogram`, of `vits.spectrogram`, is used if clips have it, and
else computed.

For a model with several speakers, `speaker` names the speaker of a clip. A model without names
takes those of the clips, sorted; a model with names keeps them, and `new_speakers` selects the
treatment of others: they are refused, or each gets a new row after the rows of the known speakers,
which do not change. A new row is drawn from `seed` and the name around the mean of the known rows,
as far from it as they are; the notes list the new speakers.

Published models of MMS have no discriminator: a new one is drawn from the seed, or that of the
model on `judge` is used. The result has it too, unless `discriminator` is `none`, so that training can continue; synthesis ignores it. A new one misleads the generator at first: with `fade_in` its two losses reach their
weights over that number of steps, and with `none` as `discriminator` the generator learns from
spectrograms and latents alone, in about half the time.

A voice of Piper, imported from its graph, only speaks: `vits.complete` adds the posterior encoder,
so that it can be trained here. Its durations cannot, since the half of the duration predictor that
trains the other one is not in a graph: they stay as they are, and the notes say so. Even a training on a few minutes of another voice therefore keeps the published rhythm. `text_encoder.*` and `flow.*` in `freeze` also keep the
latents of each phoneme, so that only the sound changes.

Before the first step a preflight looks for mistakes that would ruin the run: it makes two steps,
repeats them with a stop, a save and a reload between them, refuses frozen tensors that change and
losses that are not finite, and speaks one short text, which must not be silent.",
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
            doc: "The model to begin from: of `model.import`, `vits.init`, `vits.complete` or \
                  `vits.finetune`.",
            takes: &[artifact::VITS],
            parent_needs: ParentNeeds::Fields(&[artifact::VOCABULARY]),
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
            doc: "`metrics`: losses, norms, learning rate and epochs by step, and where the \
                discriminator came from, as JSON. `events`: the same and the parameters as an \
                event file of TensorBoard, under the names of the original project, such as \
                `loss/g/mel`, with sound and pictures of held-out clips. Its clock advances one \
                second per step, so that equal runs give equal files.",
            gives: &[LOG],
            ..OutputPort::ARTIFACT
        },
        checkpoints(&[artifact::VITS]),
    ],
    parameters: &PARAMETERS,
    check: mistakes,
    ..Kind::BASE
};

const BETAS: &str = "discriminator_betas";

/// The betas of the discriminator's optimiser, if it has its own.
///
/// # Errors
///
/// If they are not two numbers.
pub fn discriminator_betas(parameters: &Parameters) -> Result<Option<[f64; 2]>, StageError> {
    let number = |value: &ParameterValue| match value {
        ParameterValue::Number(number) => Some(*number),
        ParameterValue::Integer(number) => Some(*number as f64),
        _ => None,
    };
    let list: Option<Vec<f64>> = parameters.list(BETAS)?.iter().map(number).collect();
    match list.as_deref() {
        Some([]) => Ok(None),
        Some([first, second]) => Ok(Some([*first, *second])),
        _ => Err(StageError::failed(format!("`{BETAS}` is not a list of two numbers"))),
    }
}

/// Those of every training, and betas that are not two.
fn mistakes(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let betas = known(parameters, unknown, BETAS, |own, _| Ok(discriminator_betas(own).err()));
    let mistake =
        |error: StageError| Mistake { parameter: BETAS, message: error.to_string(), help: None };
    training_mistakes(parameters, unknown).into_iter().chain(betas.flatten().map(mistake)).collect()
}

static PARAMETERS: [Parameter; 47] = [
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
    number("rate_decay", 1.0, 0.999875, "The decay per pass, with the schedule `exponential`."),
    shared("final_rate"),
    Parameter { doc: "Clips that are computed at a time.", ..with_count("batch", 16) },
    Parameter {
        doc: "Batches per step. Every clip, frame and token has the same weight, whichever batch \
              it is in.",
        ..shared("accumulation")
    },
    Parameter {
        // Its convolutions never compute in TF32.
        parameter_type: ParameterType::Choice(&["auto", "f32", "bf16", "fp16"]),
        doc: "The compute type of convolutions. Weights, spectrograms, likelihoods, durations and \
            losses are in f32, and fp16 has its loss scaled. `auto`: bf16 if the GPU supports it, \
            fp16 on older ones, f32 on the CPU; the result is also found under the selected type. \
            Unsupported types are refused.",
        ..shared("precision")
    },
    shared("optimizer"),
    choice(
        "dropout",
        &["off", "original"],
        "`original` is the dropout of the paper, with the rates in the model's `config.json`; the \
            most common recipe for fine-tuning has none.",
    ),
    patterns(
        "freeze",
        Default::Texts(&[]),
        "Patterns of the generator's tensors that stay as they are, such as `text_encoder.*`; \
            `*` stands for anything. The notes have the number of matches of each; a pattern \
            without matches is an error.",
    ),
    choice(
        "discriminator",
        &["auto", "base", "new", "none"],
        "The discriminator if none is given on the port: that of the base, or a new one if the \
            base has none (`auto`), or always a new one (`new`). `none` trains without one, and \
            the result has none.",
    ),
    absent(count(
        "fade_in",
        0,
        "The steps of a fade-in. Over them the adversarial and the feature matching loss of the generator rise \
            from 0 to their weights; not given: none. The reported `loss` has the full weights.",
    )),
    absent(number(
        "discriminator_rate",
        10.0,
        0.0,
        "The learning rate of the discriminator. The schedule is the same; not given: `learning_rate`.",
    )),
    Parameter {
        parameter_type: ParameterType::List(&ParameterType::Number { min: 0.0, max: 0.999_999 }),
        doc: "The betas of the discriminator. Two numbers, such as `[0.5, 0.9]`; not given: `beta_1` and `beta_2`.",
        ..absent(number(BETAS, 1.0, 0.0, ""))
    },
    choice(
        "new_speakers",
        &["refuse", "add"],
        "The treatment of speakers that a model with named speakers lacks. `add` adds them.",
    ),
    absent(duration(
        "segment",
        0.0,
        "The length of the part of each clip that is decoded to sound, in whole frames; if not \
         given, that of the model, about half a second.",
    )),
    duration("max_seconds", 20.0, "The longest clip."),
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
        doc: "The largest norm of the gradients of each network; 0: no limit. Norms of several \
              hundred are common, so that a small limit makes every step equally long.",
        ..with_number("clip", 1000.0)
    },
    shared("validation_fraction"),
    shared("validate_every"),
    shared("patience"),
    shared("min_delta"),
    shared("take"),
    shared("keep"),
    shared("keep_every"),
    shared("until"),
    shared("max_skipped"),
    // A step is short and a checkpoint is large, so that time alone decides.
    with_count("save_every", 0),
    shared("save_interval"),
    shared("seed"),
    shared("on_change"),
    shared("devices"),
    shared("preflight"),
    absent(shared("report_every")),
];
