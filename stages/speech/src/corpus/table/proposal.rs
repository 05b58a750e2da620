//! A proposal for the parameter `columns` of a table without a header, from the cells of the first
//! rows. It is only shown: a person decides.

use std::collections::HashSet;

use super::TableRow;
use crate::corpus::path;

/// The list as it is written in a manifest.
pub(super) fn columns(lines: &[TableRow], width: usize) -> String {
    let rows: Vec<Vec<String>> =
        lines.iter().filter(|line| line.cells.len() == width).map(cells).collect();
    let facts: Vec<Facts> = (0..width).map(|at| Facts::of(&rows, at)).collect();
    let mut names: Vec<Option<&str>> = vec![None; width];
    let file = (0..width).find(|at| facts[*at].is_path).unwrap_or(0);
    names[file] = Some("file");
    let open = |names: &[Option<&str>], fits: &dyn Fn(&Facts) -> bool| -> Vec<usize> {
        (0..width).filter(|at| names[*at].is_none() && fits(&facts[*at])).collect()
    };
    // Of several texts the last one, which is the normalised one of LJSpeech.
    let texts = open(&names, &|facts| !facts.is_number);
    let most = texts.iter().map(|at| facts[*at].words).max();
    let text = texts.iter().rev().find(|at| Some(facts[**at].words) == most);
    if let Some(text) = text {
        names[*text] = Some("text");
    }
    let times = open(&names, &|facts| facts.is_fraction);
    if let [start, end] = times[..] {
        names[start] = Some("start");
        let is_end = rows.iter().all(|row| number(&row[start]) < number(&row[end]));
        names[end] = Some(if is_end { "end" } else { "duration" });
    }
    if let [language, ..] = open(&names, &|facts| facts.is_language)[..] {
        names[language] = Some("language");
    }
    if let [speaker, ..] = open(&names, &|facts| !facts.is_fraction && facts.has_few_words)[..] {
        names[speaker] = Some("speaker");
    }
    let quoted = names.iter().map(|name| format!("\"{}\"", name.unwrap_or("-")));
    format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
}

fn cells(line: &TableRow) -> Vec<String> {
    line.text_cells().iter().map(|cell| cell.trim().to_owned()).collect()
}

fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or(f64::NAN)
}

/// Facts about one column.
struct Facts {
    is_path: bool,
    is_number: bool,
    is_fraction: bool,
    is_language: bool,
    has_few_words: bool,
    words: usize,
}

impl Facts {
    fn of(rows: &[Vec<String>], column: usize) -> Facts {
        let cells: Vec<&str> = rows.iter().map(|row| row[column].as_str()).collect();
        let all =
            |test: &dyn Fn(&str) -> bool| !cells.is_empty() && cells.iter().all(|cell| test(cell));
        let is_number = all(&|cell| cell.parse::<f64>().is_ok());
        let distinct: HashSet<&str> = cells.iter().copied().collect();
        let words = cells.iter().map(|cell| super::three::words(cell)).sum();
        Facts {
            is_path: all(&path::has_audio_extension),
            is_number,
            is_fraction: is_number && cells.iter().any(|cell| cell.contains('.')),
            is_language: all(&is_language_code) && distinct.len() * 2 <= cells.len().max(2),
            has_few_words: words <= cells.len() * 2,
            words,
        }
    }
}

/// Tests for codes such as `fi`, `EN` and `pt-BR`.
fn is_language_code(cell: &str) -> bool {
    let parts: Vec<&str> = cell.split(['-', '_']).collect();
    let is_code =
        |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    parts.len() <= 2 && parts.iter().all(is_code)
}
