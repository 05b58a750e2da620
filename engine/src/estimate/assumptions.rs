//! The assumptions of an estimate, each listed once, in the order of first use.

use std::cell::RefCell;

#[derive(Default)]
pub struct Assumptions {
    all: RefCell<Vec<String>>,
    counts: RefCell<Vec<String>>,
}

impl Assumptions {
    pub fn add(&self, text: impl Into<String>) {
        add_to(&self.all, text.into());
    }

    /// Adds an assumption about the number of items of a source.
    pub fn add_count(&self, text: String) {
        add_to(&self.counts, text.clone());
        self.add(text);
    }

    pub fn counts(&self) -> Vec<String> {
        self.counts.borrow().clone()
    }

    pub fn into_texts(self) -> Vec<String> {
        self.all.into_inner()
    }
}

fn add_to(texts: &RefCell<Vec<String>>, text: String) {
    let mut told = texts.borrow_mut();
    if !told.contains(&text) {
        told.push(text);
    }
}
