//! The kind `vits.complete`: the posterior encoder of a model that only speaks.

use super::tokenizer::PHONEMES;
use crate::artifact;
use crate::kinds::parameters::{SEED, at_least_one, count, not_zero, number, shared};
use stage_core::artifact::LOG;
use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, Parameters, Place, Work,
};

/// For the default parameters and a voice of Piper of medium quality.
const DISTILLED: Rates =
    Rates { start: SECONDS, bytes_per_item: 0.0, spread: 3.0, origin: ORIGIN, ..Rates::LIGHT };
const SECONDS: f64 = 420.0;
const ORIGIN: &str = "completing a voice of Piper with the default parameters takes 3 minutes to speak and 14 to \
                      train on two busy cores (measured), a third of that on free ones, and less on a GPU";

pub static COMPLETE: Kind = Kind {
    name: "vits.complete",
    summary: "Makes a VITS model that only speaks trainable.",
    doc: "\
A published voice of Piper is a graph that only speaks: `model.import` reads it, but the posterior
encoder, the discriminator and one half of the duration predictor are not in it. This stage trains a
new posterior encoder from the voice alone, without any recording: the voice speaks `sentences`
texts at various speeds and with various noise, which gives pairs of latents and sound, and the
encoder learns to find the latents in the linear spectrogram, by their likelihood under its Gaussian.
Every twentieth sentence, by its text, is held out.
All other tensors stay as they are, and the sound of the model too.

The texts are those of `input`, each spoken as often as needed, or random sequences of the model's
symbols if there is none. Real texts in the language of the voice give a better encoder, since its
latents are then those of speech; a few hundred sentences are enough. Texts in `text` are read if the
model reads characters, `phonemes` of `text.phonemise` if it reads phonemes.

The result goes to `vits.finetune`. Its durations stay as published, since what trains them cannot be
derived from the voice. The log has the mean squared error on held-out sentences (`held_out/mse`),
which is comparable between runs with the same voice and texts; `held_out` is the negative
log-likelihood of a value, which selects the weights.

The result is a function of the model, the texts and the parameters: it is made once, and every
training of this voice begins from it. A run that is stopped resumes from its last checkpoint.",
    work: Work::Train,
    place: Place::Worker,
    cost: Cost::Rates(DISTILLED),
    inputs: &[
        InputPort {
            name: "model",
            reads: FieldSet::All,
            doc: "The model that only speaks, of `model.import`.",
            takes: &[artifact::VITS],
            ..InputPort::ARTIFACT
        },
        InputPort {
            name: "input",
            reads: FieldSet::These(&[("text", FieldType::Text)]),
            may_read: &[(PHONEMES, FieldType::Text)],
            optional: true,
            doc: "Texts in the language of the voice.",
            ..InputPort::DATASET
        },
    ],
    outputs: &[
        OutputPort {
            name: "model",
            writes: &[("config", FieldType::Blob), ("family", FieldType::Text)],
            open: true,
            doc: "The model with its posterior encoder.",
            gives: &[artifact::VITS],
            ..OutputPort::ARTIFACT
        },
        OutputPort {
            name: "log",
            writes: &[("metrics", FieldType::Blob), ("events", FieldType::Blob)],
            doc: "`metrics`: losses, norms and learning rate by step, as JSON. `events`: the same \
                  as an event file of TensorBoard.",
            gives: &[LOG],
            ..OutputPort::ARTIFACT
        },
    ],
    parameters: &[
        Parameter {
            default: Default::Integer(1500),
            doc: "Optimiser steps.",
            ..shared("steps")
        },
        at_least_one(count("sentences", 320, "Sentences that the voice speaks."), 100_000),
        at_least_one(count("frames", 64, "Frames of a sentence in a step."), 4096),
        at_least_one(count("batch", 16, "Sentences in a step."), 4096),
        number(
            "learning_rate",
            10.0,
            4e-4,
            "The first learning rate. It falls to 0 at the last step, by a cosine.",
        ),
        SEED,
    ],
    check: |parameters: &Parameters, unknown: &[&str]| {
        not_zero(parameters, unknown, "learning_rate")
    },
    ..Kind::BASE
};
