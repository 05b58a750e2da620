//! The stages of the family `text`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::text::kinds;
use stage_core::{
    Context, Fields, GatherInput, GatherJob, GatherOutput, Item, ItemJob, Job, NewValue, Output,
    Parameters, PortOutput, Reject, Setup, Stage, StageError,
};
use stage_families::kinds::audit::AUDIT;
use stage_families::vits::{PHONEMES, PHONEMISE, ROMANISE};

use super::audit::{self, Audit, ClipText};
use super::characters::Kind;
use super::lost_letters;
use super::normalize::{self, Joiners, NormalText};
use super::reader::Reader;
use super::split;
use super::vocabulary::Vocabulary;
use super::written;
use crate::plain::{JSON, stage, to_json, unknown_choice};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![
        stage(&kinds::NORMALIZE, open_normalize),
        stage(&kinds::SENTENCES, split::open),
        stage(&kinds::PHONEMISE, super::phonemise::open),
        stage(&AUDIT, open_audit),
    ]
}

struct Normalize(normalize::NormalizeOptions);

fn open_normalize(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let options = normalize::NormalizeOptions {
        form: written::form(parameters)?,
        case: written::case(parameters)?,
        letters: written::letters(parameters)?,
        joiners: match parameters.text("joiners")? {
            "indic" => Joiners::Indic,
            "keep" => Joiners::Keep,
            "remove" => Joiners::Remove,
            other => return Err(unknown_choice("joiners", other)),
        },
        numbers: written::numbers(parameters)?,
        keep: kept_kinds(parameters)?,
    };
    Ok(Job::Item(Box::new(Normalize(options))))
}

fn kept_kinds(parameters: &Parameters) -> Result<Vec<Kind>, StageError> {
    let kind = |name: &str| match name {
        "quote" => Ok(Kind::Quote),
        "dash" => Ok(Kind::Dash),
        "ellipsis" => Ok(Kind::Ellipsis),
        "space" => Ok(Kind::Space),
        "invisible" => Ok(Kind::Invisible),
        "control" => Ok(Kind::Control),
        "emoji" => Ok(Kind::Emoji),
        other => Err(unknown_choice("keep", other)),
    };
    parameters.texts("keep")?.into_iter().map(kind).collect()
}

impl ItemJob for Normalize {
    fn process(
        &self,
        items: &[Item],
        _: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        Ok(items.iter().map(|item| self.one(item)).collect())
    }
}

impl Normalize {
    fn one(&self, item: &Item) -> Result<Output, Reject> {
        let Some(text) = item.fields.text("text") else {
            return Err(Reject::new("no-text", "the item has no text in the field `text`"));
        };
        let normalized = normalize::normalize(text, &self.0);
        if normalized.text.is_empty() {
            let reason = "the text is empty after normalisation";
            return Err(Reject::new("empty-text", reason));
        }
        let mut output = Output::default().with("text", NewValue::Text(normalized.text.clone()));
        notes(&normalized, &mut output);
        Ok(output)
    }
}

fn notes(normalized: &NormalText, output: &mut Output) {
    for (character, count) in &normalized.replaced {
        output.note(format!("U+{:04X} replaced", *character as u32), u64::from(*count));
    }
    let counts = [
        ("unicode form changed", u32::from(normalized.recomposed)),
        ("case changed", u32::from(normalized.recased)),
        ("numbers spelled out", normalized.numbers_spelled),
        ("digits left", normalized.digits_left),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        output.note(name, u64::from(count));
    }
}

struct AuditJob {
    /// None if a model determines it.
    reader: Option<Reader>,
    /// Of texts that do not name theirs.
    language: Option<String>,
    options: audit::AuditOptions,
    fails: Fails,
}

/// The findings that stop the run.
struct Fails {
    on_unknown: bool,
    on_lost: bool,
}

fn open_audit(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let lower_case = parameters.flag("lower_case")?;
    let vocabulary = vocabulary(&setup, context)?;
    Ok(Job::Gather(Box::new(AuditJob {
        reader: vocabulary.map(|vocabulary| Reader::Listed { vocabulary, lower_case }),
        language: if parameters.is_set("language") {
            Some(parameters.text("language")?.to_owned())
        } else {
            None
        },
        options: audit::AuditOptions {
            allow: parameters.text("allow")?.chars().collect(),
            ..audit::AuditOptions::default()
        },
        fails: Fails {
            on_unknown: fails(parameters, "on_unknown")?,
            on_lost: fails(parameters, "on_lost")?,
        },
    })))
}

fn fails(parameters: &Parameters, name: &str) -> Result<bool, StageError> {
    match parameters.text(name)? {
        "fail" => Ok(true),
        "report" => Ok(false),
        other => Err(unknown_choice(name, other)),
    }
}

fn vocabulary(setup: &Setup, context: &mut dyn Context) -> Result<Option<Vocabulary>, StageError> {
    let extra = setup.parameters.if_set("characters", Parameters::text)?.unwrap_or_default();
    let file = match setup.files.get("vocabulary") {
        Some(blob) => Some(context.read(blob)?),
        None => None,
    };
    let failed = |error: super::vocabulary::VocabularyError| StageError::failed(error.to_string());
    match file {
        Some(bytes) => Ok(Some(Vocabulary::from_bytes(&bytes).map_err(failed)?.with(extra))),
        None if extra.is_empty() => Ok(None),
        None => Vocabulary::from_text(extra).map(Some).map_err(failed),
    }
}

impl AuditJob {
    fn reader(
        &mut self,
        model: Option<&Fields>,
        context: &mut dyn Context,
    ) -> Result<Reader, StageError> {
        match (self.reader.take(), model) {
            (Some(reader), None) => Ok(reader),
            (None, Some(model)) => {
                Reader::of_model(model, self.language.take(), &mut |blob| context.read(blob))
            }
            // The kind refuses other combinations.
            _ => {
                Err(StageError::failed("expected either `model`, or `vocabulary` or `characters`"))
            }
        }
    }
}

impl GatherJob for AuditJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let reader = self.reader(input.artifact("model"), context)?;
        let items = input.items("input")?;
        context.set_aside("input", textless(items, reader.field()))?;
        let field = reader.field();
        let clips = items.iter().map(|item| ClipText {
            id: &item.id,
            text: item.fields.text(field).unwrap_or_default(),
            language: item.fields.text("language"),
        });
        let audit = audit::audit(clips, &reader, &self.options)?;
        let mut output = GatherOutput::default().with("output", report(&audit)?);
        output.notes = audit_notes(&audit);
        output.failure = self.fails.failure(&audit);
        Ok(output)
    }
}

impl Fails {
    /// The reason why no model is to be trained on the texts.
    fn failure(&self, audit: &Audit) -> Option<StageError> {
        if audit.not_romanised > 0 && self.on_unknown {
            let (texts, all) = (audit.not_romanised, audit.clips);
            return Some(StageError::with_help(
                format!(
                    "{texts} of {all} texts are not romanised, but the model reads only romanised texts"
                ),
                ROMANISE,
            ));
        }
        let gate = audit.gate().err().filter(|_| self.on_unknown);
        let unknown = gate.map(|gate| (gate.to_string(), audit::ADVICE));
        let lost = lost_letters::message(&audit.lost).filter(|_| self.on_lost);
        let lost = lost.map(|message| (message, lost_letters::ADVICE));
        let misread = audit::misread_message(&audit.misread).filter(|_| self.on_unknown);
        let misread = misread.map(|message| (message, audit::MISREAD_ADVICE));
        let all = lost.into_iter().chain(unknown).chain(misread);
        let (messages, advice): (Vec<String>, Vec<&str>) = all.unzip();
        let all = || StageError::with_help(messages.join("; "), advice.join("; "));
        (!messages.is_empty()).then(all)
    }
}

/// Items without the field that the reader reads.
fn textless(items: &[Item], field: &str) -> Vec<(usize, Reject)> {
    let reject = || match field {
        PHONEMES => Reject::new("phonemes", format!("the item has no phonemes; {PHONEMISE}")),
        _ => Reject::new("no-text", "the item has no text"),
    };
    let places = items.iter().enumerate().filter(|(_, item)| item.fields.text(field).is_none());
    places.map(|(place, _)| (place, reject())).collect()
}

fn report(audit: &Audit) -> Result<PortOutput, StageError> {
    Ok(PortOutput::Artifact(vec![
        ("report".to_owned(), NewValue::bytes(JSON, to_json(audit)?)),
        ("characters".to_owned(), NewValue::Number(audit.characters as f64)),
        ("digits".to_owned(), NewValue::Number(audit.digits as f64)),
        ("unknown".to_owned(), NewValue::Number(audit.unknown.len() as f64)),
    ]))
}

fn audit_notes(audit: &Audit) -> Vec<(String, u64)> {
    let mut notes: BTreeMap<String, u64> = BTreeMap::new();
    for unknown in &audit.unknown {
        notes.insert(format!("{} unknown", unknown.code_point), unknown.occurrences);
    }
    for lost in &audit.lost {
        notes.insert(format!("{} in place of a letter", lost.code_point), lost.occurrences);
    }
    for misread in &audit.misread {
        notes.insert(format!("`{}` read as several numbers", misread.digits), misread.occurrences);
    }
    notes.into_iter().collect()
}
