//! Sentences of made-up words, and what a recogniser makes of them that is nearly always right: 0.9 on
//! the letter in the middle frames of each true letter, else on the blank, and now and then on a wrong
//! letter.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

use std::ops::Range;

use stage_families::wav2vec2::Alphabet;
use stage_speech::align::recording::{
    AlignOptions, Alignment, RecordingSegment, ScriptText, align,
};

pub const LETTERS: &str = " abcdefghijklmnopqrstuvwxyz'";
pub const HOP: f64 = 0.02;
pub const OPTIONS: AlignOptions = AlignOptions { stars: true, anchors: 5 };

pub fn alphabet() -> Alphabet {
    let symbols = std::iter::once(String::new()).chain(LETTERS.chars().map(String::from));
    Alphabet { blank: 0, symbols: symbols.collect() }
}

/// Numbers that look random.
pub struct Random(pub u64);

impl Random {
    pub fn share(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1_u64 << 24) as f64
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.share() * end as f64) as usize
    }

    pub fn within(&mut self, range: Range<usize>) -> usize {
        range.start + self.below(range.len())
    }
}

/// What is said, sentence by sentence, and what a recogniser makes of it.
pub struct Spoken {
    pub random: Random,
    pub mistakes: f64,
    pub values: Vec<f32>,
    pub segments: Vec<RecordingSegment>,
    /// The frames of each word in its segment, by the sentence that the segment is.
    pub words: Vec<Vec<(Range<usize>, String)>>,
    /// The first and the last letter of each sentence, and what was heard of them.
    ends: Vec<[(usize, usize); 2]>,
}

impl Spoken {
    pub fn new(seed: u64, mistakes: f64) -> Spoken {
        let random = Random(seed);
        Spoken {
            random,
            mistakes,
            values: Vec::new(),
            segments: Vec::new(),
            words: Vec::new(),
            ends: Vec::new(),
        }
    }

    pub fn frame(&mut self, symbol: usize) {
        self.heard(symbol);
    }

    /// A frame; returns the symbol that is heard.
    fn heard(&mut self, symbol: usize) -> usize {
        let count = LETTERS.len() + 1;
        let is_wrong = symbol != 0 && self.random.share() < self.mistakes;
        let symbol = if is_wrong { self.random.within(1..count) } else { symbol };
        let rest = (0.1 / (count - 1) as f32).ln();
        self.values.extend((0..count).map(|at| if at == symbol { 0.9_f32.ln() } else { rest }));
        symbol
    }

    pub fn symbol(letter: char) -> usize {
        LETTERS.chars().position(|one| one == letter.to_ascii_lowercase()).unwrap() + 1
    }

    /// One sentence as a segment.
    pub fn say(&mut self, sentence: &str) {
        let (before, start) = (self.values.len(), self.values.len() / (LETTERS.len() + 1));
        let frames = |spoken: &Spoken| spoken.values.len() / (LETTERS.len() + 1) - start;
        let (mut words, mut letters) = (Vec::new(), Vec::new());
        for _ in 0..self.random.within(3..12) {
            self.frame(0);
        }
        for (at, word) in sentence.split_whitespace().enumerate() {
            if at > 0 {
                self.frame(Spoken::symbol(' '));
                self.frame(0);
            }
            let from = frames(self);
            for letter in word.chars().filter(|letter| letter.is_alphabetic()) {
                self.frame(0);
                let symbol = Spoken::symbol(letter);
                letters.push((symbol, self.heard(symbol)));
                for _ in 0..self.random.below(3) {
                    self.frame(0);
                }
            }
            words.push((from..frames(self), word.to_owned()));
        }
        for _ in 0..self.random.within(3..12) {
            self.frame(0);
        }
        let count = frames(self);
        assert_eq!(self.values.len(), before + count * (LETTERS.len() + 1));
        let from = self.segments.last().map_or(0.0, |last| last.start + last.seconds);
        let seconds = count as f64 * HOP;
        self.segments.push(RecordingSegment { frames: count, start: from, seconds, hop: HOP });
        self.words.push(words);
        self.ends.push([*letters.first().unwrap(), *letters.last().unwrap()]);
    }

    /// Tests if the last letter of a sentence was heard as the first one of the next sentence, which
    /// was misheard too: then it fits as well to begin the next sentence before the pause.
    pub fn is_torn_after(&self, sentence: usize) -> bool {
        let [Some([_, (last, heard)]), Some([(first, heard_first), _])] =
            [self.ends.get(sentence), self.ends.get(sentence + 1)]
        else {
            return false;
        };
        heard != last && heard == first && heard_first != first
    }

    pub fn align(&self, text: &ScriptText) -> Alignment {
        aligned(&self.values, &self.segments, text)
    }
}

pub fn aligned(values: &[f32], segments: &[RecordingSegment], text: &ScriptText) -> Alignment {
    align(values, &alphabet(), segments, text, (&OPTIONS, &mut || false)).unwrap()
}

/// Sentences of made-up words, with capitals and full stops.
pub fn sentences(seed: u64, count: usize) -> Vec<String> {
    let mut random = Random(seed);
    let mut word = || -> String {
        let syllables = random.within(1..4);
        let mut letter = |of: &str| of.chars().nth(random.below(of.len())).unwrap();
        (0..syllables).flat_map(|_| [letter("bdfghklmnprstvw"), letter("aeiou")]).collect()
    };
    let sentence = |number: usize| {
        let words: Vec<String> = (0..5 + number * 7 % 9).map(|_| word()).collect();
        let text = words.join(" ");
        format!("{}{}.", text[..1].to_uppercase(), &text[1..])
    };
    (0..count).map(sentence).collect()
}
