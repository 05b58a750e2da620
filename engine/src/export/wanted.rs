//! The files that an export wants, by path.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Blob, Fields, Item, StageError, Value};

use super::paths::{fill, is_inside, plain};
use super::{ExportCounts, One};
use crate::error::EngineError;
use crate::plan::PlannedValue;
use crate::record::{ExportRecord, LeftOut, PortValue};
use crate::store::ReadError;

impl One<'_> {
    /// The files to write, by path; None if a list of them is lost, or the output lacks the field.
    pub fn wanted(
        &self,
        now: &mut ExportRecord,
        done: &mut ExportCounts,
    ) -> Result<Option<BTreeMap<Utf8PathBuf, Blob>>, EngineError> {
        let wanted = match self.targets(now, done) {
            Ok(wanted) => wanted,
            Err(ReadError::Lost(digest)) => {
                done.lost.push(digest);
                return Ok(None);
            }
            Err(ReadError::Cache(error)) => return Err(error.into()),
            Err(error) => {
                let (stage, error) =
                    (self.spec.name.clone(), StageError::failed(error.to_string()));
                return Err(EngineError::Stage { stage, error });
            }
        };
        if let (Some(field), PortValue::Artifact(fields)) = (&self.export.field, &now.value) {
            match fields.get(field) {
                Some(value) if value.as_blob().is_none() => {
                    let why = no_file(field, value);
                    done.problems.push(format!("the output cannot be exported: {why}"));
                }
                Some(_) => {}
                None => {
                    let names: Vec<String> =
                        fields.iter().map(|(name, _)| format!("`{name}`")).collect();
                    done.lacks_field = Some(names.join(", "));
                    return Ok(None);
                }
            }
        }
        now.left_out = done.left_out.clone();
        if let Some(left_out) = self.too_many_left_out(now) {
            done.problems.push(left_out.to_string());
            done.left_out = None;
        }
        Ok(Some(wanted))
    }

    /// Items without a path count like quarantined items.
    fn too_many_left_out<'r>(&self, now: &'r ExportRecord) -> Option<&'r LeftOut> {
        let limit = self.spec.policy.quarantine;
        now.left_out.as_ref().filter(|left_out| limit.is_exceeded(left_out.items, left_out.of))
    }

    /// The files to write, by path.
    pub fn targets(
        &self,
        record: &ExportRecord,
        done: &mut ExportCounts,
    ) -> Result<BTreeMap<Utf8PathBuf, Blob>, ReadError> {
        let mut targets = BTreeMap::new();
        match &record.value {
            PortValue::Artifact(fields) => {
                let path = self.artifact_targets(fields, &mut targets, done);
                self.add_licenses(path, &record.licenses, &mut targets)?;
            }
            PortValue::Dataset { root, items } => {
                for bucket in self.store.dataset(root)?.buckets {
                    for item in self.store.chunk(&bucket.chunk)?.items {
                        self.item_target(&item, *items, &mut targets, done);
                    }
                }
            }
        }
        Ok(targets)
    }

    fn item_target(
        &self,
        item: &Item,
        of: u64,
        targets: &mut BTreeMap<Utf8PathBuf, Blob>,
        done: &mut ExportCounts,
    ) {
        let Some(name) = &self.export.field else { return };
        done.items.0 += 1;
        let Some(value) = item.fields.get(name) else { return };
        done.items.1 += 1;
        let Some(blob) = value.as_blob() else {
            let why = no_file(name, value);
            return LeftOut::note(&mut done.left_out, of, &item.id, &why);
        };
        let path = match fill(&self.export.template, item) {
            Ok(path) => path,
            Err(why) => return LeftOut::note(&mut done.left_out, of, &item.id, &why),
        };
        if targets.insert(path.clone(), Blob::clone(blob)).is_some() {
            done.problems.push(format!("two items would be exported to `{path}`"));
        }
    }

    /// One blob goes to the path itself, several go into a folder of that name. Returns the path
    /// for messages.
    fn artifact_targets(
        &self,
        fields: &Fields,
        targets: &mut BTreeMap<Utf8PathBuf, Blob>,
        done: &mut ExportCounts,
    ) -> Utf8PathBuf {
        let path = Utf8PathBuf::from(plain(&self.export.template));
        let blobs: Vec<(&str, &Blob)> = fields
            .iter()
            .filter(|(name, _)| self.export.field.as_deref().is_none_or(|own| own == &***name))
            .filter_map(|(name, value)| Some((&**name, &**value.as_blob()?)))
            .collect();
        match blobs.as_slice() {
            [(_, blob)] => {
                targets.insert(path.clone(), Blob::clone(blob));
                Utf8PathBuf::from(format!("{path}.license"))
            }
            several => {
                for (name, blob) in several {
                    if is_inside(Utf8Path::new(name)) {
                        targets.insert(path.join(name), Blob::clone(blob));
                    } else {
                        done.problems.push(format!(
                            "cannot export the file `{}` to `{path}`: its name has a control \
                             character, is too long, or leads outside the folder; give it another one",
                            name.escape_debug()
                        ));
                    }
                }
                path.join("LICENSE.txt")
            }
        }
    }

    /// Licences of all assets that an artifact derives from are written beside it.
    fn add_licenses(
        &self,
        path: Utf8PathBuf,
        licenses: &BTreeSet<String>,
        targets: &mut BTreeMap<Utf8PathBuf, Blob>,
    ) -> Result<(), ReadError> {
        if licenses.is_empty() || targets.is_empty() || targets.contains_key(&path) {
            return Ok(());
        }
        let names: Vec<&str> = licenses.iter().map(String::as_str).collect();
        let text = format!("Derived from works under these licences:\n{}\n", names.join("\n"));
        let size = text.len() as u64;
        let digest = self.store.put(text.into()).map_err(ReadError::Cache)?;
        targets.insert(path, Blob { digest, size, kind: "text/plain".into() });
        Ok(())
    }
}

/// The reason why the value of a field cannot be exported.
fn no_file(field: &str, value: &Value) -> String {
    let kind = if matches!(value, Value::Number(_)) { "a number" } else { "a text" };
    format!("`{field}` is {kind}, but only files can be exported; `throstle items` prints it")
}

pub fn exportable(value: &PlannedValue) -> Option<PortValue> {
    match value {
        PlannedValue::Root { root, items } => {
            Some(PortValue::Dataset { root: *root, items: *items })
        }
        PlannedValue::Artifact(fields) => Some(PortValue::Artifact(fields.clone())),
        PlannedValue::Partial(_) | PlannedValue::Unknown => None,
    }
}
