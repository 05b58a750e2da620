//! Returning to the best state after many unusable steps.

use std::ops::Range;

use stage_core::{Blob, StageError};
use tch::Kind;

use super::memory::MemoryHost;
use super::resume::{interrupted, straight};
use super::tiny::{Bits, Corpus, POISON, Tiny, bits};
use super::{clips, held_out, run, settings};
use crate::train::adamw::AdamWSettings;
use crate::train::order::{Order, Row};
use crate::train::precision::Precision;
use crate::train::settings::Settings;
use crate::train::state::Return;
use crate::train::{Host, TrainingResult};

/// Two rows per step and a validation every second step; three bad steps are too many.
pub fn narrow() -> Settings {
    Settings { rows: 1, accumulate: 2, validate_every: 2, keep_best: 1, ..settings() }
}

/// The rows of these steps, all in the first pass.
pub fn rows_of(steps: Range<usize>, settings: &Settings, corpus: &Corpus) -> Vec<Row> {
    let (clips, held) = (clips(corpus), held_out(corpus));
    let mut order = Order::new(settings.grouping, settings.seed, &clips, |at| !held[at]).unwrap();
    let rows = settings.rows_of_step();
    order.pass(0)[steps.start * rows..steps.end * rows].to_vec()
}

/// A corpus with NaN losses in these steps; `clips` of each row are the cause.
pub fn spoiled(steps: Range<usize>, clips: usize) -> Corpus {
    let mut corpus = Corpus::new(150);
    for row in rows_of(steps, &narrow(), &corpus) {
        row.iter().take(clips).for_each(|clip| corpus.0[*clip][0] = POISON);
    }
    corpus
}

fn train(settings: &Settings, corpus: &Corpus) -> (Result<TrainingResult, StageError>, MemoryHost) {
    let (mut tiny, mut host) = (Tiny::new(settings.precision.kind(), 0.1), MemoryHost::default());
    let result = run(std::slice::from_mut(&mut tiny), corpus, settings, &mut host);
    (result, host)
}

pub fn recalled(host: &mut MemoryHost, weights: &[(String, Blob)]) -> Bits {
    let tensor = |(name, kept): &(String, Blob)| (name.clone(), host.recall(kept).unwrap());
    bits(&weights.iter().map(tensor).collect::<Vec<_>>())
}

#[test]
fn too_many_bad_steps_lead_back_to_the_best_state_and_training_goes_on() {
    let corpus = spoiled(6..9, usize::MAX);
    let (result, mut host) = train(&Settings { steps: 9, ..narrow() }, &corpus);
    let cut = result.unwrap();
    let to = cut.best[0].0.step;
    assert_eq!((cut.skipped, cut.went_back), (3, Some(Return { after: 9, to })));
    let best = recalled(&mut host, &cut.best[0].1);
    assert_eq!(recalled(&mut host, &cut.last), best);

    let (result, mut host) = train(&narrow(), &corpus);
    let trained = result.unwrap();
    assert_eq!((trained.steps, trained.skipped, trained.went_back), (12, 3, cut.went_back));
    assert_ne!(recalled(&mut host, &trained.last), best);
    assert_eq!(host.values("went_back_to_step"), [to as f64]);
    let told = trained.record.iter().find(|(_, name, _)| *name == "went_back_to_step");
    assert_eq!(told, Some((9, "went_back_to_step", to as f64)));
    let finite: Vec<bool> = host.values("loss").iter().map(|loss| loss.is_finite()).collect();
    assert_eq!(finite, [[true; 6].as_slice(), &[false; 3], &[true; 3]].concat());
    // Two steps of warm-up, again.
    assert_eq!(host.values("rate")[8..], [0.02, 0.01, 0.02, 0.02]);
}

#[test]
fn the_loss_scale_of_fp16_begins_anew_where_training_went_back() {
    // Only gradients change the weights.
    let adamw = AdamWSettings { weight_decay: 0.0, ..narrow().adamw };
    let settings = Settings { precision: Precision::Fp16, adamw, ..narrow() };
    let corpus = spoiled(6..9, usize::MAX);
    let (result, mut host) = train(&Settings { steps: 9, ..settings.clone() }, &corpus);
    let best = recalled(&mut host, &result.unwrap().last);
    let (result, mut host) = train(&settings, &corpus);
    let trained = result.unwrap();
    assert_eq!(trained.went_back.map(|back| back.after), Some(9));
    let scales = host.values("loss_scale");
    assert!(scales[7] < scales[0] && scales[9..] == [scales[0]; 3], "{scales:?}");
    assert_ne!(recalled(&mut host, &trained.last), best);
}

#[test]
fn a_training_that_went_back_is_the_same_however_it_was_interrupted() {
    let (corpus, settings) = (spoiled(6..9, usize::MAX), narrow());
    let make = || Tiny::new(Kind::Float, 0.1);
    let (expected, host) = straight(&make, &corpus, &settings);
    for question in 0..host.asked {
        let (got, runs) = interrupted(&make, &corpus, &settings, |run, host| {
            host.stop_at = (run == 1).then_some(question);
        });
        assert_eq!((&got, runs), (&expected, 2), "stopped at question {question}");
    }
    for call in (0..80).step_by(7) {
        let (got, _) = interrupted(&make, &corpus, &settings, |run, host| {
            host.die_at = (run == 1).then_some(call);
        });
        assert_eq!(got, expected, "killed at call {call}");
    }
}

#[test]
fn when_it_is_the_same_again_training_fails_and_names_the_clips() {
    let corpus = spoiled(6..12, 1);
    let (result, _) = train(&narrow(), &corpus);
    let error = result.unwrap_err();
    let message = error.to_string();
    let accused = rows_of(11..12, &narrow(), &corpus);
    for row in accused {
        assert!(message.contains(&format!("`clip {}`", row[0])), "{message}");
        assert!(!message.contains(&format!("`clip {}`", row[1])), "{message}");
    }
    let begin = "the loss or its gradients were not finite for 3 steps in a row, up to step 12; \
                 training had already returned to step ";
    assert!(message.starts_with(begin), "{message}");
    assert!(message.contains("after step 9; clips of the last step without a finite loss: "));
    assert!(error.help().unwrap().contains("a lower `learning_rate`"));
}
