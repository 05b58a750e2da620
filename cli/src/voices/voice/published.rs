//! Published files as a pipeline of their own, which imports them once.

use std::collections::BTreeSet;

use cache::fs::{Confined, Fs, RealFs};
use cache::{Access, Cache, Digest};
use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::RunOptions;
use engine::event::{Status, Verdict};
use engine::manifest::FILE_NAME as MANIFEST;
use engine::pipeline::StageId;
use stage_families::speech::{PublishedFiles, ReferenceClip, SPEECH, SpeechGap, SpeechNeed};
use stage_formats::weights::GRAPH_ENDING;
use stage_speech::model::published_model;
use std::sync::Arc;
use view::Reporter;
use view::lines::Lines;
use view::paint::Paint;

use crate::arguments::VoiceOptions;
use crate::error::CliError;
use crate::project::{CACHE, Program, Project};
use crate::setup::init::new_folder;

const TABLE: &str = "reference.jsonl";

/// A pipeline that speaks with the files of a folder, or with one graph in it, and its stage that does. Its folder is in the
/// user's cache, and the model is imported there.
pub fn project(
    program: &Program,
    path: &Utf8Path,
    options: &VoiceOptions,
) -> Result<(Project, String), CliError> {
    let absolute_path = absolute(path)?;
    let (folder, file) = match (is_graph(path), absolute_path.parent()) {
        (true, Some(parent)) => (parent, absolute_path.file_name()),
        _ => (&*absolute_path, None),
    };
    let model = published_model(folder, file)
        .map_err(|error| CliError::usage(format!("`{path}`: {error}"), HELP))?;
    let mut published = PublishedFiles {
        folder: folder.to_string(),
        file: file.map(str::to_owned),
        reads_phonemes: model.reads_phonemes,
        codec: options.codec.as_deref().map(absolute).transpose()?.map(Utf8PathBuf::into_string),
        reference: None,
        speaker: options.speaker.clone(),
        language: options.language.clone(),
    };
    let reference = options.reference.as_deref().map(absolute).transpose()?;
    let home = home(&published, reference.as_deref(), options)?;
    let inside = new_folder(&home)?;
    if let Some(file) = reference {
        published.reference = Some(clip(&inside, &home, &file, options.reference_text.as_deref())?);
    }
    let manifest = model.family.speech(&published).map_err(|gap| unspoken(&gap))?;
    inside.write_durably(&home.join(MANIFEST), manifest.as_bytes())?;
    let mut settings = options.settings.clone();
    // All speakers and languages of a folder share its import.
    settings.cache = settings.cache.or_else(|| Some(home.parent()?.join(CACHE)));
    let project = program.load(&home, &settings)?;
    import(program, &project, options)?;
    Ok((project, SPEECH.to_owned()))
}

/// Tests if a path is one of a graph, which is a voice by itself.
pub fn is_graph(path: &Utf8Path) -> bool {
    path.extension() == Some(GRAPH_ENDING)
}

const HELP: &str = "name a folder of `model.export` or of published weights, or `PIPELINE:STAGE`";

/// Files that cannot speak, with all options that they need.
fn unspoken(gap: &SpeechGap) -> CliError {
    let option = |need: &SpeechNeed| match need {
        SpeechNeed::Reference => "`--reference FILE` or `--speaker NAME`",
        SpeechNeed::Language => "`--language CODE`",
    };
    let options: Vec<&str> = gap.needs.iter().map(option).collect();
    let help = (!options.is_empty()).then(|| format!("add {}", options.join(", and ")));
    CliError::Usage { message: gap.reason.clone(), help }
}

/// The folder of a pipeline for these files: the same for the same files, and in that of their model.
fn home(
    published: &PublishedFiles,
    reference: Option<&Utf8Path>,
    options: &VoiceOptions,
) -> Result<Utf8PathBuf, CliError> {
    let short = |said: String| Digest::of(said.as_bytes()).short();
    let model = match &published.file {
        None => short(format!("{} {:?}", published.folder, published.codec)),
        Some(file) => short(format!("{}/{file} {:?}", published.folder, published.codec)),
    };
    let voice = short(format!("{published:?} {reference:?} {:?}", options.reference_text));
    Ok(user_cache()?.join("voices").join(model).join(voice))
}

/// The folder for what is made once of files that are no pipeline.
pub fn user_cache() -> Result<Utf8PathBuf, CliError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(Utf8PathBuf::from);
    let cache = cache.or_else(|| Some(Utf8PathBuf::from(variable("HOME")?).join(".cache")));
    let cache = cache.ok_or_else(|| {
        CliError::failed("no folder for the imported model", "set `XDG_CACHE_HOME`")
    })?;
    Ok(cache.join("throstle"))
}

/// A corpus of one recording.
fn clip(
    inside: &Confined,
    home: &Utf8Path,
    file: &Utf8Path,
    text: Option<&str>,
) -> Result<ReferenceClip, CliError> {
    let no_file = || CliError::usage(format!("`{file}` is not a file"), "name an audio file");
    let (folder, name) =
        (file.parent().ok_or_else(no_file)?, file.file_name().ok_or_else(no_file)?);
    let row = serde_json::json!({
        "id": "reference", "audio_filepath": name, "text": text.unwrap_or("-"),
    });
    inside.write_durably(&home.join(TABLE), format!("{row}\n").as_bytes())?;
    Ok(ReferenceClip { table: TABLE.to_owned(), audio: folder.to_string() })
}

fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf, CliError> {
    Ok(RealFs.resolve(path)?)
}

/// Brings everything that the speaking stage needs up to date.
fn import(program: &Program, project: &Project, options: &VoiceOptions) -> Result<(), CliError> {
    let spec = project.stage(SPEECH)?;
    let cache = Cache::open(&project.cache_folder, Arc::new(RealFs), Access::ReadWrite)?;
    let engine = program.engine(options.threads, false);
    let targets: BTreeSet<StageId> = spec.upstream().collect();
    let targets: Vec<StageId> = targets.into_iter().collect();
    let plan = engine.plan(&project.pipeline, &cache, &targets, &mut |_| {})?;
    let is_fresh = |id: &StageId| plan.stage(*id).verdict == Verdict::Fresh;
    if targets.iter().all(is_fresh) {
        return Ok(());
    }
    program.tell("importing the model, once");
    let mut log = Lines::new(Vec::new(), Paint::default());
    let run = RunOptions { targets, ..RunOptions::default() };
    let status = engine.run(&project.pipeline, &cache, &run, &mut |event| {
        // The log is in memory.
        let _ = log.event(&event);
    })?;
    match status {
        Status::Done => Ok(()),
        Status::Failed | Status::Paused => {
            program.tell(String::from_utf8_lossy(log.output()).trim_end());
            let help = format!(
                "see the messages above; `throstle run {}` tries again",
                project.pipeline.base
            );
            Err(CliError::failed("cannot import the files", help))
        }
    }
}
