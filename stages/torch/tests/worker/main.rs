//! The worker program over its pipe: from audio to tokens and back, and the devices that it finds.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod devices;

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use cache::Digest;
use stage_core::device::DeviceId;
use stage_core::{
    Blob, Fields, GatherInput, Item, NewValue, Output, ParameterValue, Parameters, PortInput,
    PortOutput, Reject, Setup, StageError, Value,
};
use stage_families::artifact;
use stage_formats::safetensors::SafetensorsFile;
use stage_torch::{npy, wave};
use stage_worker::wire::{Answer, PROTOCOL, Question, Reply, Request, receive, send};

/// A minimal engine, as a worker sees it.
struct Engine {
    worker: Child,
    blobs: HashMap<Digest, Bytes>,
    questions: usize,
}

impl Engine {
    fn start(threads: u32) -> Engine {
        let program = env!("CARGO_BIN_EXE_throstle-torch");
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let worker = command.spawn().unwrap();
        let mut engine = Engine { worker, blobs: HashMap::new(), questions: 0 };
        let hello = Request::Hello { protocol: PROTOCOL, device: DeviceId::Cpu, threads };
        let Reply::Ready { protocol, program, kinds } = engine.ask(&hello) else {
            panic!("not ready")
        };
        assert_eq!((protocol, program.as_str()), (PROTOCOL, "throstle-torch 0.1.0"));
        let names: Vec<&str> = kinds.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[..3], ["vq.fit", "vq.encode", "vq.decode"]);
        engine
    }

    fn ask(&mut self, request: &Request) -> Reply {
        send(self.worker.stdin.as_mut().unwrap(), request).unwrap();
        loop {
            match receive(self.worker.stdout.as_mut().unwrap()).unwrap().unwrap() {
                Reply::Question(question) => {
                    self.questions += 1;
                    let answer = Request::Answer(self.answer(question));
                    send(self.worker.stdin.as_mut().unwrap(), &answer).unwrap();
                }
                Reply::Progress { done, total } => assert!(done <= total),
                reply => return reply,
            }
        }
    }

    fn answer(&self, question: Question) -> Answer {
        match question {
            Question::Read(blob) => Answer::Bytes(Ok(self.blobs[&blob.digest].clone())),
            Question::Stopping => Answer::Stopping(false),
            other => panic!("{other:?}"),
        }
    }

    fn keep(&mut self, kind: &str, bytes: Bytes) -> Blob {
        let digest = Digest::of(&bytes);
        let size = bytes.len() as u64;
        self.blobs.insert(digest, bytes);
        Blob { digest, size, kind: kind.into() }
    }

    fn item(&mut self, id: &str, field: &str, kind: &str, bytes: Bytes) -> Item {
        let blob = self.keep(kind, bytes);
        let fields: Fields = [(field, Value::Blob(blob.into()))].into_iter().collect();
        Item::new(id, fields)
    }

    fn open(&mut self, job: u32, kind: &str, setup: Setup) -> Result<(), StageError> {
        let request = Request::Open { job, kind: kind.into(), version: 1, setup };
        match self.ask(&request) {
            Reply::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    fn process(&mut self, job: u32, items: &[Item]) -> Vec<Result<Output, Reject>> {
        let blobs = items.iter().flat_map(|item| item.fields.blobs());
        let blobs = blobs.map(|blob| (blob.digest, self.blobs[&blob.digest].clone())).collect();
        match self.ask(&Request::Process { job, items: items.to_vec(), blobs }) {
            Reply::Processed(results) => results.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn fit(&mut self, clips: &[Item]) -> Setup {
        self.open(
            1,
            "vq.fit",
            setup(&[("codebooks", 3), ("entries", 16), ("clips", 9), ("frames", 900), ("seed", 1)]),
        )
        .unwrap();
        let data = PortInput::Dataset {
            stage: "clips".into(),
            items: clips.to_vec(),
            rejects: Vec::new(),
        };
        let input = GatherInput { ports: [("input".to_owned(), vec![data])].into() };
        let Reply::Gathered(Ok(output)) = self.ask(&Request::Gather { job: 1, input }) else {
            panic!("the fit failed")
        };
        let Some(PortOutput::Artifact(values)) = output.ports.get("output") else {
            panic!("no codec")
        };
        let (name, NewValue::Bytes { kind, bytes }) = &values[0] else { panic!("no codec") };
        let blob = self.keep(kind, bytes.clone());
        let fields: Fields = [(name.as_str(), Value::Blob(blob.into()))].into_iter().collect();
        Setup {
            artifacts: [("codec".to_owned(), vec![fields])].into(),
            ..setup(&[("rounds", 2), ("seed", 1)])
        }
    }

    /// The codec of the committed fixture, as from `model.import`.
    fn imported(&mut self, family: &str) -> Setup {
        let file = include_bytes!("../../fixtures/fish_dac/model.safetensors");
        let file = SafetensorsFile::read(Bytes::from_static(file)).unwrap();
        let mut fields = Fields::new();
        fields.set(artifact::FAMILY, Value::text(family));
        let config = file.metadata()["config"].clone();
        let config = self.keep(artifact::CONFIG_KIND, config.into());
        fields.set(artifact::CONFIG, Value::Blob(config.into()));
        for (name, _) in file.tensors() {
            let bytes = artifact::encode(&file.tensor(name).unwrap()).unwrap();
            let blob = self.keep(artifact::TENSOR_KIND, bytes.into());
            fields.set(artifact::tensor_field(name), Value::Blob(blob.into()));
        }
        Setup {
            artifacts: [("codec".to_owned(), vec![fields])].into(),
            ..setup(&[("rounds", 2), ("seed", 1)])
        }
    }

    fn finish(mut self) -> String {
        assert!(matches!(self.ask(&Request::Shutdown), Reply::Goodbye));
        let output = self.worker.wait_with_output().unwrap();
        assert!(output.status.success());
        assert!(output.stdout.is_empty(), "nothing but frames goes to stdout");
        String::from_utf8(output.stderr).unwrap()
    }
}

fn setup(parameters: &[(&str, i64)]) -> Setup {
    let value = |(name, value): &(&str, i64)| ((*name).to_owned(), ParameterValue::Integer(*value));
    let integers = ("integers".to_owned(), ParameterValue::Text("u16".into()));
    Setup {
        stage: "stage".into(),
        parameters: Parameters(parameters.iter().map(value).chain([integers]).collect()),
        device: DeviceId::Cpu,
        ..Setup::default()
    }
}

fn tone(number: usize) -> Bytes {
    let step = 0.02 + 0.01 * number as f32;
    let samples: Vec<f32> =
        (0..9_000 + 700 * number).map(|at| (at as f32 * step).sin() * 0.4).collect();
    wave::write(16_000, &samples).unwrap().into()
}

fn blob_of(result: &Result<Output, Reject>) -> Bytes {
    match &result.as_ref().unwrap().values[0].1 {
        NewValue::Bytes { bytes, .. } => bytes.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn from_audio_to_tokens_and_back() {
    let mut engine = Engine::start(2);
    let clips: Vec<Item> =
        (0..5).map(|at| engine.item(&format!("c{at}"), "audio", wave::KIND, tone(at))).collect();
    let with_codec = engine.fit(&clips);
    engine.open(2, "vq.encode", with_codec.clone()).unwrap();
    let together: Vec<Bytes> = engine.process(2, &clips).iter().map(blob_of).collect();
    let mut alone = Vec::new();
    for clip in clips.chunks(1) {
        alone.push(blob_of(&engine.process(2, clip)[0]));
    }
    assert_eq!(together, alone);

    let tokens: Vec<Item> = (0..5)
        .map(|at| engine.item(&format!("c{at}"), "tokens", npy::KIND, together[at].clone()))
        .collect();
    engine.open(3, "vq.decode", with_codec).unwrap();
    let decoded = engine.process(3, &tokens);
    for (at, result) in decoded.iter().enumerate() {
        let wave = wave::read(&blob_of(result)).unwrap();
        assert_eq!(wave.rate, 16_000);
        assert_eq!(wave.samples.len(), (9_000 + 700 * at).div_ceil(256) * 256);
    }
    assert_eq!(decoded[3], engine.process(3, &tokens[3..4])[0]);
    assert_eq!(engine.finish(), "");
}

#[test]
fn an_imported_fish_codec_turns_audio_to_tokens_and_back() {
    let mut engine = Engine::start(2);
    let codec = engine.imported(artifact::DAC);
    let clip = |samples: usize| {
        let samples: Vec<f32> = (0..samples).map(|at| (at as f32 * 0.3).sin() * 0.4).collect();
        wave::write(44_100, &samples).unwrap().into()
    };
    let clips: Vec<Item> = [500, 1_024, 1_025, 17]
        .map(|samples| engine.item(&format!("c{samples}"), "audio", wave::KIND, clip(samples)))
        .into();
    engine.open(2, "vq.encode", codec.clone()).unwrap();
    let encoded = engine.process(2, &clips);
    let shape = |at: usize| npy::read(&blob_of(&encoded[at])).map(|c| (c.codebooks, c.frames));
    assert_eq!([shape(0), shape(1), shape(3)].map(Result::unwrap), [(4, 32), (4, 64), (4, 2)]);
    assert_eq!(encoded[2].as_ref().unwrap_err().code, "too-long");
    let mut wide = codec.clone();
    let integers = ParameterValue::Text("i64".into());
    wide.parameters.0.insert("integers".into(), integers);
    engine.open(5, "vq.encode", wide).unwrap();
    let wide = blob_of(&engine.process(5, &clips[..1])[0]);
    assert_eq!(wide.len(), 128 + 4 * 32 * 8);
    assert_eq!(npy::read(&wide).unwrap(), npy::read(&blob_of(&encoded[0])).unwrap());
    let tokens = engine.item("c500", "tokens", npy::KIND, wide);
    engine.open(3, "vq.decode", codec).unwrap();
    let decoded = wave::read(&blob_of(&engine.process(3, &[tokens])[0])).unwrap();
    assert_eq!((decoded.rate, decoded.samples.len()), (44_100, 512));

    let text_model = engine.imported(artifact::DUAL_AR);
    let error = engine.open(4, "vq.encode", text_model).unwrap_err();
    assert_eq!(error.to_string(), "port `codec` has a model of the family `fish-dual-ar`");
    assert_eq!(engine.finish(), "");
}

#[test]
fn two_workers_with_other_threads_make_the_same_bytes() {
    let run = |threads| {
        let mut engine = Engine::start(threads);
        let clips: Vec<Item> = (0..5)
            .map(|at| engine.item(&format!("c{at}"), "audio", wave::KIND, tone(at)))
            .collect();
        let setup = engine.fit(&clips);
        engine.open(2, "vq.encode", setup).unwrap();
        let tokens: Vec<Bytes> = engine.process(2, &clips).iter().map(blob_of).collect();
        engine.finish();
        tokens
    };
    assert_eq!(run(1), run(4));
}

#[test]
fn a_damaged_codec_fails_the_stage_and_not_the_worker() {
    let mut engine = Engine::start(1);
    let blob = engine.keep("model/safetensors", Bytes::from_static(b"garbage"));
    let fields: Fields = [("model", Value::Blob(blob.into()))].into_iter().collect();
    let bad = Setup { artifacts: [("codec".to_owned(), vec![fields])].into(), ..setup(&[]) };
    let error = engine.open(1, "vq.encode", bad).unwrap_err();
    assert!(error.to_string().starts_with("the model cannot be used: "), "{error}");
    assert!(error.help().unwrap().contains("vq.fit"));
    let none = engine.open(1, "vq.encode", setup(&[])).unwrap_err();
    assert_eq!(none.to_string(), "no codec arrived on port `codec`");
    let other = engine.open(1, "vq.invent", setup(&[])).unwrap_err();
    assert_eq!(other.to_string(), "throstle-torch 0.1.0 has no stage kind `vq.invent`");
    engine.finish();
}

#[test]
fn a_closed_pipe_ends_the_worker() {
    let engine = Engine::start(1);
    let Engine { mut worker, .. } = engine;
    drop(worker.stdin.take());
    assert!(worker.wait().unwrap().success());
}

#[test]
fn check_prints_the_machine_as_json() {
    let program = env!("CARGO_BIN_EXE_throstle-torch");
    let output = Command::new(program).arg("check").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success());
    assert!(report["libtorch"].as_str().unwrap().starts_with("2.11.0"), "{report}");
    assert_eq!(report["devices"][0]["name"], "cpu");
    assert!(report["devices"][0]["memory_total"].as_u64().unwrap() > 1 << 20);
}

#[test]
fn wrong_arguments_show_the_usage() {
    let program = env!("CARGO_BIN_EXE_throstle-torch");
    let output = Command::new(program).arg("sing").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("usage: throstle-torch"));
}
