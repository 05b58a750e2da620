//! Models with random weights.

use super::*;

#[test]
fn a_model_is_made_for_a_codec_without_a_look_at_its_weights() {
    let mut bench = Bench::default();
    // The published codec, with only its configuration.
    let config = bench.keep(artifact::CONFIG_KIND, b"{}");
    let gone = Blob { digest: Digest::of(b"gone"), size: 1 << 30, kind: "tensor".into() };
    let codec: Fields = [
        (artifact::FAMILY, Value::text(artifact::DAC)),
        (artifact::CONFIG, Value::Blob(config.into())),
        ("tensor/encoder.block.0.conv.bias", Value::Blob(gone.into())),
    ]
    .into_iter()
    .collect();
    let written =
        [("layers", whole(1)), ("dim", whole(8)), ("heads", whole(2)), ("key_heads", whole(1))];
    let ports = vec![("codec", artifact_of(&codec))];
    let model = learnt(gather(&fish::INIT, &written, ports, &mut bench).unwrap());
    assert_eq!(bench.reads, 1);
    let config = Context::read(&mut bench, model.blob(artifact::CONFIG).unwrap()).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    assert_eq!((&config["num_codebooks"], &config["codebook_size"]), (&10.into(), &4096.into()));
}

#[test]
fn a_small_model_with_the_published_vocabulary_trains() {
    let mut bench = Bench::default();
    let written = [
        ("shape", text("s1-mini")),
        ("codebooks", whole(3)),
        ("entries", whole(24)),
        ("layers", whole(1)),
        ("fast_layers", whole(1)),
        ("dim", whole(8)),
        ("heads", whole(2)),
        ("key_heads", whole(1)),
        ("head_dim", whole(4)),
        ("max_length", whole(96)),
    ];
    let base = gather(&fish::INIT, &written, Vec::new(), &mut bench).unwrap();
    let base = base.into_values().next().unwrap();
    learnt(tune(&fish::FINETUNE, &[], &base, &mut bench).unwrap());
}
