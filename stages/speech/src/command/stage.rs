//! The stages of the family `command`.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::command::kinds;
use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::output_types::is_folder;
use stage_core::{
    Context, EachItem, Fields, Item, Job, NewValue, Output, ParameterValue, Parameters, Reject,
    Setup, Stage, StageError, Value,
};

use super::answers::of_output;
use super::inputs::{lay_out, safe_name};
use super::once;
use super::private::{INPUTS, OUTPUTS, Private, create, write};
use super::room::Room;
use super::run::{CommandError, CommandSpec, ProgramOutput, check_programs, run};
use super::template::{CommandLine, Template, TemplateError};
use crate::corpus::path;
use crate::plain::{stage, unknown_choice};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![stage(&kinds::COMMAND, open_each), stage(&kinds::ONCE, once::open)]
}

/// A command as the manifest describes it.
pub(crate) struct CommandDeclaration {
    /// As it is written.
    line: String,
    template: Template,
    pub(super) fields: Vec<String>,
    /// Name of the field, and file name below the folder of the outputs.
    outputs: Vec<(String, Utf8PathBuf)>,
    /// The outputs that become texts.
    texts: Vec<String>,
    script: Option<Bytes>,
    environment: BTreeMap<String, String>,
    timeout: Option<Duration>,
    base: String,
}

/// The outputs of a command.
pub(crate) struct CommandOutputs {
    pub(crate) values: Vec<(String, NewValue)>,
    /// See [`ProgramOutput::is_over`].
    pub(crate) is_over: bool,
}

/// Files of the private folder. The command line is kept for a replay.
const SCRIPT: &str = "script";
const LINE: &str = "line.sh";

/// The time limit for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);

impl CommandDeclaration {
    /// `more` names placeholders that only this kind of command has.
    pub(super) fn open(
        setup: &Setup,
        more: &[&str],
        context: &mut dyn Context,
    ) -> Result<CommandDeclaration, StageError> {
        let parameters = &setup.parameters;
        let script = match setup.files.get(SCRIPT) {
            Some(blob) => Some(context.read(blob)?),
            None => None,
        };
        let fields = parameters.texts("fields")?.into_iter().map(str::to_owned).collect();
        let (outputs, texts) = (outputs(parameters)?, texts(parameters)?);
        let line = CommandDeclaration::line(setup)?;
        let declared = CommandDeclaration { fields, outputs, texts, script, ..line };
        declared.checked(parameters, more, context)
    }

    /// A line without declared fields, and with one output: its name and its file.
    pub(crate) fn of_line(
        setup: &Setup,
        (output, file): (&str, &str),
        more: &[&str],
        context: &mut dyn Context,
    ) -> Result<CommandDeclaration, StageError> {
        let outputs = vec![(output.to_owned(), Utf8PathBuf::from(file))];
        let declared = CommandDeclaration { outputs, ..CommandDeclaration::line(setup)? };
        declared.checked(&setup.parameters, more, context)
    }

    fn line(setup: &Setup) -> Result<CommandDeclaration, StageError> {
        Ok(CommandDeclaration {
            line: setup.parameters.text("command")?.to_owned(),
            template: Template::default(),
            fields: Vec::new(),
            outputs: Vec::new(),
            texts: Vec::new(),
            script: None,
            environment: environment(setup)?,
            timeout: setup
                .timeout_seconds
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            base: absolute(&setup.base)?,
        })
    }

    /// Finds mistakes before the first item.
    fn checked(
        mut self,
        parameters: &Parameters,
        more: &[&str],
        context: &mut dyn Context,
    ) -> Result<CommandDeclaration, StageError> {
        let folder = Private::new(context)?;
        self.template = self.parsed(more, folder.path())?;
        check_programs(&self.line_at_base(), folder.path(), &self.environment).map_err(fatal)?;
        if parameters.is_set("version_command") {
            self.check_version(parameters, folder.path(), context)?
        } else {
            // For the first item.
            folder.give_back()
        }
        Ok(self)
    }

    /// The line with the folder of the manifest filled in, to look for its programs.
    fn line_at_base(&self) -> String {
        match shlex::try_quote(&self.base) {
            Ok(base) if !base.contains(['{', '}']) => self.line.replace("{base}", &base),
            _ => self.line.clone(),
        }
    }

    /// The line, in which every placeholder must have a value before the first item is processed.
    fn parsed(&self, more: &[&str], folder: &Utf8Path) -> Result<Template, StageError> {
        let failed = |error: TemplateError| StageError::failed(error.to_string());
        let mut values: BTreeMap<String, String> = self.places(folder);
        values.extend(more.iter().map(|name| ((*name).to_owned(), folder.to_string())));
        // A field may have the name of a path.
        let is_own = |name: &str| {
            values.contains_key(name) && !self.fields.iter().any(|field| field == name)
        };
        let template = Template::parse(&self.line, is_own).map_err(failed)?;
        values.extend(self.fields.iter().map(|name| (name.clone(), String::new())));
        template.fill(&values).map_err(failed)?;
        Ok(template)
    }

    fn check_version(
        &self,
        parameters: &Parameters,
        folder: &Utf8Path,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let line = parameters.text("version_command")?;
        let spec = CommandSpec {
            line: CommandLine::plain(line),
            folder,
            environment: self.environment.clone(),
            outputs: Vec::new(),
            timeout: Some(VERSION_TIMEOUT),
            inputs: None,
            said: None,
        };
        let judged = Room::of(folder, &[]).judge(run(&spec, || context.stopping()));
        let finished = judged.map_err(|error| match error {
            // This is not the limit of the stage.
            CommandError::Timeout { .. } => {
                StageError::failed(format!("`version_command`: {error}"))
            }
            error => fatal(error),
        })?;
        let said = format!("{}{}", finished.stdout, finished.stderr);
        let wanted = if parameters.is_set("version") { parameters.text("version")? } else { "" };
        if said.contains(wanted) {
            Ok(())
        } else {
            Err(StageError::with_help(
                format!("`{line}` printed `{}`, expected `{wanted}`", said.trim()),
                "install that version, or set `version` to the new one, which runs the stage again",
            ))
        }
    }

    /// Placeholders that do not depend on the item.
    pub(crate) fn places(&self, folder: &Utf8Path) -> BTreeMap<String, String> {
        let mut places: BTreeMap<String, String> = BTreeMap::new();
        places.insert("base".to_owned(), self.base.clone());
        if self.script.is_some() {
            places.insert(SCRIPT.to_owned(), folder.join(SCRIPT).into_string());
        }
        for (name, file) in &self.outputs {
            places.insert(format!("out.{name}"), folder.join(OUTPUTS).join(file).into_string());
        }
        places
    }

    pub(crate) fn prepare(&self, folder: &Utf8Path) -> Result<(), StageError> {
        let parents = self.outputs.iter().filter_map(|(_, file)| file.parent());
        for parent in parents.filter(|parent| !parent.as_str().is_empty()) {
            create(&folder.join(OUTPUTS).join(parent))?;
        }
        match &self.script {
            Some(script) => write(&folder.join(SCRIPT), script),
            None => Ok(()),
        }
    }

    pub(crate) fn make(
        &self,
        folder: &Utf8Path,
        places: &BTreeMap<String, String>,
        context: &mut dyn Context,
    ) -> Result<CommandOutputs, CommandError> {
        let room = Room::of(folder, &[INPUTS, OUTPUTS]);
        let finished = self.run(folder, places, None, context);
        room.judge(finished.and_then(|finished| self.made(finished)))
    }

    pub(super) fn run(
        &self,
        folder: &Utf8Path,
        places: &BTreeMap<String, String>,
        inputs: Option<&Utf8Path>,
        context: &mut dyn Context,
    ) -> Result<ProgramOutput, CommandError> {
        let line = self.template.fill(places).map_err(CommandError::Line)?;
        let mut environment = self.environment.clone();
        environment.insert("TMPDIR".to_owned(), folder.as_str().to_owned());
        let outputs = self.outputs.iter().map(|(_, file)| Utf8Path::new(OUTPUTS).join(file));
        let spec = CommandSpec {
            line,
            folder,
            environment,
            outputs: outputs.collect(),
            timeout: self.timeout,
            inputs,
            said: context.kept().is_some().then_some(folder),
        };
        if spec.said.is_some() {
            let path = folder.join(LINE);
            let failed = |error| CommandError::Io { action: "write", path: path.clone(), error };
            fs::write(&path, spec.line.script()).map_err(failed)?;
        }
        run(&spec, || context.stopping())
    }

    pub(super) fn made(&self, finished: ProgramOutput) -> Result<CommandOutputs, CommandError> {
        let outputs = self.outputs.iter().zip(finished.outputs);
        let value = |((name, file), bytes): (&(String, Utf8PathBuf), Bytes)| {
            Ok((name.clone(), self.value(name, file, bytes)?))
        };
        let values = outputs.map(value).collect::<Result<_, CommandError>>()?;
        Ok(CommandOutputs { values, is_over: finished.is_over })
    }

    /// A line of text: tools end it with a line break that is not part of it.
    fn value(&self, name: &str, file: &Utf8Path, bytes: Bytes) -> Result<NewValue, CommandError> {
        if !self.texts.iter().any(|text| text == name) {
            let kind = format!("file/{}", file.extension().unwrap_or("unknown"));
            return Ok(NewValue::bytes(kind, bytes));
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(NewValue::Text(text.trim_end_matches(['\r', '\n']).to_owned())),
            Err(_) => Err(CommandError::NotText { path: file.to_owned() }),
        }
    }
}

/// The command runs in another folder, where a relative path would lead elsewhere.
pub(crate) fn absolute(base: &str) -> Result<String, StageError> {
    let base = if base.is_empty() { "." } else { base };
    let failed = |why: String| {
        StageError::failed(format!(
            "the folder of the manifest, `{base}`, cannot be used in a command: {why}"
        ))
    };
    let absolute = std::path::absolute(base).map_err(|error| failed(error.to_string()))?;
    absolute.into_os_string().into_string().map_err(|_| failed("its path is not UTF-8".to_owned()))
}

/// The outputs that are files.
fn outputs(parameters: &Parameters) -> Result<Vec<(String, Utf8PathBuf)>, StageError> {
    let mut outputs = Vec::new();
    for (name, value) in parameters.map("outputs")? {
        let ParameterValue::Text(file) = value else {
            return Err(StageError::failed(format!("the output `{name}` has no file name")));
        };
        if is_folder(file) {
            continue;
        }
        let file = path::relative(file).map_err(|problem| {
            let problem = of_output(&problem);
            StageError::failed(format!("the output `{name}` cannot be used: its path {problem}"))
        })?;
        if outputs.iter().any(|(_, other)| *other == file) {
            return Err(StageError::failed(format!("two outputs have the file `{file}`")));
        }
        outputs.push((name.to_owned(), Utf8PathBuf::from(file)));
    }
    Ok(outputs)
}

/// The outputs that become texts.
fn texts(parameters: &Parameters) -> Result<Vec<String>, StageError> {
    let (texts, outputs) = (parameters.texts("texts")?, parameters.map("outputs")?);
    if let Some(unknown) = texts.iter().find(|text| !outputs.contains_key(**text)) {
        let message = format!("`texts` names `{unknown}`, which is not in `outputs`");
        return Err(StageError::failed(message));
    }
    Ok(texts.into_iter().map(str::to_owned).collect())
}

/// The variables of the caller that programs see.
const SEEN: [&str; 2] = ["PATH", "HOME"];

/// The environment of the command: the paths of programs and the user's packages, a fixed language
/// and time zone, and declared variables.
pub(crate) fn environment(setup: &Setup) -> Result<BTreeMap<String, String>, StageError> {
    let mut environment = setup.environment.clone();
    environment.retain(|name, _| SEEN.contains(&name.as_str()));
    environment.insert("LC_ALL".to_owned(), "C.UTF-8".to_owned());
    environment.insert("TZ".to_owned(), "UTC".to_owned());
    for (name, value) in setup.parameters.map("environment")? {
        let ParameterValue::Text(value) = value else {
            return Err(StageError::failed(format!("the variable `{name}` is not a text")));
        };
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(StageError::failed(format!("the variable `{name}` cannot be set")));
        }
        environment.insert(name.to_owned(), value.clone());
    }
    Ok(environment)
}

/// An error of a command that concerns the whole stage.
pub(crate) fn fatal(error: CommandError) -> StageError {
    let message = error.to_string();
    match &error {
        CommandError::Stopped => StageError::Stopped,
        CommandError::NoRoom { .. } => StageError::NoSpace { message },
        CommandError::NoProcess { .. } => StageError::Machine { message },
        // Nothing but a text speaks of that disk, and it may quote the input.
        CommandError::NoRoomElsewhere { .. }
        | CommandError::Killed { .. }
        | CommandError::LittleRoom { .. }
        | CommandError::Machine { .. } => StageError::Transient { message },
        CommandError::Start(error) | CommandError::Io { error, .. } => {
            StageError::of_io(message, error)
        }
        CommandError::Timeout { seconds, end } => {
            StageError::TimedOut { seconds: seconds.to_string(), said: end.to_string() }
        }
        CommandError::NotFound { .. } => unable(&error),
        _ => StageError::failed(message),
    }
}

fn unable(error: &CommandError) -> StageError {
    StageError::Unable { message: error.to_string(), help: None }
}

/// Runs the command for each item.
struct ItemCommand {
    declared: CommandDeclaration,
    rejects: bool,
}

fn open_each(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let rejects = match setup.parameters.text("on_failure")? {
        "reject" | "reject-all" => true,
        "fail" => false,
        other => return Err(unknown_choice("on_failure", other)),
    };
    Ok(Job::Item(Box::new(ItemCommand {
        declared: CommandDeclaration::open(&setup, &[], context)?,
        rejects,
    })))
}

impl EachItem for ItemCommand {
    fn one(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<Output, Reject>, StageError> {
        let private = Private::new(context)?;
        let folder = private.path();
        self.declared.prepare(folder)?;
        let mut places = self.declared.places(folder);
        for name in &self.declared.fields {
            match place(&item.fields, name, &folder.join(INPUTS).join(safe_name(name)), context)? {
                Some(value) => places.insert(name.clone(), value),
                None => {
                    let reason = format!("the item has no field `{name}`, which the command reads");
                    return Ok(Err(Reject::new("no-field", reason)));
                }
            };
        }
        match self.declared.make(folder, &places, context) {
            Ok(made) => {
                if made.is_over {
                    private.give_back();
                }
                Ok(Ok(Output { values: made.values, notes: Vec::new() }))
            }
            Err(error) => match error.reject_code() {
                Some(code) if self.rejects => Ok(Err(Reject::new(code, error.to_string()))),
                Some(_) => Err(unable(&error)),
                None => Err(fatal(error)),
            },
        }
    }
}

/// The value of a field for the command line; bytes become a file.
fn place(
    fields: &Fields,
    name: &str,
    file: &Utf8Path,
    context: &mut dyn Context,
) -> Result<Option<String>, StageError> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.to_string())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::Blob(blob)) => {
            let bytes = context.read(blob)?;
            lay_out(file, &blob.kind, &bytes).map(|file| Some(file.into_string()))
        }
    }
}
