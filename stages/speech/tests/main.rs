//! Tests of the stages through their public interface, a module for each subject. They are one program,
//! since each program takes seconds to build; `align.rs` and `audio_tests` are separate, and so are the
//! tests of one module, beside it.

mod support;

mod choosing;
mod choosing_voices;
mod columns;
mod commands;
mod corrections;
mod forced_align;
mod model;
mod model_export;
mod model_vits;
mod model_wav2vec2;
mod model_xtts;
mod other_tools;
mod planted_faults;
mod quality;
mod rating;
mod report;
mod romanise;
mod sentences;
mod stages;
mod statistics;
mod voices;
mod vq;
