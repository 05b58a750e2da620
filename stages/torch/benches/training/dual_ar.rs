//! The text model of Fish Speech.

use std::path::Path;

use stage_torch::NetworkTrainee;
use stage_torch::dual_ar::{Batch, Clip, Config, DualAr, Tokens};
use stage_torch::fish::{DualArTrainee, Memory as Pieces};
use stage_torch::lora::{LoraSettings, attach};
use stage_torch::train::order::{self, Grouping, Order};
use tch::Tensor;

use crate::memory::Memory;
use crate::step::Bench;
use crate::{Options, Spec, read, weights};

pub fn serve(folder: &Path, spec: &Spec, options: &Options) {
    let memory = Memory::new(options.gpu);
    let config = Config::parse(spec.config.to_string().as_bytes()).unwrap();
    let tokens: Tokens = serde_json::from_value(spec.more["tokens"].clone()).unwrap();
    let batch = batch(folder, &config, options);
    let kind = options.precision.kind();
    let weights = weights(folder, || DualAr::fresh(&config, 1).unwrap());
    let weights = weights.moved(options.device(), Some(kind)).unwrap();
    let mut model = DualAr::load(config, tokens, weights).unwrap();
    let pieces = Pieces { recompute: options.checkpointing, ..Pieces::default() };
    let trainee = match options.rank {
        0 => DualArTrainee::new(model, pieces).unwrap().train_all(),
        rank => {
            let patterns = vec!["*".to_owned()];
            let settings = LoraSettings { rank, alpha: 2.0 * rank as f64, dropout: 0.0, patterns };
            attach(&mut model, &settings, 1).unwrap();
            DualArTrainee::new(model, pieces).unwrap()
        }
    };
    Bench::new(trainee, batch, spec, options).serve(memory, |_, work| panic!("no work `{work}`"));
}

/// The clips, one or several per row.
fn batch(folder: &Path, config: &Config, options: &Options) -> Batch {
    let data = read(folder, "batch.safetensors");
    let numbers = |tensor: &Tensor| -> Vec<i32> {
        Vec::try_from(tensor.to_kind(tch::Kind::Int).contiguous().view(-1)).unwrap()
    };
    let clip = |at: usize| {
        Some(Clip {
            tokens: numbers(data.get(&format!("{at}.tokens"))?),
            labels: numbers(data.get(&format!("{at}.labels"))?),
        })
    };
    let clips: Vec<Clip> = (0..).map_while(clip).collect();
    let height = config.num_codebooks as usize + 1;
    let rows: Vec<Vec<&Clip>> = match options.packing {
        false => clips.iter().map(|clip| vec![clip]).collect(),
        true => {
            let length = |clip: &Clip| clip.tokens.len() / height;
            let listed = |(at, clip): (usize, &Clip)| order::Clip {
                id: format!("{at:04}"),
                length: length(clip),
                group: 0,
            };
            let listed: Vec<order::Clip> = clips.iter().enumerate().map(listed).collect();
            let longest = config.max_seq_len as usize;
            let mut order =
                Order::new(Grouping::Pack { length: longest }, 1, &listed, |_| true).unwrap();
            let rows = order.pass(0).to_vec();
            rows.iter().map(|row| row.iter().map(|at| &clips[*at]).collect()).collect()
        }
    };
    Batch::new(config.num_codebooks as usize, &rows, 0).unwrap()
}
