//! How long a training step of the text model takes at a size given on the command line, and
//! what it takes of a GPU's memory: with and without running blocks again, of all weights or of
//! adapters. `dual_ar.py` beside this measures the reference; `tools/bench_models.sh` runs both.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::time::Instant;

use stage_torch::dual_ar::{Batch, Clip, Config, DualAr, DualArTrainee, Memory, Tokens};
use stage_torch::gpu_memory_used;
use stage_torch::random::Random;
use stage_torch::train::adamw::{AdamW, AdamWSettings};
use stage_torch::train::lora::{LoraSettings, attach};
use stage_torch::train::{Trainee, Turn, gradients};
use tch::{Device, Kind};

/// The sizes, by the names that the reference's script has for them.
struct Sizes(BTreeMap<String, i64>);

impl Sizes {
    fn parse(arguments: impl Iterator<Item = String>) -> Sizes {
        let defaults = [
            ("threads", 2),
            ("steps", 5),
            ("dim", 256),
            ("layers", 6),
            ("fast-layers", 2),
            ("vocab", 8192),
            ("codebook-size", 1024),
            ("codebooks", 8),
            ("rows", 2),
            ("text", 64),
            ("frames", 192),
            ("head-dim", 64),
            ("length", 1024),
            // The number of a GPU; below nought the CPU.
            ("gpu", -1),
            // Whether it is bf16 instead of f32.
            ("bf16", 0),
            // Of adapters; without any all weights are trained.
            ("rank", 0),
        ];
        let mut sizes: BTreeMap<String, i64> =
            defaults.map(|(name, size)| (name.to_owned(), size)).into();
        // What cargo adds is let pass.
        let mut words = arguments.filter(|word| word != "--bench");
        while let Some(name) = words.next() {
            let size = sizes.get_mut(name.trim_start_matches('-')).expect("a known size");
            *size = words.next().expect("a number behind it").parse().expect("a number");
        }
        Sizes(sizes)
    }

    fn of(&self, name: &str) -> i64 {
        self.0[name]
    }

    fn config(&self) -> Config {
        let dim = self.of("dim");
        let json = format!(
            r#"{{"model_type": "dual_ar", "vocab_size": {}, "n_layer": {}, "n_head": {},
                "n_local_heads": {}, "dim": {dim}, "head_dim": {}, "intermediate_size": {},
                "max_seq_len": {}, "tie_word_embeddings": false, "attention_qk_norm": true,
                "codebook_size": {}, "num_codebooks": {}, "scale_codebook_embeddings": true,
                "n_fast_layer": {}, "fast_attention_qk_norm": false, "fast_head_dim": 64, "rope_base": 1e6,
                "norm_eps": 1e-6}}"#,
            self.of("vocab"),
            self.of("layers"),
            dim / 64,
            dim / 128,
            self.of("head-dim"),
            3 * dim,
            self.of("length"),
            self.of("codebook-size"),
            self.of("codebooks"),
            self.of("fast-layers"),
        );
        Config::parse(json.as_bytes()).unwrap()
    }

    fn device(&self) -> Device {
        usize::try_from(self.of("gpu")).map_or(Device::Cpu, Device::Cuda)
    }

    /// The adapters, as the reference places them: at every layer.
    fn adapters(&self) -> Option<LoraSettings> {
        let rank = self.of("rank");
        let alpha = 2.0 * rank as f64;
        let patterns = vec!["*".to_owned()];
        (rank > 0).then_some(LoraSettings { rank, alpha, dropout: 0.0, patterns })
    }

    /// A model to train, with random weights.
    fn trainee(&self, config: Config, tokens: Tokens, memory: Memory) -> DualArTrainee {
        let kind = if self.of("bf16") > 0 { Kind::BFloat16 } else { Kind::Float };
        let weights = DualAr::fresh(&config, 1).unwrap().moved(self.device(), Some(kind)).unwrap();
        let mut model = DualAr::load(config, tokens, weights).unwrap();
        match self.adapters() {
            Some(settings) => {
                attach(&mut model, &settings, 1, kind).unwrap();
                DualArTrainee::new(model, memory).unwrap()
            }
            None => DualArTrainee::new(model, memory).unwrap().train_all(),
        }
    }

    /// What the driver says is taken of the GPU.
    fn memory_used(&self) -> Option<u64> {
        gpu_memory_used(usize::try_from(self.of("gpu")).ok()?)
    }

    /// Text, then frames and an end that are learned.
    fn clip(&self, tokens: Tokens, random: &mut Random) -> Clip {
        let (text, frames) = (self.of("text") as usize, self.of("frames") as usize);
        let (height, length) = (self.of("codebooks") as usize + 1, text + frames);
        let mut columns = vec![vec![0; height]; length + 1];
        for (at, column) in columns.iter_mut().enumerate() {
            let mut draw = |count: i64| (random.draw() % count as u64) as i32;
            column[0] = draw(tokens.im_end);
            if (text..length).contains(&at) {
                column[1..].fill_with(|| draw(self.of("codebook-size")));
                column[0] = tokens.semantic_begin as i32 + column[1];
            }
        }
        columns[length][0] = tokens.im_end as i32;
        let mut clip = Clip::default();
        for line in 0..height {
            clip.tokens.extend(columns[..length].iter().map(|column| column[line]));
            clip.labels.extend((1..=length).map(|at| match (line, at) {
                (0, _) if at >= text => columns[at][0],
                (_, _) if line > 0 && at >= text && at < length => columns[at][line],
                _ => -100,
            }));
        }
        clip
    }
}

fn main() {
    let sizes = Sizes::parse(std::env::args().skip(1));
    tch::set_num_threads(sizes.of("threads") as i32);
    let before = sizes.memory_used();
    // The one that takes less memory comes first: libtorch gives nothing back.
    for recompute in [true, false] {
        let config = sizes.config();
        let begin = config.vocab_size - config.codebook_size;
        let tokens = Tokens { semantic_begin: begin, im_end: begin - 1 };
        let mut random = Random::new(1);
        let clips: Vec<Clip> =
            (0..sizes.of("rows")).map(|_| sizes.clip(tokens, &mut random)).collect();
        let rows: Vec<Vec<&Clip>> = clips.iter().map(|clip| vec![clip]).collect();
        let batch = Batch::new(config.num_codebooks as usize, &rows, 0).unwrap();
        let memory = Memory { recompute, ..Memory::default() };
        let mut trainee = sizes.trainee(config, tokens, memory);
        measure(&sizes, recompute, &mut trainee, &batch);
        if let (Some(before), Some(after)) = (before, sizes.memory_used()) {
            println!("{:28} {:8.2} GB", "", (after as f64 - before as f64) / 1e9);
        }
    }
}

fn measure(sizes: &Sizes, recompute: bool, trainee: &mut DualArTrainee, batch: &Batch) {
    let settings = AdamWSettings {
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-5,
        weight_decay: 0.0,
        decays_all: false,
    };
    let mut optimiser = AdamW::new(settings, trainee.parameters()).unwrap();
    let totals = DualArTrainee::count(batch);
    let (mut times, mut loss) = (Vec::new(), 0.0);
    for step in 0..=sizes.of("steps") {
        let start = Instant::now();
        let parameters = trainee.parameters();
        gradients::clear(&parameters);
        let losses = trainee.accumulate(batch, &Turn::only(&totals, step as u64)).unwrap();
        let found = gradients::of(&parameters);
        let norm = gradients::norm(&found).unwrap();
        optimiser.step(&found, 1e-4, (1.0 / (norm + 1e-6)).min(1.0)).unwrap();
        loss = losses.means(&totals).unwrap().total();
        times.push(start.elapsed().as_secs_f64());
    }
    // The first step makes what the others reuse.
    let times = &mut times[1..];
    times.sort_by(f64::total_cmp);
    let seconds = times[sizes.of("steps") as usize / 2];
    let name = if recompute { "throstle, run again" } else { "throstle" };
    let speed = batch.columns() as f64 / seconds;
    println!("{name:28} {speed:8.0} tokens/s   {seconds:6.3} s a step   loss {loss:.3}");
}
