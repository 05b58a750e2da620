//! The text model of Fish Speech.

use std::path::Path;

use stage_torch::dual_ar::{ClipColumns, DualAr, DualArBatch, DualArConfig, SpecialTokens};
use stage_torch::fish::{DualArMemory, DualArTrainee};
use stage_torch::lora::{Adaptable, LoraSettings, attach};
use stage_torch::train::order::{ClipEntry, Grouping, Order};
use tch::Tensor;

use crate::memory::Memory;
use crate::step::Bench;
use crate::{Options, Spec, read, weights};

pub fn serve(folder: &Path, spec: &Spec, options: &Options) {
    let memory = Memory::new(options.gpu);
    let config = DualArConfig::parse(spec.config.to_string().as_bytes()).unwrap();
    let tokens: SpecialTokens = serde_json::from_value(spec.more["tokens"].clone()).unwrap();
    let batch = batch(folder, &config, options);
    let kind = options.precision.kind();
    let weights = weights(folder, || DualAr::fresh(&config, 1));
    let weights = weights.moved(options.device(), Some(kind));
    let mut model = DualAr::load(config, tokens, weights).unwrap();
    let pieces = DualArMemory { recompute: options.checkpointing, ..DualArMemory::default() };
    let trainee = match options.rank {
        0 => DualArTrainee::new(model.train_all(), pieces).unwrap(),
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
fn batch(folder: &Path, config: &DualArConfig, options: &Options) -> DualArBatch {
    let data = read(folder, "batch.safetensors");
    let numbers = |tensor: &Tensor| -> Vec<i32> {
        Vec::try_from(tensor.to_kind(tch::Kind::Int).contiguous().view(-1)).unwrap()
    };
    let clip = |at: usize| {
        Some(ClipColumns {
            tokens: numbers(data.get(&format!("{at}.tokens"))?),
            labels: numbers(data.get(&format!("{at}.labels"))?),
        })
    };
    let clips: Vec<ClipColumns> = (0..).map_while(clip).collect();
    let height = config.num_codebooks as usize + 1;
    let rows: Vec<Vec<&ClipColumns>> = if options.packing {
        let length = |clip: &ClipColumns| clip.tokens.len() / height;
        let listed = |(at, clip): (usize, &ClipColumns)| ClipEntry {
            id: format!("{at:04}"),
            length: length(clip),
            group: 0,
        };
        let listed: Vec<ClipEntry> = clips.iter().enumerate().map(listed).collect();
        let longest = config.max_seq_len as usize;
        let mut order =
            Order::new(Grouping::Pack { length: longest }, 1, &listed, |_| true).unwrap();
        let rows = order.pass(0).to_vec();
        rows.iter().map(|row| row.iter().map(|at| &clips[*at]).collect()).collect()
    } else {
        clips.iter().map(|clip| vec![clip]).collect()
    };
    DualArBatch::new(config.num_codebooks as usize, &rows, 0).unwrap()
}
