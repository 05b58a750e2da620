//! `model.import` on small files of both formats.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use std::sync::atomic::Ordering;

use stage_core::{Fields, NewValue, ParameterValue, StageError, Value};
use stage_formats::{Dtype, Tensor};
use support::models::{
    CODEC, CONFIG, Tensors, codec_tensors, config, import, import_asset, imported, model, pth,
    safe, tensors, tokenizer,
};
use support::{Bench, text};

fn failure(files: &[(&str, Vec<u8>)], written: &[(&str, ParameterValue)]) -> String {
    import(&mut Bench::default(), files, written).unwrap_err().to_string()
}

#[test]
fn both_formats_give_the_same_model() {
    let mut models = Vec::new();
    for (name, bytes) in [
        ("model.pth", pth(&tensors(Dtype::Bf16))),
        ("model.safetensors", safe(&tensors(Dtype::Bf16))),
    ] {
        let mut bench = Bench::default();
        let output = import(&mut bench, &[config(), (name, bytes)], &[]).unwrap();
        assert_eq!(imported(&bench, &output), tensors(Dtype::Bf16));
        models.push(imported(&bench, &output));
        let fields = model(&output);
        assert_eq!(fields["family"], NewValue::Text("fish-dual-ar".to_owned()));
        assert_eq!(fields["config"], NewValue::bytes("model/config", CONFIG));
    }
    assert_eq!(models[0], models[1]);
}

#[test]
fn a_second_import_makes_no_tensor_again() {
    let (mut bench, files) =
        (Bench::default(), [config(), ("model.pth", pth(&tensors(Dtype::F32)))]);
    let first = import(&mut bench, &files, &[]).unwrap();
    let parts = bench.parts.len();
    assert_eq!(model(&import(&mut bench, &files, &[]).unwrap()), model(&first));
    assert_eq!(bench.parts.len(), parts);
}

#[test]
fn names_are_stripped_and_what_is_remade_is_left_out() {
    let mut checkpoint: Tensors = tensors(Dtype::F32)
        .into_iter()
        .map(|(name, tensor)| (format!("state_dict.model.{name}"), tensor))
        .collect();
    let other = Tensor::from_f32([3], &[0.0; 3]).unwrap();
    for name in ["freqs_cis", "causal_mask", "fast_freqs_cis", "audio_projector.weight"] {
        checkpoint.insert(format!("state_dict.model.{name}"), other.clone());
    }
    checkpoint.insert("optimizer_states.0.state.0.exp_avg".to_owned(), other);
    let mut bench = Bench::default();
    let output = import(&mut bench, &[config(), ("last.ckpt", pth(&checkpoint))], &[]).unwrap();
    assert_eq!(imported(&bench, &output), tensors(Dtype::F32));
    assert_eq!(output.notes[1], ("tensors left out".to_owned(), 5));
}

#[test]
fn separate_projections_become_one() {
    let mut apart = tensors(Dtype::F32);
    for layer in ["layers.0", "fast_layers.0"] {
        let whole = apart.remove(&format!("{layer}.attention.wqkv.weight")).unwrap();
        let values = whole.to_f32();
        for (part, range) in [("wq", 0..64), ("wk", 64..96), ("wv", 96..128)] {
            let rows = range.len() / 8;
            let tensor = Tensor::from_f32([rows, 8], &values[range]).unwrap();
            apart.insert(format!("{layer}.attention.{part}.weight"), tensor);
        }
    }
    let mut bench = Bench::default();
    let output = import(&mut bench, &[config(), ("model.pth", pth(&apart))], &[]).unwrap();
    assert_eq!(imported(&bench, &output), tensors(Dtype::F32));
}

#[test]
fn floats_are_stored_in_the_type_that_was_asked_for() {
    let mut bench = Bench::default();
    let files = [config(), ("model.pth", pth(&tensors(Dtype::F32)))];
    for (name, dtype) in [("bf16", Dtype::Bf16), ("fp16", Dtype::F16), ("f32", Dtype::F32)] {
        let output = import(&mut bench, &files, &[("dtype", text(name))]).unwrap();
        assert_eq!(imported(&bench, &output), tensors(dtype));
    }
}

#[test]
fn weights_that_do_not_fit_their_config_are_named() {
    let mut other = tensors(Dtype::F32);
    other.remove("norm.weight");
    other.insert("extra.weight".to_owned(), Tensor::from_f32([1], &[0.0]).unwrap());
    other.insert("fast_norm.weight".to_owned(), Tensor::from_f32([4], &[0.0; 4]).unwrap());
    assert_eq!(
        failure(&[config(), ("model.pth", pth(&other))], &[]),
        "the weights do not match `config.json`: missing: `norm.weight`; unexpected: \
         `extra.weight`; wrong shape: `fast_norm.weight` [4] instead of [8]"
    );
}

#[test]
fn the_tokenizer_comes_along_and_has_to_fit() {
    let weights = ("model.pth", pth(&tensors(Dtype::F32)));
    let [ranks, specials] = tokenizer(300);
    let files = [config(), weights.clone(), ranks.clone(), specials.clone()];
    let fields = model(&import(&mut Bench::default(), &files, &[]).unwrap());
    assert_eq!(fields["tokenizer.tiktoken"], NewValue::bytes("model/tokenizer", ranks.1.clone()));
    assert_eq!(fields["special_tokens.json"], NewValue::bytes("model/tokenizer", specials.1));
    let [_, specials] = tokenizer(301);
    let error = failure(&[config(), weights.clone(), ranks.clone(), specials], &[]);
    assert!(
        error.starts_with("the tokenizer has 301 tokens, but the model has 300 rows"),
        "{error}"
    );
    let error = failure(&[config(), weights, ranks], &[]);
    assert!(error.ends_with("`special_tokens.json` is missing"), "{error}");
}

#[test]
fn the_licence_is_carried_on() {
    let card =
        ("README.md", b"---\nlanguage: fi\nlicense: cc-by-nc-sa-4.0\n---\nlicense: x\n".to_vec());
    let files = [config(), ("model.pth", pth(&tensors(Dtype::F32))), card];
    let license = |written: &[(&str, ParameterValue)]| {
        model(&import(&mut Bench::default(), &files, written).unwrap())["license"].clone()
    };
    assert_eq!(license(&[]), NewValue::Text("cc-by-nc-sa-4.0".to_owned()));
    assert_eq!(license(&[("license", text("MIT"))]), NewValue::Text("MIT".to_owned()));
    let without = import(&mut Bench::default(), &files[..2], &[]).unwrap();
    assert!(!model(&without).contains_key("license"));
}

#[test]
fn a_codec_is_known_by_its_names_and_has_the_shapes_of_its_sizes() {
    let own = codec_tensors();
    let mut stored: Tensors =
        own.iter().map(|(name, one)| (format!("generator.{name}"), one.clone())).collect();
    let one = Tensor::from_f32([1], &[1.0]).unwrap();
    stored.insert("discriminator.d".to_owned(), one.clone());
    stored.insert("generator.quantizer.pre_module.freqs_cis".to_owned(), one.clone());
    let mut bench = Bench::default();
    let sizes = ("codec.json", CODEC.as_bytes().to_vec());
    let output = import(&mut bench, &[("codec.pth", pth(&stored)), sizes.clone()], &[]).unwrap();
    assert_eq!(imported(&bench, &output), own);
    assert_eq!(model(&output)["family"], NewValue::Text("fish-dac".to_owned()));
    assert_eq!(model(&output)["config"], NewValue::bytes("model/config", CODEC));

    let name = "decoder.model.0.conv.bias";
    let other = Tensors::from([(format!("generator.{name}"), one)]);
    stored.extend(other);
    let error = failure(&[("codec.pth", pth(&stored)), sizes], &[]);
    assert!(error.contains(&format!("wrong shape: `{name}` [1] instead of [4]")), "{error}");
    // Without sizes a file has those of the published codec.
    let error = failure(&[("codec.pth", pth(&own))], &[]);
    assert!(error.contains("missing: `decoder.model.3"), "{error}");
    let error = failure(&[("codec.pth", pth(&own)), config()], &[("config", text("config.json"))]);
    assert!(error.starts_with("`codec.json`: its config: unknown field `model_type`"), "{error}");
}

/// The note on tensors that were left out, with their number.
fn left_out(files: &[(&str, Vec<u8>)]) -> (String, u64) {
    let output = import(&mut Bench::default(), files, &[]).unwrap();
    let mut notes = output.notes.into_iter();
    notes.find(|(note, _)| note.starts_with("tensors left out that")).unwrap()
}

#[test]
fn tensors_that_a_model_does_not_have_are_left_out_and_named() {
    let one = Tensor::from_f32([1], &[0.0]).unwrap();
    let with = |mut tensors: Tensors, names: &[&str]| {
        tensors.extend(names.iter().map(|name| ((*name).to_owned(), one.clone())));
        tensors
    };
    let told = |names: &str, count: u64| {
        (format!("tensors left out that the model does not have: {names}"), count)
    };
    let weights = with(tensors(Dtype::F32), &["extra.weight", "layers.9.x"]);
    let expected = told("`extra.weight`, `layers.9.x`", 2);
    assert_eq!(left_out(&[config(), ("model.pth", pth(&weights))]), expected);
    let sizes = ("codec.json", CODEC.as_bytes().to_vec());
    let weights = with(codec_tensors(), &["decoder.extra"]);
    assert_eq!(left_out(&[sizes, ("codec.pth", pth(&weights))]), told("`decoder.extra`", 1));
}

#[test]
fn an_output_layer_beside_tied_embeddings_is_left_out() {
    let tied = CONFIG.replace(r#"_embeddings": false"#, r#"_embeddings": true"#);
    let files = [("config.json", tied.into_bytes()), ("model.pth", pth(&tensors(Dtype::F32)))];
    let told = "tensors left out that the model does not have: `output.weight`";
    assert_eq!(left_out(&files), (told.to_owned(), 1));
    let mut bench = Bench::default();
    let output = import(&mut bench, &files, &[]).unwrap();
    assert!(!imported(&bench, &output).contains_key("output.weight"));
}

#[test]
fn fields_of_the_configuration_without_effect_are_kept_and_named() {
    let odd = CONFIG.replace(r#""dim": 8"#, r#""dim": 8, "dimm": 9"#);
    let files = [("config.json", odd.clone().into()), ("model.pth", pth(&tensors(Dtype::F32)))];
    let output = import(&mut Bench::default(), &files, &[]).unwrap();
    let told = ("fields of `config.json` without effect: `dimm`".to_owned(), 1);
    assert!(output.notes.contains(&told), "{:?}", output.notes);
    assert_eq!(model(&output)["config"], NewValue::bytes("model/config", odd));
    let files = [config(), ("model.pth", pth(&tensors(Dtype::F32)))];
    assert_eq!(import(&mut Bench::default(), &files, &[]).unwrap().notes.len(), 2);
}

#[test]
fn the_file_is_chosen_by_its_name_or_by_the_user() {
    let weights = pth(&tensors(Dtype::F32));
    let files = [config(), ("codec.pth", b"?".to_vec()), ("model.pth", weights.clone())];
    assert!(import(&mut Bench::default(), &files, &[]).is_ok());
    assert!(failure(&files, &[("family", text("fish-dac"))]).starts_with("`codec.pth`: "));
    let several = [config(), ("a.pth", weights.clone()), ("b.pth", weights.clone())];
    assert_eq!(
        failure(&several, &[]),
        "the asset has several files of weights: `a.pth`, `b.pth`; choose one with `file`"
    );
    assert!(import(&mut Bench::default(), &several, &[("file", text("b.pth"))]).is_ok());
    assert_eq!(
        failure(&several, &[("file", text("c.pth"))]),
        "the asset has no file `c.pth`; it has `a.pth`, `b.pth`, `config.json`"
    );
    assert_eq!(failure(&[config()], &[]), "the asset has no file of weights; it has `config.json`");
    let beside = [config(), ("dvae.pth", weights.clone()), ("mel_stats.pth", weights.clone())];
    assert_eq!(
        failure(&beside, &[]),
        "the asset has `dvae.pth`, `mel_stats.pth` without the `model.pth` that they belong to"
    );
    let folder = [("best/config.json", CONFIG.into()), ("best/model.pth", weights)];
    assert!(import(&mut Bench::default(), &folder, &[("file", text("best/model.pth"))]).is_ok());
}

#[test]
fn what_is_no_model_is_an_error() {
    let other: Tensors = [("a".to_owned(), Tensor::from_f32([1], &[1.0]).unwrap())].into();
    let error = failure(&[config(), ("model.pth", pth(&other))], &[]);
    assert!(error.contains("such as `a`, do not belong to a known model"), "{error}");
    let error = failure(&[config(), ("model.pth", b"<!DOCTYPE html>".to_vec())], &[]);
    assert_eq!(error, "`model.pth`: it is an HTML page, not weights");
    let error = failure(&[config(), ("model.pth", b"PK\x03\x04".to_vec())], &[]);
    assert!(error.starts_with("`model.pth`: the zip file cannot be read"), "{error}");
    let error = failure(&[("model.pth", pth(&tensors(Dtype::F32)))], &[]);
    assert!(error.starts_with("the asset has no `config.json`"), "{error}");
}

/// As the engine gives what it cannot read as a file.
#[test]
fn what_is_no_file_is_not_taken_for_missing() {
    let weights = ("model.pth", pth(&tensors(Dtype::F32)));
    let failure = |name: &str, value: Value| {
        let mut bench = Bench::default();
        let blob =
            |(name, bytes): &(&str, Vec<u8>)| ((*name).to_owned(), bench.blob("x", bytes.clone()));
        let mut fields: Fields = [config(), weights.clone()].iter().map(blob).collect();
        fields.set(name, value);
        import_asset(&mut bench, fields, &[]).unwrap_err().to_string()
    };
    assert_eq!(
        failure("tokenizer.tiktoken", Value::text("an empty folder")),
        "`tokenizer.tiktoken` of the asset is an empty folder, not a file"
    );
    assert_eq!(
        failure("model.pth", Value::text("a link to nothing")),
        "`model.pth` of the asset is a link to nothing, not a file"
    );
    let page = Bench::default().blob("x", b"page".to_vec());
    assert_eq!(
        failure("tokenizer.tiktoken/index.html", page),
        "`tokenizer.tiktoken` of the asset is a folder, not a file"
    );
}

#[test]
fn a_description_that_is_a_pointer_to_one_is_named() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n".to_vec();
    let files = [("config.json", pointer), ("model.pth", pth(&tensors(Dtype::F32)))];
    let error = failure(&files, &[]);
    assert_eq!(error, "`config.json`: it is a git-lfs pointer, not the description of a model");
}

#[test]
fn an_import_stops_when_asked() {
    let mut bench = Bench { is_stopping: true, ..Bench::default() };
    let files = [config(), ("model.pth", pth(&tensors(Dtype::F32)))];
    assert!(matches!(import(&mut bench, &files, &[]), Err(StageError::Stopped)));
}

/// The message of an import of a file with ten gigabytes of zeros after a few bytes, and the number
/// of bytes read.
fn import_with_zeros(
    name: &str,
    head: &'static [u8],
    files: &[(&str, Vec<u8>)],
) -> (Result<(), String>, u64) {
    let mut bench = Bench::default();
    let blob =
        |(name, bytes): &(&str, Vec<u8>)| ((*name).to_owned(), bench.blob("x", bytes.clone()));
    let mut fields: Fields = files.iter().map(blob).collect();
    let (large, value) = bench.zeros(10 << 30, head);
    fields.set(name, value);
    let outcome = import_asset(&mut bench, fields, &[]);
    let outcome = outcome.map(drop).map_err(|error| error.to_string());
    (outcome, large.read.load(Ordering::Relaxed))
}

#[test]
fn files_of_ten_gigabytes_that_are_no_weights_are_refused_within_kilobytes() {
    for head in [&b"PK\x03\x04"[..], b"", b"\0\0\0\x01\0\0\0\0{"] {
        let (outcome, read) = import_with_zeros("model.pth", head, &[config()]);
        assert!(outcome.is_err());
        assert!(read <= 128 << 10, "{read} bytes were read: {outcome:?}");
    }
}

#[test]
fn a_description_of_ten_gigabytes_is_refused_and_of_a_model_card_the_head_is_read() {
    let weights = ("model.pth", pth(&tensors(Dtype::F32)));
    let (outcome, read) = import_with_zeros("config.json", b"", std::slice::from_ref(&weights));
    let refused = outcome.unwrap_err();
    assert!(refused.contains("`config.json` has 10737418240 bytes, more than"), "{refused}");
    assert_eq!(read, 0);
    let [ranks, _] = tokenizer(300);
    let files = [config(), weights.clone(), ranks];
    let (outcome, read) = import_with_zeros("special_tokens.json", b"", &files);
    assert!(outcome.unwrap_err().contains("`special_tokens.json` has"));
    assert_eq!(read, 0);
    let card = b"---\nlicense: MIT\n---\n";
    let (outcome, read) = import_with_zeros("README.md", card, &[config(), weights]);
    assert_eq!(outcome, Ok(()));
    assert!(read <= 64 << 10, "{read}");
}

#[test]
fn names_of_tensors_cannot_forge_a_line_of_a_message() {
    let forged = "x\nerror: all is well\u{1b}[2J\u{202e}";
    let mut given = tensors(Dtype::F32);
    given.insert(forged.to_owned(), Tensor::from_f32([1], &[0.0]).unwrap());
    let (note, _) = left_out(&[config(), ("model.pth", pth(&given))]);
    assert!(note.contains("x\\nerror") && !note.contains(['\n', '\u{1b}', '\u{202e}']), "{note:?}");
    given.remove("norm.weight");
    let mut strange = Tensors::new();
    strange.insert(forged.to_owned(), Tensor::from_f32([1], &[0.0]).unwrap());
    for write in [pth, safe] {
        for files in [
            vec![config(), ("model.pth", write(&given))],
            vec![config(), ("model.pth", write(&strange))],
            vec![config(), (forged, write(&given)), ("other.pth", write(&given))],
        ] {
            let message = failure(&files, &[]);
            assert!(message.contains("x\\nerror"), "{message}");
            assert!(!message.chars().any(|letter| letter.is_control() || letter == '\u{202e}'));
        }
    }
}

/// The files of a model in two shards with their index.
fn shards(ending: &str, write: fn(&Tensors) -> Vec<u8>) -> Vec<(String, Vec<u8>)> {
    let all = tensors(Dtype::F32);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut map = Vec::new();
    for number in [1, 2] {
        let is_here = |at: &usize| at % 2 == number - 1;
        let own = all.iter().enumerate().filter(|(at, _)| is_here(at)).map(|(_, pair)| pair);
        let own: Tensors = own.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
        let file = format!("model-0000{number}-of-00002.{ending}");
        map.extend(own.keys().map(|name| format!("\"{name}\": \"{file}\"")));
        files.push((file, write(&own)));
    }
    let index = format!("\u{FEFF}{{\"metadata\": {{}}, \"weight_map\": {{{}}}}}", map.join(", "));
    files.push((format!("model.{ending}.index.json"), index.into_bytes()));
    files
}

fn with_config(files: &[(String, Vec<u8>)]) -> Vec<(&str, Vec<u8>)> {
    let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone()));
    files.chain([config()]).collect()
}

#[test]
fn shards_give_the_model_of_one_file() {
    for (ending, write) in [("safetensors", safe as fn(&Tensors) -> Vec<u8>), ("bin", pth)] {
        let mut bench = Bench::default();
        let output = import(&mut bench, &with_config(&shards(ending, write)), &[]).unwrap();
        assert_eq!(imported(&bench, &output), tensors(Dtype::F32), "{ending}");
    }
}

#[test]
fn shards_that_are_not_whole_are_named() {
    let whole = shards("safetensors", safe);
    let lacks_shard = failure(&with_config(&whole[1..]), &[]);
    assert!(
        lacks_shard.ends_with("files that are missing: `model-00001-of-00002.safetensors`"),
        "{lacks_shard}"
    );
    let lacks_index = failure(&with_config(&whole[..2]), &[]);
    assert!(lacks_index.contains("shards of weights such as `model-00001"), "{lacks_index}");
    let mut other = whole.clone();
    let index = String::from_utf8(other[2].1.clone()).unwrap();
    other[2].1 = index.replace("model-00001-of", "../model-00001-of").into_bytes();
    assert!(failure(&with_config(&other), &[]).contains("which is not beside it"));
    other[2].1 = index.replace("\"norm.weight\"", "\"other.weight\"").into_bytes();
    assert!(failure(&with_config(&other), &[]).contains("tensors that their files lack: `other"));
}

#[test]
fn prefixes_of_wrapped_models_are_removed_with_a_note() {
    for prefix in ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."] {
        let wrapped: Tensors = tensors(Dtype::F32)
            .into_iter()
            .map(|(name, tensor)| (format!("{prefix}{name}"), tensor))
            .collect();
        let count = wrapped.len() as u64;
        let mut bench = Bench::default();
        let output = import(&mut bench, &[config(), ("model.pth", pth(&wrapped))], &[]).unwrap();
        assert_eq!(imported(&bench, &output), tensors(Dtype::F32));
        let note = (format!("names without their prefix `{prefix}`"), count);
        assert!(output.notes.contains(&note), "{:?}", output.notes);
    }
}

#[test]
fn a_byte_order_mark_in_a_description_is_no_part_of_it() {
    let marked = ("config.json", [b"\xEF\xBB\xBF", CONFIG.as_bytes()].concat());
    let files = [marked, ("model.pth", pth(&tensors(Dtype::F32)))];
    let fields = model(&import(&mut Bench::default(), &files, &[]).unwrap());
    assert_eq!(fields["config"], NewValue::bytes("model/config", CONFIG));
}
