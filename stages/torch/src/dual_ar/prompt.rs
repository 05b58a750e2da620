//! Text and frames as columns of tokens and codes, in the formats that the model knows.

use serde::{Deserialize, Serialize};

use super::batch::{ClipColumns, IGNORED};
use super::model::SpecialTokens;
use crate::error::TorchError;

/// The order of text and speech.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptFormat {
    /// The prompt format of the published model.
    #[default]
    Interleave,
    /// The format of the original's fine-tuning, although its own inference never uses it.
    SpeakOut,
}

/// The tokenizer, as prompts need it.
pub trait PromptVocabulary {
    /// The tokens of a text. Names of special tokens in it stay text.
    fn text(&self, text: &str) -> Result<Vec<i32>, TorchError>;
    /// The token of a special name like `<|voice|>`.
    fn special(&self, name: &str) -> Result<i32, TorchError>;
}

/// A text and its speech.
#[derive(Clone, Copy, Debug)]
pub struct SpokenText<'a> {
    pub text: &'a str,
    /// [K, N], row by row.
    pub codes: &'a [i32],
}

/// Writes columns one after the other.
#[derive(Debug)]
pub struct Script<'a, V: PromptVocabulary> {
    vocabulary: &'a V,
    tokens: SpecialTokens,
    codebooks: usize,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    token: i32,
    /// Empty where there is text.
    codes: Vec<i32>,
    learned: bool,
}

impl<'a, V: PromptVocabulary> Script<'a, V> {
    pub fn new(vocabulary: &'a V, tokens: SpecialTokens, codebooks: usize) -> Script<'a, V> {
        Script { vocabulary, tokens, codebooks, columns: Vec::new() }
    }

    /// The text to synthesise, after the previous speech of the same voice: [1 + K, T].
    pub fn prompt(
        mut self,
        format: PromptFormat,
        references: &[SpokenText],
        text: &str,
    ) -> Result<Vec<i32>, TorchError> {
        self.opening(format)?;
        for reference in references {
            self.asked(format, reference.text)?;
            self.frames(reference.codes, false)?;
            self.end(false);
        }
        self.asked(format, text)?;
        Ok(self.lines(|column, line| column.value(line)))
    }

    /// One clip to learn: its frames and its end have labels, its text has none.
    pub fn clip(
        mut self,
        format: PromptFormat,
        spoken: &SpokenText,
    ) -> Result<ClipColumns, TorchError> {
        self.opening(format)?;
        self.asked(format, spoken.text)?;
        self.frames(spoken.codes, true)?;
        self.end(true);
        // A column predicts the next one, so the last has no label.
        let labels = self.lines(|column, line| column.label(line));
        let tokens = self.lines(|column, line| column.value(line));
        let count = self.columns.len();
        let shifted = |values: &[i32], from: usize| -> Vec<i32> {
            values
                .chunks_exact(count)
                .flat_map(|line| &line[from..from + count - 1])
                .copied()
                .collect()
        };
        Ok(ClipColumns { tokens: shifted(&tokens, 0), labels: shifted(&labels, 1) })
    }

    fn opening(&mut self, format: PromptFormat) -> Result<(), TorchError> {
        match format {
            PromptFormat::Interleave => self.special("<|interleave|>"),
            PromptFormat::SpeakOut => self.text("Speak out the provided text."),
        }
    }

    /// The text, up to where speech begins. The names of speakers are text to the tokenizer.
    fn asked(&mut self, format: PromptFormat, text: &str) -> Result<(), TorchError> {
        match format {
            PromptFormat::Interleave => {
                self.text("<|speaker:0|>")?;
                self.text(text)
            }
            // One string with a space in it, so that pieces reach across.
            PromptFormat::SpeakOut => {
                self.text(&format!("<|speaker:user|> {text}"))?;
                self.end(false);
                self.text("<|speaker:assistant|> ")?;
                self.special("<|voice|>")
            }
        }
    }

    fn text(&mut self, text: &str) -> Result<(), TorchError> {
        let column = |token| Column { token, codes: Vec::new(), learned: false };
        self.columns.extend(self.vocabulary.text(text)?.into_iter().map(column));
        Ok(())
    }

    fn special(&mut self, name: &str) -> Result<(), TorchError> {
        let token = self.vocabulary.special(name)?;
        self.columns.push(Column { token, codes: Vec::new(), learned: false });
        Ok(())
    }

    fn end(&mut self, learned: bool) {
        let token = self.tokens.im_end as i32;
        self.columns.push(Column { token, codes: Vec::new(), learned });
    }

    fn frames(&mut self, codes: &[i32], learned: bool) -> Result<(), TorchError> {
        if !codes.len().is_multiple_of(self.codebooks) {
            let text = format!("{} codes do not fill {} codebooks", codes.len(), self.codebooks);
            return Err(TorchError::Input(text));
        }
        let count = codes.len() / self.codebooks;
        let column = |frame: usize| Column {
            token: self.tokens.semantic_begin as i32 + codes[frame],
            codes: (0..self.codebooks).map(|line| codes[line * count + frame]).collect(),
            learned,
        };
        self.columns.extend((0..count).map(column));
        Ok(())
    }

    fn lines(&self, value: impl Fn(&Column, usize) -> i32) -> Vec<i32> {
        let line = |line: usize| self.columns.iter().map(move |column| (column, line));
        (0..=self.codebooks).flat_map(line).map(|(column, line)| value(column, line)).collect()
    }
}

impl Column {
    /// Line 0 is the token; text has code 0 everywhere.
    fn value(&self, line: usize) -> i32 {
        match line {
            0 => self.token,
            _ => self.codes.get(line - 1).copied().unwrap_or(0),
        }
    }

    fn label(&self, line: usize) -> i32 {
        match line {
            _ if !self.learned => IGNORED,
            0 => self.token,
            _ => self.codes.get(line - 1).copied().unwrap_or(IGNORED),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Each character is a token; special names are their length.
    struct LetterVocabulary;

    impl PromptVocabulary for LetterVocabulary {
        fn text(&self, text: &str) -> Result<Vec<i32>, TorchError> {
            Ok(text.chars().map(|letter| letter as i32).collect())
        }

        fn special(&self, name: &str) -> Result<i32, TorchError> {
            Ok(1000 + name.len() as i32)
        }
    }

    const TOKENS: SpecialTokens = SpecialTokens { semantic_begin: 2000, im_end: 1500 };
    const SPOKEN: SpokenText = SpokenText { text: "hi", codes: &[5, 6, 7, 8] };

    fn script() -> Script<'static, LetterVocabulary> {
        Script::new(&LetterVocabulary, TOKENS, 2)
    }

    #[test]
    fn a_prompt_ends_with_the_text() {
        let prompt = script().prompt(PromptFormat::Interleave, &[SPOKEN], "a").unwrap();
        let speaker: Vec<i32> = "<|speaker:0|>".chars().map(|letter| letter as i32).collect();
        let mut first = vec![1014];
        first.extend(&speaker);
        first.extend(['h' as i32, 'i' as i32, 2005, 2006, 1500]);
        first.extend(&speaker);
        first.push('a' as i32);
        let length = first.len();
        assert_eq!(prompt[..length], first);
        assert_eq!(prompt[length..][15..20], [0, 5, 6, 0, 0]);
        assert_eq!(prompt[2 * length..][15..20], [0, 7, 8, 0, 0]);
    }

    /// The conversation of `fish_speech/datasets/semantic.py` at commit d3df505: the mark of the
    /// speaker, a space and the text are one string.
    #[test]
    fn the_training_format_asks_in_whole_strings() {
        #[derive(Default)]
        struct Strings(std::cell::RefCell<Vec<String>>);
        impl PromptVocabulary for Strings {
            fn text(&self, text: &str) -> Result<Vec<i32>, TorchError> {
                self.0.borrow_mut().push(text.to_owned());
                Ok(vec![1])
            }

            fn special(&self, name: &str) -> Result<i32, TorchError> {
                self.0.borrow_mut().push(name.to_owned());
                Ok(2)
            }
        }
        let strings = Strings::default();
        Script::new(&strings, TOKENS, 2).clip(PromptFormat::SpeakOut, &SPOKEN).unwrap();
        let expected = [
            "Speak out the provided text.",
            "<|speaker:user|> hi",
            "<|speaker:assistant|> ",
            "<|voice|>",
        ];
        assert_eq!(strings.0.into_inner(), expected);
    }

    #[test]
    fn frames_and_the_end_are_learned_one_column_ahead() {
        for format in [PromptFormat::Interleave, PromptFormat::SpeakOut] {
            let clip = script().clip(format, &SPOKEN).unwrap();
            let length = clip.tokens.len() / 3;
            let end =
                |values: &[i32], line: usize| values[line * length..][length - 3..length].to_vec();
            assert_eq!(end(&clip.tokens, 0)[1..], [2005, 2006]);
            assert_eq!(end(&clip.labels, 0), [2005, 2006, 1500]);
            assert_eq!(end(&clip.labels, 1), [5, 6, IGNORED]);
            assert_eq!(end(&clip.labels, 2), [7, 8, IGNORED]);
            assert!(clip.labels[..length - 3].iter().all(|label| *label == IGNORED));
        }
    }

    #[test]
    fn codes_that_fill_no_whole_frame_are_refused() {
        let spoken = SpokenText { text: "", codes: &[1, 2, 3] };
        assert!(script().clip(PromptFormat::Interleave, &spoken).is_err());
    }
}
