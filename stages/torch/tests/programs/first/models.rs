//! Replacements of published weights: the files are those of the originals, the models as small as
//! possible, with random weights.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use stage_torch::dac::{DacConfig, DacLayout, Quantizer, Transformer};
use stage_torch::random::Random;
use tch::Tensor;
use throstle_tests::{Project, RanProgram, copy_folder};

/// A random codec is imported, since no stage makes one; stages make everything else.
const MANIFEST: &str = r#"
[pipeline]
name = "models"
seed = 1

[assets.dac]
path = "dac"

[stage.codec]
use = "model.import"
asset = "assets.dac"

[stage.codec_files]
use = "model.export"
model = "codec"
export = "out/codec"

[stage.text_model]
use = "fish.init"
codec = "codec"
layers = 1
dim = 16
heads = 2
key_heads = 1
max_length = 4096

[stage.text_files]
use = "model.export"
model = "text_model"
export = "out/fish"

[stage.vits]
use = "vits.init"
characters = " abcdefghijklmnopqrstuvwxyzåäöઅઆઊએકખગચછજતથદનપબમયરલવશસહળીાુૂેોંિ્'-"
hidden = 16
layers = 1
channels = 16

[stage.vits_files]
use = "model.export"
model = "vits"
export = "out/vits"

[stage.xtts]
use = "xtts.init"
languages = "en"
layers = 1
width = 32
heads = 2

[stage.xtts_files]
use = "model.export"
model = "xtts"
export = "out/xtts"
"#;

/// Puts the files of openaudio-s1-mini into a folder, for a model of that kind.
pub fn write_fish(folder: &Path) {
    copy_folder(&made().join("fish"), folder, &[]);
    copy_folder(&made().join("codec"), folder, &[]);
}

/// Puts the files of a published MMS model into a folder, which has no discriminator.
pub fn write_vits(folder: &Path) {
    copy_folder(&made().join("vits"), folder, &[]);
}

/// Puts the published files of XTTS v2 into a folder, except the voices that come with it.
pub fn write_xtts(folder: &Path) {
    copy_folder(&made().join("xtts"), folder, &[]);
}

/// The folder of all models, which are made once per test program.
fn made() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let project = Project::new(MANIFEST);
        std::fs::create_dir(project.file("dac")).unwrap();
        write_codec(&project);
        let ran = RanProgram::of_folder(project.path());
        assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("models");
        // Remains of an earlier test program.
        let _ = std::fs::remove_dir_all(&folder);
        copy_folder(&project.file("out"), &folder, &[]);
        folder
    })
}

/// At the rate of the published codec and with the same number of samples per frame.
fn codec() -> DacConfig {
    let module = Transformer {
        n_layer: 1,
        n_head: 1,
        head_dim: 8,
        dim: 8,
        intermediate_size: 12,
        ..Transformer::default()
    };
    DacConfig {
        encoder_dim: 2,
        encoder_transformer_layers: vec![0; 4],
        latent_dim: 8,
        decoder_dim: 16,
        quantizer: Quantizer {
            semantic_codebook_size: 32,
            n_codebooks: 2,
            codebook_size: 16,
            codebook_dim: 4,
            pre_module: module.clone(),
            post_module: module,
            ..Quantizer::default()
        },
        ..DacConfig::default()
    }
}

fn write_codec(project: &Project) {
    let config = codec();
    let mut random = Random::new(1);
    let tensors: Vec<(String, Tensor)> = DacLayout::of(&config)
        .0
        .into_iter()
        .map(|(name, shape)| {
            let tensor = random.normal(&shape, 0.5);
            (name, tensor)
        })
        .collect();
    Tensor::write_safetensors(&tensors, project.file("dac/codec.safetensors")).unwrap();
    project.write("dac/codec.json", serde_json::to_vec(&config).unwrap());
}
