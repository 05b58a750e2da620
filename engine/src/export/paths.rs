//! Allowed paths of exports: below the manifest's folder, whatever links lead there, and outside
//! the cache. Links are resolved once; the folders behind them are then opened without any, so a
//! link that appears meanwhile leads nowhere.

use std::sync::Arc;

use cache::CacheError;
use cache::fs::{Fs, FsResult, confined};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Item, Value};

use crate::pipeline::{Template, TemplatePart};
use crate::store::Store;

/// The folders that bound exports.
pub struct Ground<'a> {
    fs: &'a dyn Fs,
    /// For changes below the manifest's folder.
    pub inside: Arc<dyn Fs>,
    base: &'a Utf8Path,
    /// The same with links resolved.
    real_base: Utf8PathBuf,
    real_cache: Utf8PathBuf,
}

/// The path of a folder without links, or the reason why nothing may be written or removed in it.
pub type Place = Result<Utf8PathBuf, &'static str>;

impl<'a> Ground<'a> {
    pub fn of(store: &'a Store) -> Result<Ground<'a>, CacheError> {
        let (fs, base) = (store.cache().fs(), store.base());
        let inside = confined(fs, base)?;
        let real_base = real(&**fs, base)?;
        let real_cache = real(&**fs, store.cache().dir())?;
        Ok(Ground { fs: &**fs, inside, base, real_base, real_cache })
    }

    /// Finds a folder below the manifest's: a link in the project may lead anywhere, and a name
    /// from the data may lead into the cache.
    pub fn place(&self, folder: &Utf8Path) -> FsResult<Place> {
        let real = real(self.fs, &self.base.join(folder))?;
        let is_in_cache = real.starts_with(&self.real_cache);
        Ok(match real.strip_prefix(&self.real_base) {
            Err(_) => Err("a symbolic link on its path leads outside the folder of the manifest"),
            Ok(_) if is_in_cache => Err("it is inside the cache"),
            Ok(below) if below.as_str().is_empty() => Ok(self.base.to_owned()),
            Ok(below) => Ok(self.base.join(below)),
        })
    }
}

/// The path with links resolved, as far as it exists.
pub fn real(fs: &dyn Fs, path: &Utf8Path) -> FsResult<Utf8PathBuf> {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        let here = if there.as_str().is_empty() { Utf8Path::new(".") } else { there };
        match fs.resolve(here) {
            Ok(mut real) => {
                real.extend(missing.iter().rev());
                return Ok(real);
            }
            Err(error) if !error.is_not_found() => return Err(error),
            Err(error) => match (there.parent(), there.file_name()) {
                (Some(above), Some(name)) => {
                    missing.push(name);
                    there = above;
                }
                _ => return Err(error),
            },
        }
    }
}

/// The folder that all files of an export are in.
pub fn fixed_folder(template: &Template) -> &str {
    match template.0.first() {
        Some(TemplatePart::Text(text)) => text.rsplit_once('/').map_or("", |(folder, _)| folder),
        _ => "",
    }
}

pub fn plain(template: &Template) -> String {
    let text = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => text.clone(),
        TemplatePart::Field(name) => format!("{{{name}}}"),
    };
    template.0.iter().map(text).collect()
}

/// The path of an item. A value from the data may name folders below, never above.
pub fn fill(template: &Template, item: &Item) -> Result<Utf8PathBuf, String> {
    let mut path = String::new();
    for part in &template.0 {
        match part {
            TemplatePart::Text(text) => path.push_str(text),
            TemplatePart::Field(name) if name == "id" => path.push_str(&item.id),
            TemplatePart::Field(name) => match item.fields.get(name) {
                Some(Value::Text(text)) => path.push_str(text),
                Some(Value::Number(number)) => path.push_str(&number.to_string()),
                Some(Value::Blob(blob)) => path.push_str(&blob.digest.to_string()),
                None => return Err(format!("it has no field `{name}` for the export path")),
            },
        }
    }
    let path = Utf8PathBuf::from(path);
    if is_folder(&path) {
        return Err(format!("its export path `{}` names a folder", path.as_str().escape_debug()));
    }
    if is_inside(&path) {
        return Ok(path);
    }
    let why = match (has_control(&path), has_long_name(&path)) {
        (true, _) => "has a control character",
        (false, true) => "has a name of more than 255 bytes",
        (false, false) => "leads outside the folder",
    };
    Err(format!("its export path `{}` {why}", path.as_str().escape_debug()))
}

/// Parts of a path say nothing of an empty name at its end, or of `.`.
fn is_folder(path: &Utf8Path) -> bool {
    path.as_str().ends_with('/') || path.as_str().ends_with("/.")
}

fn has_control(path: &Utf8Path) -> bool {
    path.as_str().contains(|letter: char| letter.is_control())
}

fn has_long_name(path: &Utf8Path) -> bool {
    path.components().any(|component| component.as_str().len() > 255)
}

/// Tests if a path stays below its start and can be a file name.
pub fn is_inside(path: &Utf8Path) -> bool {
    use camino::Utf8Component;
    let usual = |component| matches!(component, Utf8Component::Normal(_));
    path.components().all(usual)
        && path.components().next().is_some()
        && !has_control(path)
        && !has_long_name(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_cannot_be_used_says_why() {
        let template = Template(vec![
            TemplatePart::Text("out/".to_owned()),
            TemplatePart::Field("id".to_owned()),
            TemplatePart::Text(".txt".to_owned()),
        ]);
        let fill = |id: &str| fill(&template, &Item { id: id.into(), fields: Default::default() });
        assert_eq!(fill("a/b"), Ok("out/a/b.txt".into()));
        for (id, why) in [
            ("cr\rx", "`out/cr\\rx.txt` has a control character"),
            ("../x", "`out/../x.txt` leads outside the folder"),
            (&"x".repeat(252), "has a name of more than 255 bytes"),
        ] {
            let told = fill(id).err().unwrap_or_default();
            assert!(told.contains(why), "{told}");
        }
    }
}
