//! What each model family is, without what it computes: its stage kinds, file layout, tokenizer,
//! sizes, and the formulas of its memory and time. The computation is in `stages/torch`.

pub mod xtts;
