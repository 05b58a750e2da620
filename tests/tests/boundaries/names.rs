//! Names: no type name more than twice in a package, and no word that docs/glossary.md has retired.

use std::collections::BTreeMap;

use throstle_tests::guide::{document, root};
use throstle_tests::names::{Names, words};

use crate::MEMBERS;

/// The largest number of types of a package that may share a name.
const MAX_SHARED: usize = 2;

/// Names and texts that keep a retired word, each with the reason.
const EXCEPTIONS: [(&str, &str); 10] = [
    ("Reject", "public in `stages/core`, on which stages of others build"),
    ("EachItem", "public in `stages/core`, on which stages of others build"),
    ("set_aside", "public in `stages/core`, on which stages of others build"),
    ("Each", "a term of an expression for each sentence"),
    ("Ended", "the end of a program, beside the interface of stages"),
    ("Seen", "an item as a stage sees it, in the interface of stages"),
    ("to_gpu_aside", "copies in a CUDA stream beside the main one"),
    ("throstle_to_gpu_aside", "copies in a CUDA stream beside the main one"),
    ("set aside by stage", "part of a key in caches that exist"),
    ("unfit-value", "a code in records and reports that exist"),
];

/// The names of a package, with the path of its folder. This package has tests only.
fn packages() -> impl Iterator<Item = (&'static str, Names)> {
    let code = MEMBERS.into_iter().filter(|member| *member != "tests");
    code.map(|member| (member, Names::read(&root().join(member).join("src"))))
}

#[test]
fn no_type_name_stands_more_than_twice_in_a_package() {
    let mut types = 0;
    for (member, names) in packages() {
        let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (file, name) in &names.types {
            types += 1;
            files.entry(name).or_default().push(file.display().to_string());
        }
        files.retain(|_, files| files.len() > MAX_SHARED);
        assert!(files.is_empty(), "`{member}` defines these names more than twice: {files:#?}");
    }
    assert!(types > 1_000, "{types} types");
}

/// A retired word, and its places and its successor by the glossary.
struct Retired {
    word: String,
    instead: String,
    places: String,
}

/// The words in the last table of the glossary.
fn retired() -> Vec<Retired> {
    let glossary = document("docs/glossary.md");
    let (_, section) = glossary.split_once("\n## Retired words\n").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [listed, instead, places] = cells[..] else { panic!("{row}") };
        let all: Vec<Retired> = listed
            .split(", ")
            .map(|word| Retired {
                word: word.trim_matches('`').to_owned(),
                instead: instead.to_owned(),
                places: places.to_owned(),
            })
            .collect();
        all
    })
    .collect()
}

/// A message without the names of values in it.
fn without_placeholders(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + " " + part.split_once('}').map_or(part, |(_, rest)| rest))
}

#[test]
fn no_type_function_or_message_has_a_retired_word() {
    let retired = retired();
    assert!(retired.len() > 10, "{} words", retired.len());
    let mut kept = Vec::new();
    for (_, names) in packages() {
        for (place, found) in
            [("types", &names.types), ("functions", &names.functions), ("messages", &names.texts)]
        {
            let own: Vec<&Retired> =
                retired.iter().filter(|retired| retired.places.contains(place)).collect();
            for (file, text) in found {
                let words = words(&without_placeholders(text));
                let Some(retired) = own.iter().find(|retired| words.contains(&retired.word)) else {
                    continue;
                };
                let name = text.trim_matches('"');
                let is_exception = EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
                assert!(
                    is_exception,
                    "{}: `{name}` has the word `{}`, which {place} do not use; instead: {}",
                    file.display(),
                    retired.word,
                    retired.instead
                );
                kept.push(name.to_owned());
            }
        }
    }
    for (exception, reason) in EXCEPTIONS {
        assert!(kept.iter().any(|name| name == exception), "`{exception}` is gone ({reason})");
    }
}
