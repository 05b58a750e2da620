//! Every message about a manifest: `diagnostics` has the cases.

use std::collections::BTreeSet;

use crate::cases::check;

/// A test for each page of cases, and a list of them.
macro_rules! pages {
    ($($test:ident: $page:literal),* $(,)?) => {
        const PAGES: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() {
                check($page);
            }
        )*
    };
}

pages! {
    all_at_once: "all-at-once",
    exports: "exports",
    expressions: "expressions",
    graph: "graph",
    names: "names",
    prices: "prices",
    sweeps: "sweeps",
    text: "text",
    values: "values",
}

#[test]
fn every_page_is_checked() {
    let folder = format!("{}/tests/reading/diagnostics", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).expect("the pages").flatten();
    let files: BTreeSet<String> =
        files.map(|file| file.file_name().to_string_lossy().into()).collect();
    let pages = PAGES.iter().map(|page| format!("{page}.md"));
    assert_eq!(files, pages.collect());
}
