//! The texts that a voice speaks to learn from itself.

use stage_core::{GatherInput, Item, Parameters, PortInput, StageError};
use stage_families::clips::hash;

use crate::nn::random::{Random, scramble};
use crate::train::notes::Notes;
use crate::vits::artifact::VitsModel;

/// Symbols of a random sequence, and of its words.
const RANDOM_SYMBOLS: [u64; 2] = [20, 80];
const RANDOM_WORD: [u64; 2] = [2, 8];

/// A text as the voice speaks it once.
#[derive(Clone, Debug, PartialEq)]
pub struct SpokenText {
    /// Equal for every time that a text is spoken.
    pub identity: String,
    pub key: u64,
    pub tokens: Vec<i64>,
    pub speaker: Option<i64>,
    /// The scales of the latents' noise and of the durations.
    pub noise_scale: f64,
    pub length_scale: f64,
}

/// Token sequences by the texts that they are of, or the symbols to draw them from.
#[derive(Debug)]
pub enum Texts {
    Given(Vec<(String, Vec<i64>)>),
    Random { symbols: Vec<char>, model: Box<VitsModel> },
}

impl Texts {
    pub fn read(
        input: &GatherInput,
        model: &VitsModel,
        notes: &mut Notes,
    ) -> Result<Texts, StageError> {
        let items = match input.ports.get("input").and_then(|ports| ports.first()) {
            Some(PortInput::Dataset { items, .. }) => items,
            _ => return Ok(Texts::random(model)),
        };
        let mut texts = given(items, model, notes);
        if texts.is_empty() {
            return Err(StageError::with_help(
                "none of the texts on port `input` can be spoken",
                "a voice that reads phonemes needs `text.phonemise` before this stage",
            ));
        }
        // Neither names nor the order of items matter.
        texts.sort();
        texts.dedup();
        texts.sort_by_key(|(text, _)| hash("vits.complete", text));
        notes.add("texts", texts.len() as u64);
        Ok(Texts::Given(texts))
    }

    fn random(model: &VitsModel) -> Texts {
        let special = model.tokenizer.special_tokens();
        let is_own = |(_, token): &(char, i64)| !special.contains(token);
        let symbols = model.tokenizer.symbols().filter(is_own).map(|(symbol, _)| symbol);
        Texts::Random { symbols: symbols.collect(), model: Box::new(model.clone()) }
    }

    /// As many sentences as the parameters want: texts are repeated in turn.
    pub fn spoken(
        &self,
        parameters: &Parameters,
        speakers: i64,
    ) -> Result<Vec<SpokenText>, StageError> {
        let seed = parameters.integer("seed")? as u64;
        let sentences = parameters.integer("sentences")?.max(1) as usize;
        (0..sentences).map(|at| self.sentence(at, seed, speakers)).collect()
    }

    fn sentence(&self, at: usize, seed: u64, speakers: i64) -> Result<SpokenText, StageError> {
        let key = scramble(scramble(seed).wrapping_add(at as u64));
        let mut random = Random::new(key);
        let (identity, tokens) = match self {
            Texts::Given(texts) => texts[at % texts.len()].clone(),
            Texts::Random { symbols, model } => {
                let text = sequence(symbols, &mut random);
                (text.clone(), model.tokenizer.encode(&model.tokenizer.prepare(&text)).ids)
            }
        };
        if tokens.is_empty() {
            return Err(StageError::failed("the model has no symbols to draw texts from"));
        }
        let mut between = |least: f64, most: f64| least + (most - least) * random.fraction();
        Ok(SpokenText {
            identity,
            key,
            tokens,
            noise_scale: between(0.4, 0.9),
            length_scale: between(0.85, 1.2),
            speaker: (speakers > 1).then(|| between(0.0, speakers as f64) as i64),
        })
    }
}

fn given(items: &[Item], model: &VitsModel, notes: &mut Notes) -> Vec<(String, Vec<i64>)> {
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        match model.tokens_of(&item.fields) {
            Ok(tokens) => texts.push((tokens.text, tokens.ids)),
            Err(reject) => notes.add(&format!("texts left out: {}", reject.reason), 1),
        }
    }
    texts
}

/// Words of random symbols.
fn sequence(symbols: &[char], random: &mut Random) -> String {
    let letters: Vec<char> = symbols.iter().copied().filter(|own| own.is_alphabetic()).collect();
    if letters.is_empty() {
        return symbols.iter().collect();
    }
    let mut text = String::new();
    let count = drawn(random, RANDOM_SYMBOLS) as usize;
    while text.chars().count() < count {
        let word = drawn(random, RANDOM_WORD);
        text.extend((0..word).map(|_| letters[drawn(random, [0, letters.len() as u64]) as usize]));
        text.push(' ');
    }
    text.trim_end().to_owned()
}

/// A whole number from the first bound up to the second.
fn drawn(random: &mut Random, [least, most]: [u64; 2]) -> u64 {
    least + (random.fraction() * (most - least) as f64) as u64
}
