//! A recogniser that is trained here, on speech of other seeds, in the place of the written one.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use serde_json::{Value, json};
use stage_families::wav2vec2::{Preprocessor, Wav2Vec2Config};
use stage_torch::wav2vec2::Wav2Vec2;
use tch::nn::{self, OptimizerConfig};
use tch::{Device, Kind, Reduction, Tensor};
use throstle_tests::{Project, RanProgram};

use super::long::{book, items, judged, make, run};

const RATE: f64 = 16_000.0;
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
/// Of a word, before its first letter.
const QUIET: f64 = 0.025;
/// Sentences of a step.
const BATCH: usize = 4;
const STEPS: usize = 240;

/// Sound of one sentence, and its symbols.
type Sentence = (Vec<f32>, Vec<i64>);

fn config() -> Wav2Vec2Config {
    let config = json!({
        "model_type": "wav2vec2", "vocab_size": 2 + LETTERS.len(), "hidden_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 128,
        "feat_extract_norm": "layer", "conv_dim": [128], "conv_kernel": [400], "conv_stride": [320],
        "num_conv_pos_embeddings": 3, "num_conv_pos_embedding_groups": 1,
    });
    Wav2Vec2Config::parse(config.to_string().as_bytes()).unwrap()
}

fn preprocessor() -> Preprocessor {
    let preprocessor = json!({"do_normalize": true, "sampling_rate": 16_000, "feature_size": 1});
    serde_json::from_value(preprocessor).unwrap()
}

/// Random weights, by the seed. The first convolution has tones of random pitch.
fn random(config: &Wav2Vec2Config) -> BTreeMap<String, Tensor> {
    tch::manual_seed(1);
    let float = (Kind::Float, Device::Cpu);
    let weight = |(name, shape): (String, Vec<i64>)| {
        let value = match shape.as_slice() {
            [channels, 1, window] if *channels > 1 => {
                let pitches = Tensor::rand([*channels, 1, 1], float) * 3_500.0 + 150.0;
                let phases = Tensor::rand([*channels, 1, 1], float) * TAU;
                let times = Tensor::arange(*window, float) / RATE;
                let tones = (pitches * TAU * times + phases).cos();
                tones * Tensor::hann_window(*window, float) * 0.1
            }
            [outputs, inputs, ..] if *outputs > 1 => {
                Tensor::randn(&shape, float) / (*inputs as f64).sqrt()
            }
            _ if name.ends_with("norm.weight") => Tensor::ones(&shape, float),
            // Biases, and the length of the weights of the positional convolution.
            _ => Tensor::zeros(&shape, float),
        };
        (name, value)
    };
    config.tensors().into_iter().map(weight).collect()
}

/// Sentences without faults, with some of the quiet around them.
fn sentences() -> Vec<Sentence> {
    let project = Project::default();
    let more = ["--seed", "77", "--recordings", "1", "--minutes", "4", "--mistakes", "0"];
    make(&project, "speech", &[&more[..], &["--every", "1000000"]].concat());
    let mut reader = hound::WavReader::open(project.file("speech/data/podcast1.wav")).unwrap();
    let samples: Vec<f32> =
        reader.samples::<i16>().map(|sample| f32::from(sample.unwrap()) / 32_768.0).collect();
    let truth: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(&project.text("speech/truth.json")).unwrap();
    let sentence = |part: &Value| {
        let at = |name: &str, more: f64| {
            let seconds = part[name].as_f64().unwrap() + more;
            ((seconds * RATE).max(0.0) as usize).min(samples.len())
        };
        let words = part["words"].as_array().unwrap();
        let words: Vec<&str> = words.iter().map(|word| word[2].as_str().unwrap()).collect();
        let symbol = |letter| LETTERS.find(letter).map_or(1, |at| at as i64 + 2);
        let symbols = words.join("|").chars().map(symbol).collect();
        (samples[at("start", -0.2)..at("end", 0.2)].to_vec(), symbols)
    };
    truth["podcast1"].iter().map(sentence).collect()
}

/// The weights after the training, and the mean loss of a symbol in its last steps.
fn trained(config: &Wav2Vec2Config) -> (BTreeMap<String, Tensor>, f64) {
    let store = nn::VarStore::new(Device::Cpu);
    let root = store.root();
    // A name of the store has no dots.
    let variable = |(name, value): (String, Tensor)| {
        (name.clone(), root.var_copy(&name.replace('.', "_"), &value))
    };
    let weights: BTreeMap<String, Tensor> = random(config).into_iter().map(variable).collect();
    let given = weights.iter().map(|(name, value)| (name.clone(), value.shallow_clone()));
    let model = Wav2Vec2::load(config, preprocessor(), given.collect(), Device::Cpu).unwrap();
    // Loading makes them constants.
    store.trainable_variables().iter().for_each(|weight| drop(weight.set_requires_grad(true)));
    let mut optimizer = nn::Adam::default().build(&store, 3e-3).unwrap();
    let all = sentences();
    let mut losses = Vec::with_capacity(STEPS);
    for step in 0..STEPS {
        if step == STEPS * 2 / 3 {
            optimizer.set_lr(1e-3);
        }
        let batch = (0..BATCH).map(|at| &all[(step * BATCH + at) % all.len()]);
        let losses_of = |(samples, symbols): &Sentence| {
            let logits = model.logits(&model.frames(samples));
            let likely = logits.log_softmax(-1, Kind::Float).transpose(0, 1);
            let (frames, count) = (likely.size()[0], symbols.len() as i64);
            Tensor::ctc_loss_tensor(
                &likely,
                &Tensor::from_slice(symbols).unsqueeze(0),
                &Tensor::from_slice(&[frames]),
                &Tensor::from_slice(&[count]),
                0,
                Reduction::Mean,
                true,
            )
        };
        let loss = Tensor::stack(&batch.map(losses_of).collect::<Vec<_>>(), 0).mean(Kind::Float);
        optimizer.backward_step_clip_norm(&loss, 1.0);
        if step == 0 {
            let convolution = &weights["wav2vec2.feature_extractor.conv_layers.0.conv.weight"];
            assert!(convolution.grad().abs().max().double_value(&[]) > 0.0, "nothing is learned");
        }
        losses.push(loss.double_value(&[]));
    }
    (weights, losses[STEPS - 20..].iter().sum::<f64>() / 20.0)
}

/// Puts a model in the place of the recogniser of the recipe.
fn replace(project: &Project, config: &Wav2Vec2Config, weights: &BTreeMap<String, Tensor>) {
    let folder = "book/models/recogniser";
    let named: Vec<(&String, &Tensor)> = weights.iter().collect();
    Tensor::write_safetensors(&named, project.file(&format!("{folder}/model.safetensors")))
        .unwrap();
    project.write(&format!("{folder}/config.json"), serde_json::to_string(config).unwrap());
}

/// The distances in seconds of the middles of all words from those of the truth, sorted.
fn distances(project: &Project) -> Vec<f64> {
    let truth: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(&project.text("book/truth.json")).unwrap();
    let mut distances = Vec::new();
    let segments = items(project, "segments", &[]).into_iter();
    let segments: BTreeMap<String, Value> =
        segments.map(|item| (item["id"].as_str().unwrap().to_owned(), item)).collect();
    for item in items(project, "clips", &[]) {
        let id = item["id"].as_str().unwrap();
        let segment = &segments[id];
        let words = project.printed(&["cat", "aligned", id, "words", "-m", "book"]);
        let words: Vec<(f64, f64, String)> = serde_json::from_str(&words).unwrap();
        let said = truth[segment["recording"].as_str().unwrap()].iter();
        let said: Vec<&Value> = said.flat_map(|part| part["words"].as_array().unwrap()).collect();
        for (start, end, word) in words {
            let middle = segment["start"].as_f64().unwrap() + (start + end) / 2.0;
            let word = word.trim_end_matches('.').to_lowercase();
            let distance = |said: &&&Value| {
                (said[0].as_f64().unwrap() + QUIET + said[1].as_f64().unwrap()) / 2.0 - middle
            };
            let same = said.iter().filter(|said| said[2] == word.as_str());
            distances.extend(same.map(|said| distance(&said).abs()).min_by(f64::total_cmp));
        }
    }
    distances.sort_by(f64::total_cmp);
    distances
}

#[test]
fn a_recogniser_trained_on_other_sentences_aligns_the_recordings() {
    let config = config();
    let (weights, loss) = trained(&config);
    assert!(loss < 0.3, "the loss is {loss}");
    let project = book(&[]);
    replace(&project, &config, &weights);
    run(&project, &[]);
    // It makes mistakes, and CTC marks one frame of a letter, which lasts up to 100 ms.
    let (wrong, share) = judged(&project);
    let clips = items(&project, "clips", &[]).len();
    assert!(clips >= 20 && 10 * wrong.len() <= clips, "{clips} clips, wrong: {wrong:?}");
    assert!(share >= 0.4, "{share} of the good sentences");
    let distances = distances(&project);
    let p95 = distances[distances.len() * 95 / 100];
    assert!(distances.len() > 100 && p95 <= 0.080, "{} words, p95 {p95}", distances.len());
}

#[test]
fn a_recogniser_that_was_not_trained_makes_no_corpus() {
    let config = config();
    let project = book(&[]);
    replace(&project, &config, &random(&config));
    let ran = RanProgram::of(project.output(&["run", "book", "--json"]));
    assert_eq!(ran.code, Some(1), "{}", ran.errors);
    assert!(ran.all("stage-failed")[0].to_string().contains("were quarantined"));
}
