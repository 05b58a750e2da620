//! A small recogniser, trained on the invented speech of `pipelines/long-recordings/make_data.py`: seven
//! convolutions of 32 channels with layer norm and two layers of 96, with the loss of CTC.

use std::path::Path;

use serde_json::{Value, json};
use stage_families::wav2vec2::{Config, Preprocessor, Vocabulary};
use stage_torch::random::Random;
use stage_torch::wav2vec2::Wav2Vec2;
use stage_torch::weights::Weights;
use tch::{Device, Kind, Reduction, Tensor};
use throstle_tests::Project;

const RATE: f64 = 16_000.0;
const SYMBOLS: &str = "_|abcdefghijklmnopqrstuvwxyz";
/// Sentences in a step.
const BATCH: usize = 6;

/// A sentence: its samples and the symbols of its text.
struct Spoken {
    samples: Vec<f32>,
    symbols: Vec<i64>,
}

fn symbol(letter: char) -> i64 {
    SYMBOLS.chars().position(|one| one == letter).unwrap() as i64
}

/// The sentences of all recordings of a folder that have no fault.
fn sentences(project: &Project, folder: &str) -> Vec<Spoken> {
    let truth: Value =
        serde_json::from_str(&project.text(&format!("{folder}/truth.json"))).unwrap();
    let mut all = Vec::new();
    for (name, parts) in truth.as_object().unwrap() {
        let wav = project.read(&format!("{folder}/data/{name}.wav"));
        let wave = stage_torch::wave::read(&wav).unwrap();
        for part in parts.as_array().unwrap() {
            let words = part["words"].as_array().unwrap();
            if !part["fault"].is_null() || words.is_empty() {
                continue;
            }
            let at = |value: &Value| (value.as_f64().unwrap() * RATE) as usize;
            // A little of the pauses belongs to it.
            let start = at(&part["start"]).saturating_sub(1_600);
            let end = (at(&part["end"]) + 1_600).min(wave.samples.len());
            let words: Vec<&str> = words.iter().map(|word| word[2].as_str().unwrap()).collect();
            all.push(Spoken {
                samples: wave.samples[start..end].to_vec(),
                symbols: words.join("|").chars().map(symbol).collect(),
            });
        }
    }
    all
}

fn config() -> Value {
    json!({
        "architectures": ["Wav2Vec2ForCTC"], "model_type": "wav2vec2",
        "vocab_size": SYMBOLS.len(), "hidden_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 192, "hidden_act": "gelu",
        "feat_extract_activation": "gelu", "feat_extract_norm": "layer", "conv_dim": vec![32; 7],
        "conv_kernel": [10, 3, 3, 3, 3, 2, 2], "conv_stride": [5, 2, 2, 2, 2, 2, 2],
        "conv_bias": true, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
        "do_stable_layer_norm": true, "layer_norm_eps": 1e-5, "pad_token_id": 0,
    })
}

fn vocabulary() -> Value {
    let name = |letter: char| if letter == '_' { "<pad>".to_owned() } else { letter.to_string() };
    SYMBOLS.chars().enumerate().map(|(at, letter)| (name(letter), json!(at))).collect()
}

/// Random weights of the usual sizes.
fn initial(config: &Config, random: &mut Random) -> Vec<(String, Tensor)> {
    let tensor = |(name, shape): (String, Vec<i64>)| {
        let inputs: i64 = shape.iter().skip(1).product();
        let tensor = match shape.len() {
            1 if name.contains("norm.weight") => Tensor::ones(&shape, (Kind::Float, Device::Cpu)),
            1 => Tensor::zeros(&shape, (Kind::Float, Device::Cpu)),
            _ => random.normal(&shape, (1.5 / inputs as f64).sqrt()).unwrap(),
        };
        (name, tensor)
    };
    config.tensors().into_iter().map(tensor).collect()
}

/// Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1).
struct Adam {
    means: Vec<Tensor>,
    squares: Vec<Tensor>,
    steps: i32,
}

impl Adam {
    fn of(weights: &[(String, Tensor)]) -> Adam {
        let zeros = || weights.iter().map(|(_, tensor)| tensor.zeros_like()).collect();
        Adam { means: zeros(), squares: zeros(), steps: 0 }
    }

    fn step(&mut self, weights: &mut [(String, Tensor)], rate: f64) {
        let _guard = tch::no_grad_guard();
        self.steps += 1;
        let corrections = [1.0 - 0.9_f64.powi(self.steps), 1.0 - 0.98_f64.powi(self.steps)];
        for (at, (_, tensor)) in weights.iter_mut().enumerate() {
            let gradient = tensor.grad();
            if !gradient.defined() {
                continue;
            }
            let gradient = gradient.clamp(-1.0, 1.0);
            self.means[at] = &self.means[at] * 0.9 + &gradient * 0.1;
            self.squares[at] = &self.squares[at] * 0.98 + gradient.square() * 0.02;
            let scale = (&self.squares[at] / corrections[1]).sqrt() + 1e-8;
            let change = &self.means[at] / corrections[0] / scale * rate;
            let _ = tensor.f_sub_(&change).unwrap();
            tensor.zero_grad();
        }
    }
}

/// Trains on the recordings of a folder and writes a checkpoint as transformers has it. The mean
/// loss of a letter at the end.
pub fn train(project: &Project, folder: &str, to: &Path, steps: usize) -> f64 {
    // So small that threads only wait for each other.
    tch::set_num_threads(1);
    let sentences = sentences(project, folder);
    let parsed = Config::parse(config().to_string().as_bytes()).unwrap();
    let mut random = Random::new(1);
    let mut weights = initial(&parsed, &mut random);
    let shared: Weights =
        weights.iter().map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
    let model = Wav2Vec2::load(&parsed, Preprocessor::default(), shared, Device::Cpu).unwrap();
    // The model computes with these tensors themselves.
    for (_, tensor) in &weights {
        let _ = tensor.set_requires_grad(true);
    }
    let (mut adam, mut mean) = (Adam::of(&weights), f64::MAX);
    for step in 0..steps {
        let mut total = 0.0;
        for _ in 0..BATCH {
            let at = (random.fraction() * sentences.len() as f64) as usize;
            let Spoken { samples, symbols } = &sentences[at.min(sentences.len() - 1)];
            let logits = model.logits(&model.frames(samples).unwrap()).unwrap();
            let likely = logits.log_softmax(-1, Kind::Float).transpose(0, 1);
            let loss = Tensor::ctc_loss(
                &likely,
                &Tensor::from_slice(symbols).unsqueeze(0),
                [likely.size()[0]],
                [symbols.len() as i64],
                0,
                Reduction::Sum,
                true,
            ) / symbols.len() as f64;
            total += loss.double_value(&[]);
            (loss / BATCH as f64).backward();
        }
        let warm = ((step + 1) as f64 / 30.0).min(1.0);
        let cool = (1.0 - step as f64 / steps as f64).max(0.1);
        adam.step(&mut weights, 3e-3 * warm * cool);
        let now = total / BATCH as f64;
        mean = if step == 0 { now } else { 0.9 * mean + 0.1 * now };
        if step % 20 == 0 {
            println!("step {step}: {mean:.3}");
        }
    }
    write(&weights, to);
    mean
}

fn write(weights: &[(String, Tensor)], to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let weights: Vec<(String, Tensor)> =
        weights.iter().map(|(name, tensor)| (name.clone(), tensor.detach())).collect();
    Tensor::write_safetensors(&weights, to.join("model.safetensors")).unwrap();
    let preprocessor = json!({ "do_normalize": true, "sampling_rate": RATE, "feature_size": 1 });
    for (name, content) in
        [("config", config()), ("vocab", vocabulary()), ("preprocessor_config", preprocessor)]
    {
        std::fs::write(to.join(format!("{name}.json")), content.to_string()).unwrap();
    }
}

/// The share of letters that a recogniser of a folder gets wrong in other recordings: the edits
/// over the length of the text.
pub fn error_rate(project: &Project, folder: &str, model: &Path) -> f64 {
    let read = |name: &str| std::fs::read(model.join(name)).unwrap();
    let parsed = Config::parse(&read("config.json")).unwrap();
    let vocabulary = Vocabulary::read(&read("vocab.json"), &parsed).unwrap();
    let weights = Weights::from_safetensors(&read("model.safetensors")).unwrap();
    let model = Wav2Vec2::load(&parsed, Preprocessor::default(), weights, Device::Cpu).unwrap();
    let (mut wrong, mut letters) = (0, 0);
    for Spoken { samples, symbols } in sentences(project, folder) {
        let heard: Vec<char> = vocabulary.spell(&model.hear(&samples).unwrap()).chars().collect();
        let said = symbols.iter().map(|at| SYMBOLS.as_bytes()[*at as usize] as char);
        let said: Vec<char> = said.map(|letter| if letter == '|' { ' ' } else { letter }).collect();
        wrong += edits(&said, &heard);
        letters += said.len();
    }
    wrong as f64 / letters as f64
}

fn edits(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (place, heard) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != heard);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}
