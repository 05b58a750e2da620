//! Adapters for the GPT, and their merging.

use super::*;
use stage_core::device::DeviceId;

const TAKE_LAST: (&str, &str) = ("take", "last");

fn lora(more: Written, base: &Fields, bench: &mut Bench) -> Result<Ports, StageError> {
    let items = clips(bench);
    let take = (TAKE_LAST.0, text(TAKE_LAST.1));
    tune_on(&LORA, items, &[&[take][..], more].concat(), base, bench)
}

fn merge(base: &Fields, adapters: &Fields, bench: &mut Bench) -> Result<Fields, StageError> {
    let ports = vec![("base", artifact_of(base)), ("adapters", artifact_of(adapters))];
    Ok(gather(&MERGE, &[], ports, bench)?.remove("model").unwrap())
}

#[test]
fn adapters_are_kept_alone_and_their_merge_changes_the_modules_that_have_one() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let modules = ("modules", patterns(&["gpt.gpt.h.*.attn.c_attn"]));
    let adapters = lora(&[modules], &base, &mut bench).unwrap().remove("adapters").unwrap();
    assert_eq!(adapters.text(artifact::FAMILY), Some(artifact::XTTS_LORA));
    let names: Vec<String> = contents(&adapters).into_keys().collect();
    let expected = ["0", "1"]
        .map(|at| ["A", "B"].map(|part| format!("gpt.gpt.h.{at}.attn.c_attn.lora_{part}")));
    assert_eq!(names, expected.concat());
    let merged = merge(&base, &adapters, &mut bench).unwrap();
    let expected = ["0", "1"].map(|at| format!("gpt.gpt.h.{at}.attn.c_attn.weight"));
    assert_eq!(moved(&merged, &base), expected);
    assert!(merged.text(artifact::LINEAGE).unwrap().contains("\"made_by\":\"xtts.merge\""));
}

#[test]
fn a_merged_model_has_the_loss_of_the_adapted_one() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let ports = lora(&[], &base, &mut bench).unwrap();
    let adapted = log(&ports, &mut bench)["held_out"].as_f64().unwrap();
    let merged = merge(&base, &ports["adapters"], &mut bench).unwrap();
    let still = [("learning_rate", ParameterValue::Number(0.0))];
    let ports = tune(&still, &merged, &mut bench).unwrap();
    let of_merged = log(&ports, &mut bench)["held_out"].as_f64().unwrap();
    assert!((adapted - of_merged).abs() < 1e-5, "{adapted} {of_merged}");
    let ports = tune(&still, &base, &mut bench).unwrap();
    let of_base = log(&ports, &mut bench)["held_out"].as_f64().unwrap();
    assert!((of_base - of_merged).abs() > 1e-4, "{of_base} {of_merged}");
}

#[test]
fn adapters_that_are_stopped_and_looked_at_before_are_the_same() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let straight = lora(&[], &base, &mut bench).unwrap();
    let items = clips(&mut bench);
    let items = encoded(items, &base, &mut bench);
    let take = (TAKE_LAST.0, text(TAKE_LAST.1));
    let unseen =
        tune_on(&LORA, items.clone(), std::slice::from_ref(&take), &base, &mut bench).unwrap();
    let seen = tune_on(&LORA, items, &[take, PREFLIGHT], &base, &mut bench).unwrap();
    assert_eq!(seen, unseen);
    bench.checkpoints.clear();
    bench.stop_after = Some(3);
    assert_eq!(lora(&[], &base, &mut bench).unwrap_err(), StageError::Stopped);
    bench.stop_after = Some(1_000);
    assert_eq!(lora(&[], &base, &mut bench).unwrap(), straight);
}

#[test]
fn adapters_fit_their_own_base_alone() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let adapters = lora(&[], &base, &mut bench).unwrap().remove("adapters").unwrap();
    let other = tune(&[], &base, &mut bench).unwrap().remove("model").unwrap();
    let error = merge(&other, &adapters, &mut bench).unwrap_err().to_string();
    assert!(error.starts_with("the adapters were trained on the model "), "{error}");
    let error = merge(&base, &base, &mut bench).unwrap_err();
    assert_eq!(error.help(), Some("set `adapters` to a `xtts.lora` stage"));
    // And they continue from there.
    let weights = stored::weights(&adapters, &mut bench).unwrap();
    assert!(weights.iter().any(|(_, tensor)| tensor.abs().max().double_value(&[]) > 0.0));
}

/// As `model.audition` hands out the checkpoints of `xtts.lora`.
#[test]
fn adapters_that_a_sentence_brings_speak_with_their_base() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let wild = ("learning_rate", ParameterValue::Number(0.1));
    let adapters = lora(&[wild], &base, &mut bench).unwrap().remove("adapters").unwrap();
    let merged = merge(&base, &adapters, &mut bench).unwrap();
    let clips = PortInput::Dataset {
        stage: "clips".into(),
        items: vec![clip(&mut bench, 5)],
        rejects: Vec::new(),
    };
    let ports = vec![("model", artifact_of(&base)), ("input", clips)];
    let voice = gather(&speech::VOICE, &[], ports, &mut bench).unwrap().remove("voice").unwrap();
    let mut spoken = |ports: &[(&str, &Fields)], brought: Option<&Fields>| {
        let written = [("max_codes", whole(6)), ("language", text("en"))];
        let ports = [ports, &[("voice", &voice)]].concat().into_iter();
        let setup = Setup {
            parameters: parameters(&speech::SYNTHESIZE, &written),
            artifacts: ports.map(|(port, own)| (port.to_owned(), vec![own.clone()])).collect(),
            device: DeviceId::Cpu,
            ..Setup::default()
        };
        let mut item = Item::new("", [("text", Value::text("on aika"))].into_iter().collect());
        if let Some(brought) = brought {
            item.fields.set(checkpoint::WEIGHTS, weights_of(brought, &mut bench));
        }
        let Job::Item(job) = open(&speech::SYNTHESIZE, setup, &mut bench)? else { panic!() };
        let said = job.process(&[item], &mut bench)?.remove(0).unwrap();
        Ok::<_, StageError>(bench.keep_all(said).blob("audio").unwrap().digest)
    };
    let expected = spoken(&[("model", &merged)], None).unwrap();
    assert_ne!(spoken(&[("model", &base)], None).unwrap(), expected, "adapters change the voice");
    assert_eq!(spoken(&[("model", &base)], Some(&adapters)).unwrap(), expected);
    assert_eq!(spoken(&[("model", &base), ("adapters", &adapters)], None).unwrap(), expected);
    let error = spoken(&[], Some(&adapters)).unwrap_err();
    assert!(
        error.help().unwrap().starts_with("set `model` to the base of the adapters"),
        "{error:?}"
    );
    let error = spoken(&[("model", &merged)], Some(&adapters)).unwrap_err().to_string();
    assert!(error.starts_with("the adapters were trained on the model "), "{error}");
    let error = spoken(&[("model", &base)], Some(&voice)).unwrap_err().to_string();
    assert!(error.starts_with("the artifact on port `input` is no XTTS model: "), "{error}");
}
