//! Refusals before hours are spent.

use super::*;

#[test]
fn adapters_on_weights_that_were_lost_are_refused() {
    let mut bench = Bench::default();
    let mut lost = base(&mut bench);
    lost.remove(artifact::LINEAGE);
    let (message, help) = refusal(tune(&fish::LORA, &[], &lost, &mut bench));
    assert!(message.starts_with("the base seems untrained: its loss is "), "{message}");
    assert!(help.contains("import the published files again"), "{help}");
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let mut bench = Bench::default();
    let mut other = base(&mut bench);
    let (_, marks) = byte_level(20, 0);
    let blob = bench.keep(artifact::TOKENIZER_KIND, marks.as_bytes());
    other.set(artifact::SPECIAL_TOKENS, Value::Blob(blob.into()));
    let (message, _) = refusal(tune(&fish::FINETUNE, &[], &other, &mut bench));
    assert!(message.starts_with("the tokenizer does not belong to the model: "), "{message}");
    other.remove(artifact::SPECIAL_TOKENS);
    let (message, _) = refusal(tune(&fish::FINETUNE, &[], &other, &mut bench));
    assert_eq!(message, "the model has no `special_tokens.json`");
}

#[test]
fn a_clip_without_tokens_is_named_with_advice() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let mut clips = clips(&mut bench, 3);
    if let PortInput::Dataset { items, .. } = &mut clips {
        items[4].fields.remove("tokens");
    }
    let input = vec![("input", clips), ("base", artifact_of(&base))];
    let (message, help) = refusal(gather(&fish::FINETUNE, &quick(), input, &mut bench));
    assert!(
        message.starts_with("the clip `") && message.ends_with("` has no `tokens`"),
        "{message}"
    );
    assert!(help.contains("`vq.encode`"), "{help}");
}

#[test]
fn clips_and_codecs_of_another_shape_are_refused() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let input = vec![("input", clips(&mut bench, 2)), ("base", artifact_of(&base))];
    let (message, help) = refusal(gather(&fish::FINETUNE, &quick(), input, &mut bench));
    assert!(message.ends_with("its tokens have 2 codebooks, but the model has 3"), "{message}");
    assert!(help.contains("codec that the model was made for"), "{help}");
    let codec = codec(3, 32, &mut bench);
    let error = speak(&base, &codec, &["Hei."], &mut bench).unwrap_err();
    let expected = "the codec has 3 codebooks of up to 32 entries, but the model has 3 of 24";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_configuration_that_lost_the_scaling_of_codebooks_is_refused() {
    let mut bench = Bench::default();
    let scaled = base(&mut bench);
    let unscaled = edited(&scaled, artifact::CONFIG, &mut bench, |config| {
        config.replace("\"scale_codebook_embeddings\": true,", "")
    });
    let (message, help) = refusal(tune(&fish::FINETUNE, &[], &unscaled, &mut bench));
    assert!(message.starts_with("`config.json` does not say if"), "{message}");
    assert!(help.contains("\"scale_codebook_embeddings\": true"), "{help}");
}

#[test]
fn a_codec_is_no_text_model() {
    let mut bench = Bench::default();
    let mut other = base(&mut bench);
    other.set(artifact::FAMILY, Value::text(artifact::DAC));
    let (message, _) = refusal(tune(&fish::FINETUNE, &[], &other, &mut bench));
    let expected = "the artifact on port `base` is no text model of Fish Speech: it is a codec";
    assert_eq!(message, expected);
}

#[test]
fn a_pattern_that_names_no_module_and_no_length_of_training_are_refused() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let modules = [("modules", ParameterValue::List(vec![text("layers.*.nothing")]))];
    let (message, _) = refusal(tune(&fish::LORA, &modules, &base, &mut bench));
    assert!(message.starts_with("`layers.*.nothing` matches no module"), "{message}");
    let both = [("epochs", ParameterValue::Number(2.0))];
    let (message, _) = refusal(tune(&fish::FINETUNE, &both, &base, &mut bench));
    assert_eq!(message, "both `steps` and `epochs` are given");
}

/// A base with one tensor so large that gradients overflow fp16 at every loss scale.
fn overflowing(bench: &mut Bench) -> Fields {
    let mut base = base(bench);
    let name = artifact::tensor_field("output.weight");
    let weight = crate::stored::recall(base.blob(&name).unwrap(), bench).unwrap();
    let large = crate::stored::keep(&(weight * 1e6), bench).unwrap();
    base.set(name, Value::Blob(large.into()));
    base
}

#[test]
fn a_training_of_which_every_step_was_skipped_is_no_result() {
    for kind in KINDS {
        let mut bench = Bench::default();
        let base = overflowing(&mut bench);
        let half = ("precision", text("fp16"));
        let (message, help) = refusal(tune(kind, &[QUIET, half], &base, &mut bench));
        let expected = "all 4 steps were skipped, since losses or gradients were not finite in fp16: \
                        nothing was learned, and the weights are the initial ones";
        assert_eq!(message, expected);
        assert!(help.contains("`precision` to `\"bf16\"` or `\"f32\"`"), "{help}");
    }
}

#[test]
fn a_schedule_that_cannot_act_is_refused_before_the_first_step() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let idle = [("warm_up", whole(4)), ("patience", whole(3))];
    let (message, help) = refusal(tune(&fish::FINETUNE, &idle, &base, &mut bench));
    let expected = "`warm_up` takes 4 steps, but the training has 4 steps: the learning rate \
                    never reaches `learning_rate`; `patience` needs 3 validations of 2 steps \
                    each, but the training has 4 steps: it never ends early";
    assert_eq!(message, expected);
    assert!(help.contains("`warm_up = \"5%\"`"), "{help}");
    assert!(bench.metrics.is_empty() && bench.checkpoints.is_empty());
}

#[test]
fn a_training_says_what_it_will_do_before_its_first_step() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let share = [QUIET, ("warm_up", ParameterValue::Share(0.5)), ("max_length", whole(30))];
    tune(&fish::FINETUNE, &share, &base, &mut bench).unwrap();
    let course = &bench.courses[0];
    assert_eq!((course.timetable.steps, course.timetable.warm_up, course.rows_of_step), (4, 2, 2));
    let clips = course.clips;
    assert_eq!(clips.used + clips.held_out + clips.left_out, 6);
    assert!(clips.used > 0 && clips.held_out > 0 && course.rows_of_pass > 0.0, "{course:?}");
}
