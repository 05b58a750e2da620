//! Tar files for WebDataset: the files of a sample have one name and different extensions.

use serde_json::{Map, json};

use super::output::DeliveryFile;
use super::{DeliveryFolder, DeliveryItems, FileNames, extension, plain, tar};
use crate::error::CliError;

/// The size of a file.
const MOST: u64 = 1 << 30;

/// Returns the number of files.
pub fn webdataset(set: &DeliveryItems, to: &DeliveryFolder) -> Result<usize, CliError> {
    let (mut names, mut files) = (FileNames::default(), 0);
    let mut open: Option<DeliveryFile> = None;
    for item in set.rows {
        let name = names.of(&item.id);
        let mut rest = Map::new();
        rest.insert("id".to_owned(), json!(&*item.id));
        let mut entries = Vec::new();
        for (field, value) in set.values(item) {
            match value.as_blob() {
                Some(blob) => {
                    let bytes = set.read(blob)?;
                    let field = FileNames::default().of(field);
                    let path = format!("{name}.{field}.{}", extension(&blob.kind, &bytes));
                    entries.push((path, bytes));
                }
                None => drop(rest.insert(field.to_owned(), plain(value).unwrap_or_default())),
            }
        }
        let rest = serde_json::Value::Object(rest).to_string();
        entries.push((format!("{name}.json"), rest.into()));
        let weight: u64 = entries.iter().map(|(path, bytes)| tar::size(path, bytes.len())).sum();
        let is_full = |file: &DeliveryFile| file.size() > 0 && file.size() + weight > MOST;
        if let Some(mut full) = open.take_if(|file| is_full(file)) {
            tar::end(&mut full)?;
            full.finish()?;
        }
        let output = match &mut open {
            Some(output) => output,
            none => {
                files += 1;
                none.insert(DeliveryFile::new(to, &format!("{:06}.tar", files - 1))?)
            }
        };
        for (path, bytes) in &entries {
            tar::entry(output, path, bytes)?;
        }
    }
    if let Some(mut last) = open {
        tar::end(&mut last)?;
        last.finish()?;
    }
    Ok(files)
}
