//! VITS against itself: changes that must not affect its results. The model is that of the fixture
//! (`fixtures/make_vits.py`); its file has WaveNets in pairs and everything else without weight
//! norm.

use std::path::Path;

use stage_torch::random::Random;
use stage_torch::vits::{
    Analysis, ClipTensors, GeneratorOutput, LossWeights, Network, NetworkWeights, Networks,
    SeededNormal, SynthesisSettings, TrainingOptions, Vits, VitsConfig, VitsSpeech, WeightForm,
    prepare,
};
use stage_torch::weights::Weights;
use tch::{Device, Kind, Tensor};

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vits");
    std::fs::read(folder.join(name)).unwrap()
}

fn config() -> VitsConfig {
    let fixture: serde_json::Value = serde_json::from_slice(&read("fixture.json")).unwrap();
    VitsConfig::parse(fixture["settings"]["config"].to_string().as_bytes()).unwrap()
}

fn file() -> Weights {
    // So small that threads only wait for each other.
    tch::set_num_threads(1);
    Weights::from_safetensors(&read("model.safetensors")).unwrap()
}

fn prepared(weights: Weights, form: WeightForm) -> NetworkWeights {
    prepare(&config(), weights, form, Device::Cpu).unwrap()
}

fn model() -> Vits {
    Vits::load(config(), prepared(file(), WeightForm::Whole).generator).unwrap()
}

fn joined(NetworkWeights { generator, discriminator }: NetworkWeights) -> Weights {
    generator.into_iter().chain(discriminator.unwrap()).collect()
}

fn far(one: &Tensor, other: &Tensor) -> f64 {
    (one - other).abs().max().double_value(&[])
}

/// A file of a random model, with all tensors of its configuration.
fn made_up(config: &VitsConfig) -> Weights {
    tch::set_num_threads(1);
    let mut random = Random::new(3);
    let tensors = config.generator().into_iter().chain(config.discriminator());
    let mut drawn = |shape: &[i64]| {
        let count = shape.iter().product::<i64>();
        let values: Vec<f32> = (0..count).map(|_| 0.7 * random.fraction() as f32 - 0.35).collect();
        Tensor::from_slice(&values).view(shape)
    };
    tensors.map(|(name, shape)| (name, drawn(&shape))).collect()
}

#[test]
fn the_model_takes_what_its_configuration_asks_for_and_nothing_else() {
    let one = config();
    let several = VitsConfig { num_speakers: 3, speaker_embedding_size: 4, ..config() };
    let bare = VitsConfig { use_bias: false, ffn_kernel_size: 1, ..config() };
    let plain = VitsConfig { use_stochastic_duration_prediction: false, ..several.clone() };
    for config in [one, several, bare, plain] {
        for form in [WeightForm::Whole, WeightForm::Normed] {
            let prepared = prepare(&config, made_up(&config), form, Device::Cpu).unwrap();
            Networks::new(&config, prepared, options(false)).unwrap();
        }
    }
}

#[test]
fn speakers_sound_differently_and_have_to_be_named() {
    let config = VitsConfig { num_speakers: 3, speaker_embedding_size: 4, ..config() };
    let prepared = prepare(&config, made_up(&config), WeightForm::Whole, Device::Cpu).unwrap();
    let model = Vits::load(config, prepared.generator).unwrap();
    let texts = model.texts(&[SHORT.to_vec()]).unwrap();
    let speak = |speakers: Option<&[i64]>| {
        let settings = SynthesisSettings::of(&model.config);
        model.speak(&texts, speakers, &settings, &mut SeededNormal::new(vec![1]))
    };
    let latents = |speaker| speak(Some(&[speaker])).unwrap().latents;
    assert!(latents(0).size() != latents(2).size() || latents(0) != latents(2));
    let refused = |speakers: Option<&[i64]>| speak(speakers).unwrap_err().to_string();
    assert!(refused(None).contains("3 speakers: choose one with `speaker`"));
    assert!(refused(Some(&[3])).contains("speaker 3 is out of range: the model has 3"));
    assert!(refused(Some(&[0, 1])).contains("2 speakers for 1 texts"));
}

#[test]
fn every_form_of_a_file_is_the_same_model() {
    let renamed = |name: String| {
        let name = name.replace("weight_g", "parametrizations.weight.original0");
        name.replace("weight_v", "parametrizations.weight.original1")
    };
    let pairs = || joined(prepared(file(), WeightForm::Normed));
    let spelt = pairs().into_iter().map(|(name, tensor)| (renamed(name), tensor)).collect();
    let expected = joined(prepared(file(), WeightForm::Whole));
    for other in [pairs(), spelt, joined(prepared(file(), WeightForm::Whole))] {
        let whole = joined(prepared(other, WeightForm::Whole));
        assert_eq!(whole.names().collect::<Vec<_>>(), expected.names().collect::<Vec<_>>());
        for (name, tensor) in whole.iter() {
            assert!(far(tensor, expected.get(name).unwrap()) < 1e-6, "{name}");
        }
    }
}

#[test]
fn the_pairs_of_a_file_are_trained_as_they_are() {
    let name = "flow.flows.0.wavenet.in_layers.0.weight_v";
    let stored = file().remove(name).unwrap().to_kind(tch::Kind::Float);
    assert_eq!(prepared(file(), WeightForm::Normed).generator.get(name), Some(&stored));
}

#[test]
fn what_a_file_lacks_and_what_it_has_too_much_is_told() {
    let refused = |change: &dyn Fn(&mut Weights)| {
        let mut weights = file();
        change(&mut weights);
        prepare(&config(), weights, WeightForm::Whole, Device::Cpu).unwrap_err().to_string()
    };
    let lacking = refused(&|weights| drop(weights.remove("decoder.conv_pre.bias")));
    assert!(lacking.contains("missing: `decoder.conv_pre.bias`"), "{lacking}");
    let half =
        refused(&|weights| drop(weights.remove("flow.flows.0.wavenet.in_layers.0.weight_g")));
    assert!(half.contains("missing: `flow.flows.0.wavenet.in_layers.0.weight_g`"), "{half}");
    let more = refused(&|weights| weights.insert("enc_p.emb.weight", Tensor::from(1f32)));
    assert!(more.contains("two tensors for `text_encoder.embed_tokens.weight`"), "{more}");
    let unknown = refused(&|weights| weights.insert("decoder.x", Tensor::from(1f32)));
    assert!(unknown.contains("unexpected: `decoder.x`"), "{unknown}");
    let other = refused(&|weights| weights.insert("text_encoder.project.bias", Tensor::from(1f32)));
    assert!(other.contains("wrong shape: `text_encoder.project.bias` [] instead"), "{other}");
    let hole = refused(&|weights| {
        let bias = weights.get("decoder.conv_pre.bias").unwrap() * f64::NAN;
        weights.insert("decoder.conv_pre.bias", bias);
    });
    assert!(hole.contains("`decoder.conv_pre.bias` has values that are not finite"), "{hole}");
}

fn spoken(model: &Vits, texts: &[Vec<i64>], seeds: &[u64]) -> VitsSpeech {
    let settings = SynthesisSettings { speaking_rate: 0.5, ..SynthesisSettings::of(&model.config) };
    let texts = model.texts(texts).unwrap();
    model.speak(&texts, None, &settings, &mut SeededNormal::new(seeds.to_vec())).unwrap()
}

const LONG: [i64; 9] = [0, 3, 0, 5, 0, 2, 0, 7, 0];
const SHORT: [i64; 5] = [0, 4, 0, 1, 0];

#[test]
fn a_text_sounds_the_same_alone_and_among_others() {
    let model = model();
    let both = spoken(&model, &[LONG.to_vec(), SHORT.to_vec()], &[1, 2]);
    let alone = spoken(&model, &[SHORT.to_vec()], &[2]);
    assert_eq!(both.frames[1], alone.frames[0]);
    assert_ne!(both.frames[0], both.frames[1], "else nothing is padded");
    assert_eq!(both.waves[1].size(), [config().hop() * both.frames[1]]);
    assert!(far(&both.waves[1], &alone.waves[0]) < 1e-5);
}

#[test]
fn the_seed_decides_how_a_text_sounds() {
    let model = model();
    let wave = |seed| spoken(&model, &[LONG.to_vec()], &[seed]).waves.remove(0);
    assert_eq!(wave(1), wave(1));
    assert!(wave(1).size() != wave(2).size() || wave(1) != wave(2));
}

#[test]
fn what_cannot_be_spoken_is_refused() {
    let model = model();
    let refused = |texts: &[Vec<i64>]| model.texts(texts).unwrap_err().to_string();
    assert!(refused(&[LONG.to_vec(), vec![]]).contains("the text has no known character"));
    assert!(refused(&[vec![0, 12]]).contains("token 12 is out of range: the model has 12"));
    let texts = model.texts(&[LONG.to_vec()]).unwrap();
    let settings = SynthesisSettings { most_frames: 3, ..SynthesisSettings::of(&model.config) };
    let error = model.speak(&texts, None, &settings, &mut SeededNormal::new(vec![1])).unwrap_err();
    assert!(error.to_string().contains("more than 3"), "{error}");
}

fn options(dropout: bool) -> TrainingOptions {
    let (weights, kind) = (LossWeights::default(), Kind::Float);
    TrainingOptions { bands: 10, weights, dropout, fade_in: 0, kind }
}

fn trainee(dropout: bool) -> Networks {
    Networks::new(&config(), prepared(file(), WeightForm::Normed), options(dropout)).unwrap()
}

fn clips(trainee: &Networks) -> ClipTensors {
    let waves: Vec<Vec<f32>> = [260, 150].map(wave).to_vec();
    let waves: Vec<&[f32]> = waves.iter().map(Vec::as_slice).collect();
    let model = trainee.generator();
    let texts = model.texts(&[LONG.to_vec(), SHORT.to_vec()]).unwrap();
    ClipTensors::new(model, trainee.analysis(), texts, &waves, None).unwrap()
}

fn wave(samples: usize) -> Vec<f32> {
    (0..samples).map(|at| (at as f32 * 0.7).sin() * 0.4 + (at as f32 * 2.1).cos() * 0.1).collect()
}

fn has_learned(trainee: &Networks, net: Network) -> usize {
    let gradients = trainee.parameters(net).iter().map(|(_, parameter)| parameter.grad());
    gradients.filter(|own| own.defined() && own.abs().max().double_value(&[]) > 0.0).count()
}

#[test]
fn each_net_learns_from_its_own_loss_only() {
    let mut trainee = trainee(false);
    let clips = clips(&trainee);
    let totals = Networks::count(&clips);
    let made = trainee.make(&clips, 1).unwrap();
    let all = |net: Network| trainee.parameters(net).len();
    let (speaking, judging) = (all(Network::Generator), all(Network::Discriminator));
    trainee.judge(&made, &totals);
    assert_eq!(has_learned(&trainee, Network::Generator), 0);
    assert_eq!(has_learned(&trainee, Network::Discriminator), judging);
    trainee.forget(Network::Discriminator);
    trainee.speak(&made, &totals).unwrap();
    assert_eq!(has_learned(&trainee, Network::Discriminator), 0);
    assert_eq!(has_learned(&trainee, Network::Generator), speaking);
}

#[test]
fn all_randomness_of_training_comes_from_the_seed() {
    let losses = |dropout: bool, seed: u64| {
        let mut trainee = trainee(dropout);
        let clips = clips(&trainee);
        let totals = Networks::count(&clips);
        let made: GeneratorOutput = trainee.make(&clips, seed).unwrap();
        trainee.speak(&made, &totals).unwrap().means(&totals)
    };
    assert_eq!(losses(true, 5), losses(true, 5));
    assert_ne!(losses(true, 5), losses(true, 6));
    assert_ne!(losses(true, 5), losses(false, 5), "dropout acts");
}

#[test]
fn evaluating_gives_the_losses_of_training_without_dropout() {
    let mut trainee = trainee(true);
    let clips = clips(&trainee);
    let totals = Networks::count(&clips);
    let evaluated = trainee.evaluate(&clips, 5).unwrap().means(&totals);
    assert_eq!(evaluated, trainee.evaluate(&clips, 5).unwrap().means(&totals));
    let mut without = self::trainee(false);
    let made = without.make(&clips, 5).unwrap();
    assert_eq!(evaluated, without.speak(&made, &totals).unwrap().means(&totals));
    let made = trainee.make(&clips, 5).unwrap();
    assert_ne!(evaluated, trainee.speak(&made, &totals).unwrap().means(&totals));
}

#[test]
fn micro_batches_add_up_to_the_batch() {
    let mut trainee = trainee(false);
    let whole = clips(&trainee);
    let model = trainee.generator();
    let alone = |text: &[i64], samples: usize| {
        let texts = model.texts(&[text.to_vec()]).unwrap();
        ClipTensors::new(model, trainee.analysis(), texts, &[&wave(samples)], None).unwrap()
    };
    let parts = [alone(&LONG, 260), alone(&SHORT, 150)];
    let totals = Networks::count(&whole);
    // A row has its own noise, so only the segment starts have to be equal. The noise of these
    // seeds meets no spline so steep that the rounding of sums shows in its gradients.
    let run = |trainee: &mut Networks, batches: &[(&ClipTensors, &[i64], &[u64])]| {
        trainee.forget(Network::Generator);
        for (clips, starts, seeds) in batches {
            let mut noise = SeededNormal::new(seeds.to_vec());
            let pass = stage_torch::layers::Pass::Evaluate;
            let made = trainee.make_of(clips, starts, &mut noise, pass).unwrap();
            trainee.speak(&made, &totals).unwrap();
        }
        let parameters = trainee.parameters(Network::Generator).iter();
        parameters.map(|(name, own)| (name.clone(), own.grad().copy())).collect::<Vec<_>>()
    };
    let one = run(&mut trainee, &[(&whole, &[4, 1], &[2, 3])]);
    let other = run(&mut trainee, &[(&parts[0], &[4], &[2]), (&parts[1], &[1], &[3])]);
    for ((name, one), (_, other)) in one.iter().zip(&other) {
        let scale = one.abs().max().double_value(&[]).max(0.1);
        assert!(far(one, other) < 1e-3 * scale, "{name}");
    }
}

#[test]
fn clips_that_cannot_be_learned_from_are_refused() {
    let trainee = trainee(false);
    let model = trainee.generator();
    let refused = |text: &[i64], samples: usize| {
        let texts = model.texts(&[text.to_vec()]).unwrap();
        let clips = ClipTensors::new(model, trainee.analysis(), texts, &[&wave(samples)], None);
        clips.and_then(|clips| trainee.make(&clips, 1)).unwrap_err().to_string()
    };
    assert!(refused(&SHORT, 90).contains("the clip has 11 frames, but training needs at least 12"));
    assert!(refused(&[1; 21], 160).contains("20 frames are too few for 21 tokens"));
}

#[test]
fn a_spectrogram_has_a_frame_a_hop_and_needs_a_margin() {
    let analysis = Analysis::new(&config(), 10, Device::Cpu).unwrap();
    let frames = |samples: usize| {
        let wave = Tensor::from_slice(&wave(samples)).unsqueeze(0);
        analysis.linear(&wave).map(|linear| linear.size()[2])
    };
    assert_eq!([frames(96).unwrap(), frames(103).unwrap(), frames(104).unwrap()], [12, 12, 13]);
    assert!(frames(28).unwrap_err().to_string().contains("needs more than 28"));
}
