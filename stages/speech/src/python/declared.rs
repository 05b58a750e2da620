//! A Python program as the manifest describes it, and its files.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::python::kinds::SCRIPT_FILE;
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Number, Value as Json, json};
use stage_core::device::DeviceName;
use stage_core::key::{HashSink, Sink};
use stage_core::{Context, Fields, ParameterValue, Parameters, Setup, StageError};

use super::failures::of_machine;
use super::inputs::ID;
use super::messages::{FunctionForm, Hello, PROTOCOL, Reply, Request};
use super::process::{Process, ProcessFault, Start};
use crate::command::private::{INPUTS, OUTPUTS, Private, create, write};
use crate::command::room::Room;
use crate::command::run::CommandError;
use crate::command::stage::{absolute, environment, fatal};
use crate::command::{artifact, direct};

/// The package `throstle` of this program: its version is that of the engine.
const PACKAGE: [(&str, &str); 3] = [
    ("__init__.py", include_str!("../../../../python/throstle/__init__.py")),
    ("__main__.py", include_str!("../../../../python/throstle/__main__.py")),
    ("worker.py", include_str!("../../../../python/throstle/worker.py")),
];
const CODE: &str = "code";
const MODULE: &str = "module";
const ARTIFACT: &str = "artifact";
/// The parameter and port of files beside the script.
const FILES: &str = "files.";
/// The time to import packages and to load a model, if there is a limit at all.
const START: Duration = Duration::from_secs(900);

pub struct FunctionDeclaration {
    python: String,
    environment: BTreeMap<String, String>,
    script: String,
    function: Option<String>,
    form: FunctionForm,
    threads: i64,
    seed: i64,
    parameters: Json,
    version: Option<String>,
    pub fields: Vec<String>,
    pub outputs: BTreeMap<String, String>,
    pub item_outputs: BTreeMap<String, String>,
    artifact: Map<String, Json>,
    pub timeout: Option<Duration>,
    /// Holds the script, the package and the artifact.
    _folder: Private,
}

impl FunctionDeclaration {
    pub fn open(
        setup: &Setup,
        form: FunctionForm,
        context: &mut dyn Context,
    ) -> Result<FunctionDeclaration, StageError> {
        let parameters = &setup.parameters;
        let folder = Private::new(context)?;
        let base = absolute(&setup.base)?;
        lay_out_code(setup, folder.path(), context)?;
        let mut environment = python_environment(setup, folder.path())?;
        let threads = parameters.integer("threads")?;
        for name in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"] {
            environment.entry(name.to_owned()).or_insert_with(|| threads.to_string());
        }
        let artifacts = setup.artifacts.get(ARTIFACT).and_then(|all| all.first());
        let files = match artifacts {
            Some(fields) => artifact::lay_out(fields, &folder.path().join(ARTIFACT), context)?,
            None => Map::new(),
        };
        let text = |name: &str| parameters.if_set(name, Parameters::text);
        Ok(FunctionDeclaration {
            python: interpreter(text("python")?, Utf8Path::new(&base), setup)?,
            environment,
            script: folder.path().join(CODE).join(SCRIPT_FILE).into_string(),
            function: text("function")?.map(str::to_owned),
            form,
            threads,
            seed: parameters.integer("seed")?,
            parameters: match parameters.get("parameters") {
                ParameterValue::Absent => json!({}),
                value => plain(value),
            },
            version: text("version")?.map(str::to_owned),
            fields: parameters.texts("fields")?.into_iter().map(str::to_owned).collect(),
            outputs: types(parameters, "outputs")?,
            item_outputs: types(parameters, "item_outputs")?,
            artifact: files,
            timeout: setup
                .timeout_seconds
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            _folder: folder,
        })
    }

    /// The seed of an item: of the stage's seed and of what the program sees of the item, as the key
    /// is. So items with one key have one result.
    pub fn seed_of(&self, id: &str, fields: &Fields) -> u32 {
        let mut sink = HashSink::default();
        sink.integer("seed", self.seed);
        sink.text("id", id);
        for (name, value) in fields.iter().filter(|(name, _)| self.reads(name)) {
            match value {
                stage_core::Value::Text(text) => sink.text(name, text),
                stage_core::Value::Number(number) => sink.number(name, *number),
                stage_core::Value::Blob(blob) => {
                    sink.blob(name, &blob.digest, blob.size, &blob.kind);
                }
            }
        }
        first_four(sink)
    }

    pub fn reads(&self, field: &str) -> bool {
        self.fields.iter().any(|own| own == field)
    }

    /// True if the items come with their ids.
    pub fn reads_id(&self) -> bool {
        self.form == FunctionForm::All || self.reads(ID)
    }

    fn stage_seed(&self) -> u32 {
        let mut sink = HashSink::default();
        sink.integer("seed", self.seed);
        first_four(sink)
    }

    /// Starts a process and waits until it is ready.
    pub fn start(
        &self,
        device: DeviceName,
        context: &mut dyn Context,
    ) -> Result<Process, StageError> {
        let start = Start { python: &self.python, environment: &self.environment, device };
        let mut process = Process::start(&start, context)?;
        let folder = process.folder().to_owned();
        let room = Room::of(&folder, &[INPUTS, OUTPUTS]);
        process.send(&Request::Hello(Hello {
            protocols: &[PROTOCOL],
            script: &self.script,
            function: self.function.as_deref(),
            form: self.form,
            device,
            threads: self.threads,
            seed: self.stage_seed(),
            parameters: &self.parameters,
            outputs: &self.outputs,
            item_outputs: &self.item_outputs,
            artifact: &self.artifact,
        }));
        let limit = self.timeout.map(|timeout| timeout.max(START));
        let deadline = limit.map(|limit| Instant::now() + limit);
        match process.receive(0, deadline, context) {
            Ok(Reply::Ready { protocol: PROTOCOL, version, outputs, batch }) => {
                self.check(version, outputs)?;
                process.works_in_batches = batch;
                Ok(process)
            }
            Ok(Reply::Refused { reason, numbers }) => {
                Err(of_machine(&room, &reason, &numbers).unwrap_or_else(|| unable(reason)))
            }
            Ok(_) => Err(unable("it did not begin with the message `ready`".to_owned())),
            Err(ProcessFault::Broken(why)) => Err(unable(why)),
            Err(ProcessFault::Stopped) => Err(StageError::Stopped),
            Err(ProcessFault::Io(error)) => Err(StageError::of_io(
                format!("failed to talk to `{}`: {error}", self.python),
                &error,
            )),
            Err(ProcessFault::Late { said }) => Err(unable(format!(
                "it is not ready after {} s{said}",
                limit.unwrap_or(START).as_secs()
            ))),
            Err(ProcessFault::Ended(error)) => match room.judge::<()>(Err(error)) {
                Err(error @ CommandError::Failed { .. }) => {
                    Err(unable(format!("it ended before it was ready: {}", error.in_short())))
                }
                Err(error) => Err(fatal(error)),
                Ok(()) => Err(unable("it ended before it was ready".to_owned())),
            },
        }
    }

    /// The script must agree with the manifest, which has what enters keys.
    fn check(
        &self,
        version: Option<String>,
        outputs: Option<BTreeMap<String, String>>,
    ) -> Result<(), StageError> {
        if let (Some(own), Some(wanted)) = (&version, &self.version)
            && own != wanted
        {
            return Err(StageError::Unable {
                message: format!("the script has version `{own}`, but the manifest has `{wanted}`"),
                help: Some("set the same `version` in both: it is part of the key".to_owned()),
            });
        }
        match outputs {
            Some(outputs) if outputs != self.outputs => Err(StageError::Unable {
                message: format!(
                    "the script has the outputs {}, but the manifest has {}",
                    listed(&outputs),
                    listed(&self.outputs)
                ),
                help: Some("set the same `outputs` in both, or only in the manifest".to_owned()),
            }),
            _ => Ok(()),
        }
    }
}

fn first_four(sink: HashSink) -> u32 {
    let digest = sink.finish();
    let [a, b, c, d, ..] = *digest.as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn listed(outputs: &BTreeMap<String, String>) -> String {
    let each = outputs.iter().map(|(name, kind)| format!("`{name}` ({kind})"));
    each.collect::<Vec<_>>().join(", ")
}

fn unable(why: String) -> StageError {
    StageError::Unable { message: format!("the Python program cannot start: {why}"), help: None }
}

fn types(parameters: &Parameters, name: &str) -> Result<BTreeMap<String, String>, StageError> {
    let outputs = parameters.map(name)?.into_iter();
    let each = |(name, value): (&str, &ParameterValue)| match value {
        ParameterValue::Text(kind) => Ok((name.to_owned(), kind.clone())),
        _ => Err(StageError::failed(format!("the output `{name}` has no type"))),
    };
    outputs.map(each).collect()
}

/// A value as the program gets it.
fn plain(value: &ParameterValue) -> Json {
    match value {
        ParameterValue::Absent => Json::Null,
        ParameterValue::Text(text) => text.as_str().into(),
        ParameterValue::Integer(number) => (*number).into(),
        ParameterValue::Number(number)
        | ParameterValue::Seconds(number)
        | ParameterValue::Share(number) => Number::from_f64(*number).into(),
        ParameterValue::Flag(flag) => (*flag).into(),
        ParameterValue::Bytes(bytes) => (*bytes).into(),
        ParameterValue::Device(device) => device.to_string().into(),
        ParameterValue::List(values) => values.iter().map(plain).collect(),
        ParameterValue::Map(values) => {
            values.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
        }
    }
}

/// The environment of a command, and what makes Python behave the same everywhere.
fn python_environment(
    setup: &Setup,
    folder: &Utf8Path,
) -> Result<BTreeMap<String, String>, StageError> {
    let mut environment = environment(setup)?;
    for name in ["VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"] {
        if let Some(value) = setup.environment.get(name) {
            environment.entry(name.to_owned()).or_insert_with(|| value.clone());
        }
    }
    let module = folder.join(MODULE).into_string();
    let path = match environment.get("PYTHONPATH") {
        Some(more) => format!("{module}:{more}"),
        None => module,
    };
    environment.insert("PYTHONPATH".to_owned(), path);
    for (name, value) in [
        ("PYTHONHASHSEED", "0"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONUNBUFFERED", "1"),
        ("PYTHONUTF8", "1"),
    ] {
        environment.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    Ok(environment)
}

fn lay_out_code(
    setup: &Setup,
    folder: &Utf8Path,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    for (name, blob) in &setup.files {
        let beside = name.strip_prefix(FILES).unwrap_or(SCRIPT_FILE);
        let file = folder.join(CODE).join(beside);
        create(file.parent().unwrap_or(folder))?;
        artifact::copy(blob, &file, context)?;
    }
    let package = folder.join(MODULE).join("throstle");
    create(&package)?;
    PACKAGE.iter().try_for_each(|(name, text)| write(&package.join(name), text.as_bytes()))
}

fn interpreter(chosen: Option<&str>, base: &Utf8Path, setup: &Setup) -> Result<String, StageError> {
    let is_there = |path: &Utf8PathBuf| path.exists();
    let found = match chosen {
        Some(path) if path.contains('/') => Some(base.join(path)).filter(is_there),
        Some(name) => direct::find(name, &setup.environment).map(Utf8PathBuf::from),
        None => {
            let active = setup.environment.get("VIRTUAL_ENV");
            let active = active.map(|folder| Utf8Path::new(folder).join("bin/python"));
            active
                .filter(is_there)
                .or_else(|| direct::find("python3", &setup.environment).map(Utf8PathBuf::from))
        }
    };
    let name = chosen.unwrap_or("python3");
    found.map(Utf8PathBuf::into_string).ok_or_else(|| StageError::Unable {
        message: format!("the Python interpreter `{name}` was not found"),
        help: Some("install it, or set `python` to another one".to_owned()),
    })
}
