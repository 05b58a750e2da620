//! Items as a table, JSON lines, CSV or Parquet.

mod parquet;

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;

use engine::units;
use serde_json::{Map, json};
use stage_core::{Item, Value};

use super::escape::{clean, fit, wrap};
use super::table::Table;

/// The heading of the ids.
pub const ID: &str = "id";

/// The largest width of a value in a table.
const COLUMNS: usize = 48;

/// The formats of a list of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns for reading; long values are cut.
    Table,
    /// One JSON object a line.
    #[value(name = "jsonl")]
    JsonLines,
    /// Comma-separated values with a heading.
    Csv,
    /// A Parquet file.
    Parquet,
}

/// The fields that a table begins with: what a person tells items apart by.
const FIRST: [&str; 3] = ["text", "speaker", "seconds"];

/// Rows, and their shown fields in order.
pub struct Listing {
    pub rows: Vec<Item>,
    pub fields: Vec<Arc<str>>,
    /// A person has chosen the fields and their order.
    is_chosen: bool,
}

/// A field that no row has.
#[derive(Debug, thiserror::Error)]
#[error("no item has a field `{field}`")]
pub struct UnknownField {
    pub field: String,
    /// Those that there are.
    pub known: Vec<Arc<str>>,
}

impl Listing {
    /// All fields of any row, or the chosen ones; an unknown one is an error. The id is always
    /// shown first, and may be chosen alone.
    pub fn new(mut rows: Vec<Item>, chosen: &[String]) -> Result<Listing, UnknownField> {
        in_order_of_time(&mut rows);
        let names: BTreeSet<Arc<str>> =
            rows.iter().flat_map(|row| row.fields.iter().map(|(name, _)| name.clone())).collect();
        if chosen.is_empty() {
            let fields = names.into_iter().collect();
            return Ok(Listing { rows, fields, is_chosen: false });
        }
        // An item may have a field of that name too.
        let is_id = |field: &String| field == ID && !names.contains(ID);
        let chosen: Vec<&String> = chosen.iter().filter(|field| !is_id(field)).collect();
        let unknown = |field: &&&String| !rows.is_empty() && !names.contains(field.as_str());
        match chosen.iter().find(unknown) {
            Some(field) => {
                Err(UnknownField { field: (*field).clone(), known: names.into_iter().collect() })
            }
            None => Ok(Listing {
                rows,
                fields: chosen.iter().map(|name| name.as_str().into()).collect(),
                is_chosen: true,
            }),
        }
    }

    /// The columns of a table.
    fn columns(&self) -> Vec<&Arc<str>> {
        let mut columns: Vec<&Arc<str>> = self.fields.iter().collect();
        if !self.is_chosen {
            let place = |name: &&Arc<str>| FIRST.iter().position(|first| *first == &***name);
            columns.sort_by_key(|name| place(name).unwrap_or(FIRST.len()));
        }
        columns
    }
}

/// Parts of recordings come in the order of time, other items by their ids, which they have already.
fn in_order_of_time(rows: &mut [Item]) {
    let start = |item: &Item| item.fields.number("start").filter(|start| start.is_finite());
    let is_part = |item: &Item| item.fields.text("recording").is_some() && start(item).is_some();
    if rows.iter().all(is_part) {
        rows.sort_by(|one, other| {
            let recordings = one.fields.text("recording").cmp(&other.fields.text("recording"));
            recordings
                .then_with(|| start(one).unwrap_or(0.0).total_cmp(&start(other).unwrap_or(0.0)))
        });
    }
}

/// The listing in that format; a table in this number of columns.
pub fn render(
    listing: &Listing,
    format: Format,
    columns: Option<usize>,
) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    Ok(match format {
        Format::Table => table(listing, columns).into_bytes(),
        Format::JsonLines => json_lines(listing).into_bytes(),
        Format::Csv => csv(listing)?,
        Format::Parquet => parquet::write(listing)?,
    })
}

fn table(listing: &Listing, columns: Option<usize>) -> String {
    let columns_shown = listing.columns();
    let names: Vec<String> = columns_shown.iter().map(|name| clean(name).into_owned()).collect();
    let mut headings = vec!["id"];
    headings.extend(names.iter().map(|name| heading(name)));
    let mut table = Table::new(&headings).spare(headings[1..].iter().rev().copied());
    for row in &listing.rows {
        let cell = |name: &&Arc<str>| match row.fields.get(name) {
            None => String::new(),
            Some(Value::Text(text)) => short(text),
            Some(Value::Number(number)) => brief(*number),
            Some(Value::Blob(blob)) => {
                let (kind, size) = (clean(&blob.kind), units::bytes(blob.size));
                format!("{} {kind} {size}", blob.digest.short())
            }
        };
        table.row(std::iter::once(short(&row.id)).chain(columns_shown.iter().map(cell)));
    }
    let (mut text, mut left_out) = table.fitted(columns);
    if !left_out.is_empty() {
        left_out.reverse();
        let line =
            format!("columns that do not fit: {}; select with `--fields`", left_out.join(", "));
        let lines = columns.map_or_else(|| vec![line.clone()], |columns| wrap(&line, columns, 2));
        text.push_str(&format!("{}\n", lines.join("\n")));
    }
    text
}

/// A number with a readable number of digits.
fn brief(number: f64) -> String {
    let whole = number.to_string();
    match whole.len() {
        0..=9 => whole,
        _ if number.abs() >= 1e9 || number.abs() < 1e-3 => format!("{number:.3e}"),
        _ => format!("{number:.4}"),
    }
}

fn short(text: &str) -> String {
    fit(&clean(text), COLUMNS).into_owned()
}

fn json_lines(listing: &Listing) -> String {
    let mut text = String::new();
    for row in &listing.rows {
        let mut object = Map::new();
        object.insert("id".into(), json!(&*row.id));
        for name in &listing.fields {
            if let Some(value) = row.fields.get(name) {
                object.insert(heading(name).to_owned(), json_value(value));
            }
        }
        text.push_str(&serde_json::Value::Object(object).to_string());
        text.push('\n');
    }
    text
}

fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Text(text) => json!(&**text),
        // JSON has no infinity and no NaN.
        Value::Number(number) if number.is_finite() => json!(number),
        Value::Number(number) => json!(number.to_string()),
        Value::Blob(blob) => json!({
            "digest": blob.digest.to_string(), "size": blob.size, "kind": &*blob.kind,
        }),
    }
}

fn csv(listing: &Listing) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(
        std::iter::once("id").chain(listing.fields.iter().map(|name| heading(name))),
    )?;
    for row in &listing.rows {
        let cell = |name: &Arc<str>| row.fields.get(name).map_or_else(String::new, text_of);
        let cells = std::iter::once(row.id.to_string()).chain(listing.fields.iter().map(cell));
        writer.write_record(cells)?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

/// A value as plain text; a blob as its digest.
fn text_of(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Blob(blob) => blob.digest.to_string(),
    }
}

/// The heading of a field; plain `id` is that of the item.
fn heading(name: &str) -> &str {
    if name == "id" { "field.id" } else { name }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cache::Digest;
    use stage_core::Blob;

    pub fn listing() -> Listing {
        let blob = Blob { digest: Digest::of(b"x"), size: 1_500, kind: "audio/wav".into() };
        let first = [
            ("audio", Value::Blob(Arc::new(blob))),
            ("seconds", Value::Number(1.5)),
            ("text", Value::text("a, \"b\"\u{1b}[2J")),
        ];
        let second = [("seconds", Value::Number(f64::NAN)), ("text", Value::text("ä".repeat(60)))];
        let rows = vec![
            Item::new("clip1", first.into_iter().collect()),
            Item::new("clip2", second.into_iter().collect()),
        ];
        Listing::new(rows, &[]).unwrap()
    }

    fn text(format: Format) -> String {
        String::from_utf8(render(&listing(), format, None).unwrap()).unwrap()
    }

    #[test]
    fn a_table_is_safe_to_print_and_bounded() {
        insta::assert_snapshot!(text(Format::Table), @r#"
        id     text                                              seconds  audio
        clip1  a, "b"\u{1b}[2J                                   1.5      3ae7d805f678 audio/wav 1.5 kB
        clip2  äääääääääääääääääääääääääääääääääääääääääääääää…  NaN
        "#);
    }

    #[test]
    fn a_narrow_table_keeps_what_a_person_looks_for() {
        let fields =
            ["bandwidth_hz", "clipped_share", "dc_offset", "peak_dbfs", "rolloff_hz", "seconds"];
        let numbers = fields.map(|name| (name, Value::Number(1.25)));
        let texts = [("speaker", Value::text("aino")), ("text", Value::text("Hei vaan."))];
        let row = Item::new("clip1", texts.into_iter().chain(numbers).collect());
        let shown = |chosen: &[String]| {
            let listing = Listing::new(vec![row.clone()], chosen).unwrap();
            String::from_utf8(render(&listing, Format::Table, Some(40)).unwrap()).unwrap()
        };
        let narrow = shown(&[]);
        assert!(narrow.starts_with("id     text       speaker  seconds"), "{narrow}");
        assert!(narrow.contains("columns that do not fit: "), "{narrow}");
        let chosen = shown(&["dc_offset".into(), "text".into()]);
        assert!(chosen.starts_with("id     dc_offset  text"), "{chosen}");
    }

    #[test]
    fn parts_of_recordings_come_in_the_order_of_time() {
        let part = |id: &str, recording: &str, start: f64| {
            let fields = [("recording", Value::text(recording)), ("start", Value::Number(start))];
            Item::new(id, fields.into_iter().collect())
        };
        let rows = vec![part("a/3f", "a", 7.5), part("a/9c", "a", 0.5), part("b/00", "b", 0.0)];
        let ids = |rows: Vec<Item>| -> Vec<String> {
            let listing = Listing::new(rows, &[]).unwrap();
            listing.rows.iter().map(|row| row.id.to_string()).collect()
        };
        assert_eq!(ids(rows.clone()), ["a/9c", "a/3f", "b/00"]);
        let clip = Item::new("c", [("start", Value::Number(0.0))].into_iter().collect());
        let mixed: Vec<Item> = rows.into_iter().chain([clip]).collect();
        assert_eq!(ids(mixed), ["a/3f", "a/9c", "b/00", "c"]);
    }

    #[test]
    fn numbers_in_a_table_are_brief() {
        let numbers = [1.5, 0.0, -17.0, 1.7550566893424036, 0.00000888186987833988, 2e300];
        assert_eq!(numbers.map(brief).join(" "), "1.5 0 -17 1.7551 8.882e-6 2.000e300");
    }

    #[test]
    fn json_lines_and_csv_keep_every_value_whole() {
        let json = text(Format::JsonLines);
        let first = json.lines().next().unwrap();
        let digest = Digest::of(b"x");
        assert_eq!(
            first,
            format!(
                r#"{{"id":"clip1","audio":{{"digest":"{digest}","size":1500,"kind":"audio/wav"}},"seconds":1.5,"text":"a, \"b\"\u001b[2J"}}"#
            )
        );
        assert!(json.contains(&"ä".repeat(60)) && json.contains(r#""seconds":"NaN""#), "{json}");
        let csv = text(Format::Csv);
        let start =
            format!("id,audio,seconds,text\nclip1,{digest},1.5,\"a, \"\"b\"\"\u{1b}[2J\"\n");
        assert!(csv.starts_with(&start), "{csv}");
    }

    #[test]
    fn an_unknown_field_is_named() {
        let rows = listing().rows;
        let unknown = Listing::new(rows, &["txt".into()]).err().unwrap();
        assert_eq!((unknown.field.as_str(), unknown.known.len()), ("txt", 3));
    }
}
