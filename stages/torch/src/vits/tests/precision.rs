//! Half precision, and the parts that stay in single precision.

use super::*;
use crate::train::Trainee;
use crate::train::losses::Means;

/// The loss on held-out clips before a training and after it.
fn in_precision(precision: Precision) -> ([f64; 2], TrainingResult, VitsTrainee) {
    let settings = Settings { steps: 12, precision, ..settings() };
    let options = TrainingOptions { kind: precision.kind(), ..options() };
    let (mut trainee, mut host) = (VitsTrainee::new(nets(options)), MemoryHost::default());
    let replicas = std::slice::from_mut(&mut trainee);
    let trained = run(replicas, &Tones::new(7), &settings, &mut host).unwrap();
    let losses = host.values("held_out/mel");
    ([losses[0], losses[losses.len() - 1]], trained, trainee)
}

#[test]
fn half_precision_trains_nearly_as_single_does_and_keeps_weights_in_it() {
    let ([exact, exact_after], _, _) = in_precision(Precision::F32);
    for precision in [Precision::Bf16, Precision::Fp16] {
        let ([before, after], trained, trainee) = in_precision(precision);
        assert!((before - exact).abs() < 0.01 * exact, "{precision:?} {before} {exact}");
        assert_ne!(before, exact, "{precision:?}");
        // The first loss scales of fp16 are too large for these losses and adapt.
        match precision {
            Precision::Fp16 => assert!((1..11).contains(&trained.skipped), "{}", trained.skipped),
            _ => assert!((after - exact_after).abs() < 0.1 * exact_after, "{after} {exact_after}"),
        }
        assert!(trainee.parameters().iter().all(|(_, one)| one.kind() == Kind::Float));
    }
}

#[test]
fn likelihoods_durations_and_spectrograms_are_in_single_precision() {
    one_thread();
    let nets = nets(TrainingOptions { kind: Kind::Half, ..options() });
    let batch = Tones::new(2).batch(&[vec![0], vec![1]], Purpose::HeldOut).unwrap();
    let clips = batch.place(nets.generator(), nets.analysis()).unwrap();
    let made = nets.make(&clips, 1).unwrap();
    let kept = [
        ("scores", &made.scores),
        ("deviation", &made.prior.log_deviation),
        ("latents", &made.posterior.latents),
        ("flowed", &made.flowed),
        ("kl", &made.kl_loss),
        ("duration", made.duration_loss.as_ref().unwrap()),
        ("wave", &made.wave),
    ];
    kept.iter().for_each(|(name, own)| assert_eq!(own.kind(), Kind::Float, "{name}"));
    let mel = made.mel(nets.analysis()).unwrap();
    assert_eq!(mel.kind(), Kind::Float);
}

/// A text with a narrow prior: e^(-2 s) of such deviations overflows fp16.
#[test]
fn a_text_that_is_sure_of_itself_does_not_overflow_in_fp16() {
    one_thread();
    let mut weights = file();
    let bias = weights.remove("text_encoder.project.bias").unwrap().to_kind(Kind::Float);
    let half = bias.size()[0] / 2;
    let _ = bias.narrow(0, half, half).fill_(-7.0);
    weights.insert("text_encoder.project.bias", bias);
    let prepared = prepare(&config(), weights, WeightForm::Normed, Device::Cpu).unwrap();
    let options = TrainingOptions { kind: Kind::Half, ..options() };
    let trainee = VitsTrainee::new(Networks::new(&config(), prepared, options).unwrap());
    let batch = Tones::new(2).batch(&[vec![0], vec![1]], Purpose::HeldOut).unwrap();
    let means: Means = trainee.evaluate(&batch).unwrap().means(&VitsTrainee::count(&batch));
    let kl = means.of("kl").unwrap();
    assert!(kl.is_finite() && kl > 65_504.0, "{kl}");
}
