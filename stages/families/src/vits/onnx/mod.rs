//! VITS models as ONNX graphs: for sherpa, for Piper, or plain.
//!
//! The graph is written from the weights, without tracing; see [`model`]. It takes one text at a
//! time, so it needs no masks.

mod durations;
mod graph_builder;
mod language;
mod model;
mod phonemes;
mod symbols;

use std::collections::BTreeMap;

use stage_core::{Context, Fields, NewValue, StageError};
use stage_formats::json::JSON;
use stage_formats::onnx::{Attribute, Element, Size, Value, WeightType};

use super::{SPEAKERS_FILE, VitsConfig, VitsTokenizer, read_speakers};
use crate::artifact::{self, CONFIG, LICENSE, SPEAKERS, TOKENIZER_CONFIG, VOCABULARY};
use crate::export::copies;
use crate::import::CONFIG_FILE;
use crate::onnx::{GraphFiles, Sample, Target};
use graph_builder::{END, GraphBuilder};
use model::Inputs;
use symbols::{DecomposedSymbols, piper_config, sherpa_metadata, sherpa_tokens};

/// The file of the graph.
const GRAPH: &str = "model.onnx";
const TOKENS: &str = "tokens.txt";
const PIPER: &str = "model.onnx.json";
const TEXT_KIND: &str = "text/plain";

/// The graph of a model, with the files beside it.
///
/// # Errors
///
/// If the player cannot read the texts of the model, or the model is damaged.
pub fn export(
    model: &Fields,
    target: Target,
    stored: WeightType,
    context: &mut dyn Context,
) -> Result<GraphFiles, StageError> {
    let config = VitsConfig::parse(&file(model, CONFIG, context)?)?;
    let vocabulary = file(model, VOCABULARY, context)?;
    let settings = file(model, TOKENIZER_CONFIG, context)?;
    let tokenizer = VitsTokenizer::read(&vocabulary, &settings)?;
    let speakers = model.text(SPEAKERS).map(|list| read_speakers(list.as_bytes(), &config));
    let speakers = speakers.transpose()?;
    let license = model.text(LICENSE).filter(|license| !license.trim().is_empty());
    let (mut metadata, mut beside, mut prologue) = (BTreeMap::new(), Vec::new(), None);
    match (target, tokenizer.phonemes()) {
        (Target::Piper, Some(phonemes)) => {
            metadata = phonemes::metadata(&config, phonemes);
            let described = phonemes::description(&config, &tokenizer, speakers.as_deref());
            beside.push((PIPER.to_owned(), NewValue::bytes(JSON, format!("{described:#}\n"))));
            let tokens = NewValue::bytes(TEXT_KIND, phonemes::tokens(&tokenizer));
            beside.push((TOKENS.to_owned(), tokens));
        }
        (Target::Sherpa, Some(_)) => return Err(phonemes::refused()),
        (Target::Sherpa, None) => {
            metadata = sherpa_metadata(&config, &tokenizer);
            let tokens = NewValue::bytes(TEXT_KIND, sherpa_tokens(&tokenizer)?);
            beside.push((TOKENS.to_owned(), tokens));
        }
        (Target::Piper, None) => {
            let decomposed = DecomposedSymbols::of(&tokenizer)?;
            let described = piper_config(&config, &tokenizer, &decomposed, speakers.as_deref());
            let described = NewValue::bytes(JSON, format!("{described:#}\n"));
            beside.push((PIPER.to_owned(), described));
            prologue = Some(decomposed);
        }
        (Target::Plain, _) => {
            let own = [(VOCABULARY, VOCABULARY), (TOKENIZER_CONFIG, TOKENIZER_CONFIG)];
            beside.extend(copies(model, &[&own[..], &[(CONFIG, CONFIG_FILE)]].concat()));
            let list = model.text(SPEAKERS);
            let list = list.map(|list| NewValue::bytes(JSON, format!("{list}\n")));
            beside.extend(list.map(|list| (SPEAKERS_FILE.to_owned(), list)));
            metadata.insert("sample_rate".to_owned(), config.sampling_rate.to_string());
        }
    }
    metadata.extend(license.map(|license| ("license".to_owned(), license.to_owned())));
    let mut read = |name: &str| match model.blob(&artifact::tensor_field(name)) {
        None => Ok(None),
        Some(blob) => {
            let tensor = artifact::decode(context.read(blob)?);
            tensor.map(Some).map_err(|error| error.of(name))
        }
    };
    let mut builder = GraphBuilder::new(stored, &mut read);
    let (inputs, interface) = inputs(&mut builder, &config, &tokenizer, target, prologue.as_ref());
    let samples = model::speak(&mut builder, &config, &inputs)?;
    let (name, samples, rank) = match target {
        Target::Sherpa => ("y", samples, 3),
        Target::Plain => ("output", samples, 3),
        Target::Piper => ("output", builder.unsqueezed(&samples, 1), 4),
    };
    let mut sizes = vec![Size::Fixed(1); rank - 1];
    sizes.push(Size::Named("samples"));
    builder.graph.output(name, &samples, Element::F32, &sizes);
    let graph = builder.graph.write("vits", &metadata)?;
    let sample = interface.sample(&config, &tokenizer, prologue.as_ref());
    Ok(GraphFiles { name: GRAPH, graph, beside, sample })
}

fn file(model: &Fields, name: &str, context: &mut dyn Context) -> Result<Vec<u8>, StageError> {
    let missing = || StageError::failed(format!("the model has no `{name}`"));
    Ok(context.read(model.blob(name).ok_or_else(missing)?)?.to_vec())
}

/// The names of the inputs.
struct Interface {
    tokens: &'static str,
    lengths: &'static str,
    /// One input for each scale, or a single one for all three: noise, length, noise of durations.
    scales: &'static [&'static str],
    has_speaker: bool,
}

fn inputs(
    builder: &mut GraphBuilder,
    config: &VitsConfig,
    tokenizer: &VitsTokenizer,
    target: Target,
    prologue: Option<&DecomposedSymbols>,
) -> (Inputs, Interface) {
    let interface = Interface {
        tokens: if target == Target::Sherpa { "x" } else { "input" },
        lengths: if target == Target::Sherpa { "x_length" } else { "input_lengths" },
        scales: match target {
            Target::Sherpa => &["noise_scale", "length_scale", "noise_scale_w"],
            Target::Piper | Target::Plain => &["scales"],
        },
        has_speaker: config.num_speakers > 1,
    };
    let (batch, length) = (Size::Named("N"), Size::Named("L"));
    let tokens = builder.graph.input(interface.tokens, Element::I64, &[batch.clone(), length]);
    // Players give it; one text needs no mask.
    builder.graph.input(interface.lengths, Element::I64, &[batch]);
    let scales: Vec<Value> = match interface.scales {
        [all] => {
            let all = builder.graph.input(all, Element::F32, &[Size::Fixed(3)]);
            (0..3).map(|at| builder.slice(&all, (at, at + 1), 0)).collect()
        }
        each => each
            .iter()
            .map(|name| builder.graph.input(name, Element::F32, &[Size::Fixed(1)]))
            .collect(),
    };
    let speaker =
        interface.has_speaker.then(|| builder.graph.input("sid", Element::I64, &[Size::Fixed(1)]));
    let tokens = match prologue {
        Some(decomposed) => composed(builder, &tokens, decomposed, tokenizer.adds_blank()),
        None => tokens,
    };
    let [noise_scale, length_scale, noise_scale_duration] = [0, 1, 2].map(|at| scales[at].clone());
    let inputs = Inputs { tokens, noise_scale, length_scale, noise_scale_duration, speaker };
    (inputs, interface)
}

impl Interface {
    /// Inputs for a try.
    fn sample(
        &self,
        config: &VitsConfig,
        tokenizer: &VitsTokenizer,
        prologue: Option<&DecomposedSymbols>,
    ) -> Sample {
        let tokens: Vec<i64> = match prologue {
            Some(decomposed) => (decomposed.last_reserved() + 1..decomposed.first_mark()).collect(),
            None => tokenizer.symbols().map(|(_, token)| token).collect(),
        };
        let tokens: Vec<i64> = tokens.into_iter().cycle().take(12).collect();
        let count = tokens.len() as i64;
        let scales = [config.noise_scale, 1.0, config.noise_scale_duration];
        let mut sample = Sample::default();
        sample.integers.push((self.tokens, tokens, true));
        sample.integers.push((self.lengths, vec![count], false));
        match self.scales {
            [all] => sample.numbers.push((*all, scales.to_vec())),
            each => {
                let each = each.iter().zip(scales);
                sample.numbers.extend(each.map(|(name, scale)| (*name, vec![scale])));
            }
        }
        if self.has_speaker {
            sample.integers.push(("sid", vec![0], false));
        }
        sample
    }
}

/// The tokens of the model from those of Piper: without padding and ends, letters with their marks,
/// and with the model's own blanks.
fn composed(
    builder: &mut GraphBuilder,
    tokens: &Value,
    decomposed: &DecomposedSymbols,
    adds_blank: bool,
) -> Value {
    let (width, first_mark) = (decomposed.marks.len() as i64 + 1, decomposed.first_mark());
    let flat = builder.squeezed(tokens, &[0]);
    let reserved = builder.graph.integer(decomposed.last_reserved());
    let is_symbol = builder.graph.add("Greater", &[&flat, &reserved]);
    let symbols = kept(builder, &flat, &is_symbol);
    let (zero, one_more) = (builder.graph.integers(&[0]), builder.slice(&symbols, (1, END), 0));
    let next = builder.joined(&[&one_more, &zero], 0);
    let [before_marks, marks, none, factor] =
        [first_mark - 1, first_mark, 0, width].map(|value| builder.graph.integer(value));
    // The mark behind each letter, from 1 on, or 0.
    let mark = builder.sub(&next, &before_marks);
    let mark = builder.graph.add("Max", &[&mark, &none]);
    let letter = builder.graph.add("Min", &[&symbols, &before_marks]);
    let place = builder.mul(&letter, &factor);
    let place = builder.add(&place, &mark);
    let table = builder.graph.table(&decomposed.tokens, &[decomposed.tokens.len() as i64]);
    let found = builder.gathered(&table, &place, 0);
    let is_letter = builder.graph.add("Less", &[&symbols, &marks]);
    let is_known = builder.graph.add("GreaterOrEqual", &[&found, &none]);
    let is_spoken = builder.graph.add("And", &[&is_letter, &is_known]);
    let spoken = kept(builder, &found, &is_spoken);
    if !adds_blank {
        return builder.unsqueezed(&spoken, 0);
    }
    let column = builder.unsqueezed(&spoken, 1);
    let blanks = builder.mul(&column, &none);
    let pairs = builder.joined(&[&column, &blanks], 1);
    let pairs = builder.reshaped(&pairs, &[-1]);
    let all = builder.joined(&[&zero, &pairs], 0);
    builder.unsqueezed(&all, 0)
}

/// The elements where a condition holds.
fn kept(builder: &mut GraphBuilder, x: &Value, condition: &Value) -> Value {
    builder.graph.with("Compress", &[x, condition], &[("axis", Attribute::Integer(0))])
}
