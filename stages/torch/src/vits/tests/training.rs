//! Stops, micro-batches, freezing and validation.

use stage_core::Blob;
use tch::Tensor;

use super::*;
use crate::error::TorchError;
use crate::train::tests::several::worst;
use crate::train::tests::tiny::bits;
use crate::train::{Host, Means, Phase, Trainee};

/// The parameters after a training, its record, and its host.
fn trained(
    replicas: usize,
    tones: &Tones,
    settings: &Settings,
) -> (Vec<(String, Tensor)>, TrainingResult, MemoryHost) {
    let mut replicas: Vec<VitsTrainee> = (0..replicas).map(|_| trainee()).collect();
    let mut host = MemoryHost::default();
    let trained = run(&mut replicas, tones, settings, &mut host).unwrap();
    (replicas[0].parameters(), trained, host)
}

#[test]
fn a_training_stopped_ten_times_equals_one_that_never_was() {
    let (tones, settings) = (Tones::new(7), settings());
    let (expected, straight, host) = trained(1, &tones, &settings);
    let recall = |host: &mut MemoryHost, weights: &[(String, Blob)]| {
        let tensor = |(name, kept): &(String, Blob)| (name.clone(), host.recall(kept).unwrap());
        bits(&weights.iter().map(tensor).collect::<Vec<_>>())
    };
    let mut straight_host = host;
    let best = recall(&mut straight_host, &straight.best[0].1);
    // Before a step and within its first phase; the last ones come after the end.
    for question in (0..15).step_by(3).chain([1, 5, 7, 10, 14]) {
        let mut host = MemoryHost::default();
        host.stop_at = Some(question);
        run(&mut [trainee()], &tones, &settings, &mut host).unwrap_err();
        host.survive();
        let mut resumed = [trainee()];
        let again = run(&mut resumed, &tones, &settings, &mut host).unwrap();
        assert_eq!(bits(&resumed[0].parameters()), bits(&expected), "stopped at {question}");
        assert_eq!(again.record, straight.record, "stopped at {question}");
        assert_eq!(recall(&mut host, &again.best[0].1), best, "stopped at {question}");
    }
}

#[test]
fn a_step_does_not_depend_on_how_it_is_cut_into_micro_batches_or_devices() {
    let tones = Tones::new(10);
    let of = |replicas, rows, accumulate| {
        let settings = Settings { steps: 1, rows, accumulate, ..settings() };
        let (parameters, _, host) = trained(replicas, &tones, &settings);
        let losses = ["loss", "loss/mel", "loss/discriminator", "gradient_norm/generator"];
        (parameters, losses.map(|name| host.values(name)[0]))
    };
    let (whole, losses) = of(1, 4, 1);
    for (replicas, rows, accumulate) in [(1, 2, 2), (1, 1, 4), (2, 2, 2), (2, 1, 4)] {
        let (parts, others) = of(replicas, rows, accumulate);
        for (one, other) in losses.iter().zip(&others) {
            assert!((one - other).abs() < 1e-4 * one, "{losses:?} {others:?}");
        }
        // AdamW makes whole steps of the smallest gradients.
        let worst = worst(&whole, &parts);
        assert!(worst < 2.1e-3, "{replicas} {rows}: {worst}");
    }
}

/// The losses of a step of one micro-batch, with or without keeping the results of the first phase.
fn losses_of_a_step(is_followed: bool) -> Vec<(&'static str, f64)> {
    one_thread();
    let (mut trainee, batch) =
        (trainee(), Tones::new(3).batch(&[vec![0], vec![1, 2]], Purpose::HeldOut).unwrap());
    let totals = VitsTrainee::count(&batch);
    let mut losses = Vec::new();
    for number in 0..2 {
        let phase = Phase { number, is_followed, ..Phase::only(&totals, 9) };
        losses.extend(trainee.accumulate(&batch, &phase).unwrap().means(&totals).0);
    }
    losses
}

#[test]
fn what_was_made_is_kept_without_a_trace_in_the_result() {
    assert_eq!(losses_of_a_step(true), losses_of_a_step(false));
}

#[test]
fn frozen_tensors_stay_and_are_no_part_of_a_checkpoint() {
    let mut frozen = nets(options());
    let all = frozen.generator().config.generator().len();
    let found = frozen.freeze(&["text_encoder.*".into(), "decoder.conv_*".into()]).unwrap();
    assert_eq!(found[1].count, 3);
    let trainee = VitsTrainee::new(frozen);
    assert!(trainee.parameters().len() > all, "the discriminator and pairs of weights");
    let mut host = MemoryHost::default();
    run(&mut [trainee], &Tones::new(7), &settings(), &mut host).unwrap();
    let checkpoint = host.checkpoint.unwrap();
    assert!(checkpoint.tensors.iter().all(|(name, _)| !name.contains("text_encoder.")));
    assert!(checkpoint.tensors.iter().any(|(name, _)| name.contains("master/discriminator.")));
    let error = nets(options()).freeze(&["text_encoder".into()]).unwrap_err().to_string();
    assert!(error.starts_with("`text_encoder` matches no tensor of the generator; "), "{error}");
    let mut nothing = nets(options());
    nothing.freeze(&["*".into()]).unwrap();
    let replicas = &mut [VitsTrainee::new(nothing)];
    let error = run(replicas, &Tones::new(7), &settings(), &mut MemoryHost::default()).unwrap_err();
    assert_eq!(error.to_string(), "the phase `generator` has no parameters to train");
}

#[test]
fn a_frozen_text_encoder_drops_nothing() {
    let mean = |is_frozen: bool, seed: u64| {
        one_thread();
        let mut nets = nets(TrainingOptions { dropout: true, ..options() });
        if is_frozen {
            nets.freeze(&["text_encoder.*".into()]).unwrap();
        }
        let clips = Tones::new(1).batch(&[vec![0]], Purpose::HeldOut).unwrap();
        let clips = clips.place(nets.generator(), nets.analysis()).unwrap();
        let mean = nets.make(&clips, seed).unwrap().prior.mean;
        bits(&[("mean".to_owned(), mean)])
    };
    assert_eq!(mean(true, 1), mean(true, 2));
    assert_ne!(mean(false, 1), mean(false, 2));
}

#[test]
fn validation_is_the_same_each_time_and_a_clip_scores_the_same_among_others() {
    one_thread();
    let (trainee, tones) = (trainee(), Tones::new(4));
    let means = |rows: &[Row]| {
        let batch = tones.batch(rows, Purpose::HeldOut).unwrap();
        trainee.evaluate(&batch).unwrap().means(&VitsTrainee::count(&batch))
    };
    let rows: Vec<Row> = (0..4).map(|clip| vec![clip]).collect();
    let together = means(&rows);
    assert_eq!(together, means(&rows));
    let alone = rows.iter().map(|row| trainee.score(&means(std::slice::from_ref(row))));
    let alone = alone.sum::<f64>() / 4.0;
    assert!((trainee.score(&together) - alone).abs() < 1e-5 * alone, "{together:?} {alone}");
}

#[test]
fn the_total_is_weighted_and_states_are_ranked_by_spectrograms() {
    let (_, _, host) = trained(1, &Tones::new(7), &settings());
    let value = |name: &str| host.values(name)[0];
    let parts =
        [("mel", 35.0), ("kl", 1.5), ("duration", 1.0), ("adversarial", 1.0), ("features", 1.0)];
    let sum: f64 = parts.iter().map(|(name, weight)| weight * value(&format!("loss/{name}"))).sum();
    assert!((value("loss") - sum).abs() < 1e-9 * sum);
    assert_eq!(host.values("held_out"), host.values("held_out/mel"));
}

#[test]
fn a_spectrogram_that_was_computed_before_gives_the_same_losses() {
    one_thread();
    let trainee = trainee();
    let mut tones = Tones::new(2);
    let losses = |tones: &Tones| -> Result<Means, TorchError> {
        let batch = tones.batch(&[vec![0], vec![1]], Purpose::HeldOut)?;
        Ok(trainee.evaluate(&batch)?.means(&VitsTrainee::count(&batch)))
    };
    let computed = losses(&tones).unwrap();
    let whole = |one: &Recording| one.wave.len() as i64 / config().hop() * config().hop();
    for one in &mut tones.0 {
        let wave = Tensor::from_slice(&one.wave).narrow(0, 0, whole(one)).unsqueeze(0);
        let linear = trainee.network().analysis().linear(&wave).unwrap().squeeze_dim(0);
        one.spectrogram = Some(crate::vits::mel_processing::write(&linear).unwrap().into());
    }
    assert_eq!(losses(&tones).unwrap(), computed);
    tones.0[0].wave.truncate(140);
    let error = losses(&tones).unwrap_err().to_string();
    assert!(error.ends_with("it belongs to other audio"), "{error}");
}

#[test]
fn a_clip_with_a_loss_that_is_no_number_is_named() {
    let mut tones = Tones::new(5);
    tones.0[2].wave[100] = f32::NAN;
    let settings = Settings { bad_steps: 1, rows: 4, accumulate: 1, ..settings() };
    let settings = Settings { keep_best: 0, ..settings };
    let error = run(&mut [trainee()], &tones, &settings, &mut MemoryHost::default()).unwrap_err();
    let message = error.to_string();
    assert!(
        message.ends_with("clips of the last step without a finite loss: `clip 2`"),
        "{message}"
    );
}
