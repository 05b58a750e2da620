//! What estimates take for granted, each told once, in the order in which it came up.

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

    /// The number of items that a source gives.
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
