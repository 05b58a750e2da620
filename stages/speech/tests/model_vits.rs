//! `model.import` and `model.export` on the files of a small VITS model, in all formats.
//! `stages/torch/fixtures/check_export.py` does the same with transformers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use stage_core::{NewValue, ParameterValue};
use stage_families::vits::{VitsConfig, read_original};
use stage_formats::{Dtype, Tensor, weight_norm};
use support::models::{
    Tensors, export, import, imported, model, names, numbered, pth, safe, stored, weights,
};
use support::{Bench, text};

const CONFIG: &str = r#"{"model_type": "vits", "vocab_size": 4, "hidden_size": 4,
    "num_attention_heads": 2, "num_hidden_layers": 1, "ffn_dim": 4, "flow_size": 4,
    "spectrogram_bins": 33, "upsample_initial_channel": 4, "upsample_rates": [4, 2],
    "upsample_kernel_sizes": [8, 4], "resblock_kernel_sizes": [3],
    "resblock_dilation_sizes": [[1]], "prior_encoder_num_flows": 1,
    "prior_encoder_num_wavenet_layers": 1, "posterior_encoder_num_wavenet_layers": 1,
    "duration_predictor_num_flows": 2, "depth_separable_num_layers": 1, "segment_size": 64,
    "discriminator_periods": [2], "discriminator_period_channels": [1, 2],
    "discriminator_scale_channels": [1, 4]}"#;
/// The same in the format of the original project.
const ORIGINAL: &str = r#"{"train": {"segment_size": 64},
    "data": {"sampling_rate": 16000, "filter_length": 64, "hop_length": 8, "n_speakers": 0,
        "training_files": "train.txt"},
    "model": {"inter_channels": 4, "hidden_channels": 4, "filter_channels": 4, "n_heads": 2,
        "n_layers": 1, "kernel_size": 3, "p_dropout": 0.1, "resblock": "1",
        "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1]], "upsample_rates": [4, 2],
        "upsample_initial_channel": 4, "upsample_kernel_sizes": [8, 4]}}"#;
const VOCABULARY: &str = r#"{"k": 0, "a": 1, " ": 2, "i": 3}"#;
const READING: &str = r#"{"phonemize": false}"#;
const IN_LAYER: &str = "flow.flows.0.wavenet.in_layers.0";

type File = (&'static str, Vec<u8>);

fn parsed() -> VitsConfig {
    VitsConfig::parse(CONFIG.as_bytes()).unwrap()
}

fn generator() -> Tensors {
    numbered(parsed().generator(), Dtype::F32)
}

fn discriminator() -> Tensors {
    numbered(parsed().discriminator(), Dtype::F32)
}

fn around(weights: File) -> Vec<File> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("config.json", text(CONFIG)),
        ("vocab.json", text(VOCABULARY)),
        ("tokenizer_config.json", text(READING)),
        ("README.md", text("---\nlicense: cc-by-nc-4.0\n---\n")),
        weights,
    ]
}

/// The tensors with some weights in pairs, in one of the two spellings.
fn in_pairs(tensors: &Tensors, parts: [&str; 2], which: impl Fn(&str) -> bool) -> Tensors {
    let mut paired = Tensors::new();
    for (name, tensor) in tensors {
        match name.strip_suffix("weight").filter(|_| which(name)) {
            Some(module) => {
                let (length, direction) = weight_norm::split(tensor).unwrap();
                paired.insert(format!("{module}{}", parts[0]), length);
                paired.insert(format!("{module}{}", parts[1]), direction);
            }
            None => drop(paired.insert(name.clone(), tensor.clone())),
        }
    }
    paired
}

const OLDER: [&str; 2] = ["weight_g", "weight_v"];
const NEWER: [&str; 2] = ["parametrizations.weight.original0", "parametrizations.weight.original1"];

fn is_wavenet(name: &str) -> bool {
    name.contains(".wavenet.")
}

fn failure(files: &[File], written: &[(&str, ParameterValue)]) -> String {
    import(&mut Bench::default(), files, written).unwrap_err().to_string()
}

#[test]
fn each_spelling_of_a_file_gives_the_same_tensors() {
    let expected = in_pairs(&generator(), OLDER, is_wavenet);
    for tensors in [expected.clone(), in_pairs(&generator(), NEWER, is_wavenet)] {
        for weights in [("model.safetensors", safe(&tensors)), ("pytorch_model.bin", pth(&tensors))]
        {
            let mut bench = Bench::default();
            let output = import(&mut bench, &around(weights), &[]).unwrap();
            assert_eq!(imported(&bench, &output), expected);
            let fields = model(&output);
            assert_eq!(fields["family"], NewValue::Text("vits".to_owned()));
            assert_eq!(fields["license"], NewValue::Text("cc-by-nc-4.0".to_owned()));
            assert_eq!(fields["config"], NewValue::bytes("model/config", CONFIG));
            assert_eq!(fields["vocab.json"], NewValue::bytes("model/tokenizer", VOCABULARY));
        }
    }
}

#[test]
fn a_discriminator_stays_with_the_model() {
    let both: Tensors = generator().into_iter().chain(discriminator()).collect();
    let mut bench = Bench::default();
    let files = around(("model.safetensors", safe(&both)));
    let output = import(&mut bench, &files, &[("family", text("vits"))]).unwrap();
    assert_eq!(imported(&bench, &output), both);
    let mut part = both;
    part.remove("discriminator.discriminators.1.final_conv.bias");
    let error = failure(&around(("model.safetensors", safe(&part))), &[]);
    assert!(
        error.ends_with("missing: `discriminator.discriminators.1.final_conv.bias`"),
        "{error}"
    );
}

#[test]
fn a_discriminator_may_lie_in_a_file_of_its_own() {
    let own =
        |name: &str| name.replace("final_conv", "conv_post").split_off("discriminator.".len());
    let judge = discriminator().into_iter().map(|(name, tensor)| (own(&name), tensor)).collect();
    let mut files = around(("G_7.pth", pth(&generator())));
    files.push(("D_7.pth", pth(&judge)));
    let written = [("file", text("G_7.pth")), ("discriminator", text("D_7.pth"))];
    let mut bench = Bench::default();
    let output = import(&mut bench, &files, &written).unwrap();
    let both: Tensors = generator().into_iter().chain(discriminator()).collect();
    assert_eq!(imported(&bench, &output), both);
    files.retain(|(name, _)| *name != "G_7.pth");
    files.push(("G_7.pth", pth(&both)));
    assert_eq!(failure(&files, &written), "the file of weights already has a discriminator");
}

/// The names of the original are tested in `names`, and by the parity script.
#[test]
fn a_model_of_the_original_project_becomes_one_of_transformers() {
    let (config, _) = read_original(ORIGINAL.as_bytes(), 4).unwrap();
    let expected = numbered(config.generator(), Dtype::F32);
    let query = "text_encoder.encoder.layers.0.attention.q_proj.weight";
    let named = |(name, tensor): (&String, &Tensor)| {
        let is_query = name == query;
        let name = if is_query { "enc_p.encoder.attn_layers.0.conv_q.weight" } else { name };
        let mut info = tensor.info().clone();
        info.shape.extend(is_query.then_some(1));
        (format!("model.{name}"), Tensor::new(info, tensor.data().clone()).unwrap())
    };
    let mut state: Tensors = expected.iter().map(named).collect();
    let moment = Tensor::from_f32([1], &[0.5]).unwrap();
    state.insert("optimizer.state.0.exp_avg".to_owned(), moment);
    let text_of = |text: &str| text.as_bytes().to_vec();
    let files = [
        ("config.json", text_of(ORIGINAL)),
        ("vocab.txt", text_of("k\na\n \ni\n")),
        ("G_7.pth", pth(&state)),
    ];
    let mut bench = Bench::default();
    let output = import(&mut bench, &files, &[("family", text("vits"))]).unwrap();
    assert_eq!(imported(&bench, &output), expected);
    let fields = model(&output);
    let read = |name: &str| match &fields[name] {
        NewValue::Bytes { bytes, .. } => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(VitsConfig::parse(read("config").as_bytes()).unwrap(), config);
    assert_eq!(read("vocab.json"), "{\n  \"k\": 0,\n  \"a\": 1,\n  \" \": 2,\n  \"i\": 3\n}\n");
    assert!(read("tokenizer_config.json").contains(r#""is_uroman": false"#));
}

#[test]
fn what_does_not_belong_together_is_told() {
    let weights = ("model.safetensors", safe(&generator()));
    let mut files = around(weights.clone());
    files[1].1 = br#"{"k": 0, "a": 9}"#.to_vec();
    assert!(
        failure(&files, &[]).starts_with("the tokenizer has 10 tokens, but the model has 4 rows")
    );
    files.remove(1);
    let error = failure(&files, &[]);
    assert_eq!(error, "the asset has no `vocab.json`, which says how texts are read");
    let mut lost = in_pairs(&generator(), OLDER, is_wavenet);
    lost.remove(&format!("{IN_LAYER}.weight_g"));
    lost.insert("extra".to_owned(), Tensor::from_f32([1], &[0.0]).unwrap());
    let error = failure(&around(("model.safetensors", safe(&lost))), &[]);
    let told = format!("missing: `{IN_LAYER}.weight_g`; unexpected: `extra`");
    assert!(error.ends_with(&told), "{error}");
    lost = in_pairs(&generator(), OLDER, is_wavenet);
    lost.insert("extra".to_owned(), Tensor::from_f32([1], &[0.0]).unwrap());
    let files = around(("model.safetensors", safe(&lost)));
    let output = import(&mut Bench::default(), &files, &[]).unwrap();
    let told = ("tensors left out that the model does not have: `extra`".to_owned(), 1);
    assert!(output.notes.contains(&told), "{:?}", output.notes);
    let mut phonemes = around(weights);
    phonemes[2].1 = b"{}".to_vec();
    assert!(failure(&phonemes, &[]).contains("phonemes of espeak"));
}

#[test]
fn an_export_has_the_weights_that_transformers_speaks_with() {
    let trained = in_pairs(&generator(), OLDER, |name| {
        is_wavenet(name) || name.contains("resblocks") || name.contains("upsampler")
    });
    let whole = generator();
    let all: Tensors = trained.into_iter().chain(discriminator()).collect();
    for tensors in [all, whole.clone()] {
        let mut bench = Bench::default();
        let fields = stored(&mut bench, &around(("model.safetensors", safe(&tensors))));
        let files = export(&mut bench, fields.clone(), &[]).unwrap();
        assert_eq!(
            names(&files),
            [
                "README.md",
                "config.json",
                "model.safetensors",
                "tokenizer_config.json",
                "vocab.json"
            ]
        );
        let written = weights(&files["model.safetensors"]);
        let expected = in_pairs(&whole, NEWER, is_wavenet);
        assert_eq!(names_of(&written), names_of(&expected));
        for (name, tensor) in &expected {
            assert_eq!(written[name].shape(), tensor.shape(), "{name}");
            let pairs = written[name].to_f32().into_iter().zip(tensor.to_f32());
            // Multiplying magnitude and direction rounds once more.
            let far = pairs.map(|(one, other)| (one - other).abs() / other.abs().max(1.0));
            assert!(far.fold(0.0, f32::max) < 1e-6, "{name}");
        }
        let pth = export(&mut bench, fields, &[("format", text("pth"))]).unwrap();
        assert_eq!(weights(&pth["pytorch_model.bin"]), written);
    }
}

#[test]
fn a_discriminator_is_exported_beside_the_model_and_comes_back_to_the_bit() {
    let judge = in_pairs(&discriminator(), OLDER, |_| true);
    let all: Tensors = generator().into_iter().chain(judge.clone()).collect();
    let mut bench = Bench::default();
    let fields = stored(&mut bench, &around(("model.safetensors", safe(&all))));
    let plain = export(&mut bench, fields.clone(), &[]).unwrap();
    for (format, file) in [("auto", "discriminator.safetensors"), ("pth", "discriminator.pth")] {
        let written = [("discriminator", ParameterValue::Flag(true)), ("format", text(format))];
        let mut files = export(&mut bench, fields.clone(), &written).unwrap();
        let own = weights(&files[file]);
        // The original's name for the state dict.
        assert!(own.contains_key("discriminators.1.conv_post.weight_g"), "{:?}", names_of(&own));
        assert_eq!(own.len(), judge.len());
        if format == "auto" {
            let again: Vec<File> = vec![
                ("model.safetensors", files["model.safetensors"].to_vec()),
                ("discriminator.safetensors", files[file].to_vec()),
            ];
            let mut around = around(again[0].clone());
            around.push(again[1].clone());
            let said = [("discriminator", text(file)), ("file", text("model.safetensors"))];
            let output = import(&mut bench, &around, &said).unwrap();
            let mut back = imported(&bench, &output);
            back.retain(|name, _| judge.contains_key(name));
            assert_eq!(back, judge);
            files.remove(file);
            assert_eq!(files, plain, "the rest is as without it");
        }
    }
    let bare = stored(&mut bench, &around(("model.safetensors", safe(&generator()))));
    let written = [("discriminator", ParameterValue::Flag(true))];
    let error = export(&mut bench, bare, &written).unwrap_err().to_string();
    assert_eq!(error, "the model has no discriminator to export");
}

#[test]
fn speakers_keep_their_names_on_the_way_out_and_in() {
    let config = CONFIG.replace(
        r#""vocab_size": 4,"#,
        r#""vocab_size": 4, "num_speakers": 3, "speaker_embedding_size": 4,"#,
    );
    let tensors = numbered(VitsConfig::parse(config.as_bytes()).unwrap().generator(), Dtype::F32);
    let mut files = around(("model.safetensors", safe(&tensors)));
    files[0].1 = config.clone().into_bytes();
    let list = br#"[ "aino", "eero", "veikko" ]"#;
    files.push(("speakers.json", list.to_vec()));
    let mut bench = Bench::default();
    let fields = stored(&mut bench, &files);
    assert_eq!(fields.text("speakers"), Some(r#"["aino","eero","veikko"]"#));
    let exported = export(&mut bench, fields.clone(), &[]).unwrap();
    let again: Vec<File> = vec![
        ("config.json", exported["config.json"].to_vec()),
        ("vocab.json", exported["vocab.json"].to_vec()),
        ("tokenizer_config.json", exported["tokenizer_config.json"].to_vec()),
        ("speakers.json", exported["speakers.json"].to_vec()),
        ("model.safetensors", exported["model.safetensors"].to_vec()),
    ];
    assert_eq!(stored(&mut bench, &again).text("speakers"), fields.text("speakers"));
    files.last_mut().unwrap().1 = br#"["aino"]"#.to_vec();
    assert_eq!(failure(&files, &[]), "the list has 1 speakers, but the model has 3");
}

#[test]
fn a_model_of_romanised_texts_is_taken_and_that_is_told() {
    let told = |reading: &str| {
        let mut files = around(("model.safetensors", safe(&generator())));
        files[2].1 = reading.as_bytes().to_vec();
        let notes = import(&mut Bench::default(), &files, &[]).unwrap().notes;
        notes.iter().any(|(note, _)| note.contains("uroman"))
    };
    assert!(told(r#"{"phonemize": false, "is_uroman": true}"#));
    assert!(!told(READING));
}

fn names_of(tensors: &Tensors) -> Vec<&str> {
    tensors.keys().map(String::as_str).collect()
}

#[test]
fn what_was_exported_is_imported_and_exported_to_the_byte() {
    let mut bench = Bench::default();
    let fields = stored(&mut bench, &around(("model.safetensors", safe(&generator()))));
    let files = export(&mut bench, fields, &[]).unwrap();
    let again: Vec<(&str, Vec<u8>)> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.to_vec())).collect();
    let fields = stored(&mut bench, &again);
    assert_eq!(export(&mut bench, fields, &[]).unwrap(), files);
}

/// The whole way is in `stages/families/src/vits/checkpoint.rs`, part by part: its networks have fixed sizes of
/// megabytes.
#[test]
fn a_checkpoint_of_the_trainer_of_piper_is_known_by_its_networks_and_needs_its_settings() {
    let names =
        ["model_g.enc_p.emb.weight", "model_g.enc_q.pre.bias", "model_g.flow.flows.0.pre.bias"];
    let tensor = generator().into_values().next().unwrap();
    let tensors: Tensors =
        names.iter().map(|name| (format!("state_dict.{name}"), tensor.clone())).collect();
    let error = failure(&around(("epoch=3-step=10.ckpt", pth(&tensors))), &[]);
    assert!(error.contains("the checkpoint has no `hyper_parameters`"), "{error}");
}
