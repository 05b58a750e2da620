//! What estimates take for granted, each told once, in the order in which it came up.

use std::cell::RefCell;

#[derive(Default)]
pub struct Assumptions(RefCell<Vec<String>>);

impl Assumptions {
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut told = self.0.borrow_mut();
        if !told.contains(&text) {
            told.push(text);
        }
    }

    pub fn into_texts(self) -> Vec<String> {
        self.0.into_inner()
    }
}
