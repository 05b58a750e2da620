//! Any bytes as a corpus table and as JSON lines: rows, rows set aside, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stage_speech::corpus::{jsonl, table};

fuzz_target!(|bytes: &[u8]| {
    let _ = table::read(bytes, &table::TableOptions::default());
    let _ = jsonl::read(bytes, &jsonl::JsonlOptions::default());
});
