//! A model as an artifact: the names and kinds of its fields, and the encoding of a tensor as a
//! blob.
//!
//! Each tensor has a field of its own, so that a tensor that two models share is stored once.

use std::sync::Arc;

use bytes::Bytes;
use stage_core::{Blob, Fields, NewValue};
use stage_formats::safetensors::{self, SafetensorsFile};
use stage_formats::{FormatError, Tensor, TensorInfo};

/// The family of the model, one of the words below.
pub const FAMILY: &str = "family";
/// The configuration in the format of the original project, JSON.
pub const CONFIG: &str = "config";
pub const TOKENIZER: &str = "tokenizer.tiktoken";
pub const SPECIAL_TOKENS: &str = "special_tokens.json";
/// The symbols of the tokenizer of a VITS model or of a recogniser.
pub const VOCABULARY: &str = "vocab.json";
/// The settings of the tokenizer of a VITS model.
pub const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// The input settings of a recogniser.
pub const PREPROCESSOR: &str = "preprocessor_config.json";
/// The names of the speakers by number, a JSON array, for models with several.
pub const SPEAKERS: &str = "speakers";
/// The licence of the weights, if it is known.
pub const LICENSE: &str = "license";
/// The lineage of adapters, JSON.
pub const LINEAGE: &str = "lineage";

/// A text model of Fish Speech.
pub const DUAL_AR: &str = "fish-dual-ar";
/// Adapters of such a model.
pub const LORA: &str = "fish-lora";
/// The codec of Fish Speech.
pub const DAC: &str = "fish-dac";
/// The codec that `vq.fit` fits.
pub const MEL_RVQ: &str = "mel-rvq";
/// A VITS model.
pub const VITS: &str = "vits";
/// An XTTS model.
pub const XTTS: &str = "xtts";
/// Adapters beside an XTTS model.
pub const XTTS_LORA: &str = "xtts-lora";
/// The conditioning of an XTTS model for one voice.
pub const XTTS_VOICE: &str = "xtts-voice";
/// A speech recogniser.
pub const WAV2VEC2: &str = "wav2vec2";

/// The families of codecs.
pub const CODECS: &[&str] = &[MEL_RVQ, DAC, XTTS];

pub const TENSOR_KIND: &str = "tensor";
pub const CONFIG_KIND: &str = "model/config";
/// The kind of the blobs of the tokenizer.
pub const TOKENIZER_KIND: &str = "model/tokenizer";

const TENSOR: &str = "tensor/";
/// The name of the tensor in its blob.
const DATA: &str = "data";

/// The field of a tensor.
pub fn tensor_field(name: &str) -> String {
    format!("{TENSOR}{name}")
}

/// The tensors of an artifact, sorted by name.
pub fn tensors(fields: &Fields) -> impl Iterator<Item = (&str, &Arc<Blob>)> {
    fields.iter().filter_map(|(name, value)| Some((name.strip_prefix(TENSOR)?, value.as_blob()?)))
}

/// A tensor in its stored form.
pub fn tensor_value(tensor: &Tensor) -> Result<NewValue, FormatError> {
    Ok(NewValue::bytes(TENSOR_KIND, encode(tensor)?))
}

/// The fields of tensors that are stored already.
pub fn stored_tensors(tensors: &[(String, Blob)]) -> Vec<(String, NewValue)> {
    let field = |(name, blob): &(String, Blob)| (tensor_field(name), NewValue::blob(blob.clone()));
    tensors.iter().map(field).collect()
}

/// A safetensors file with only this tensor. The same tensor gives the same bytes.
pub fn encode(tensor: &Tensor) -> Result<Vec<u8>, FormatError> {
    safetensors::write([(DATA, tensor)])
}

/// The same file with zeros for the values, and the place where they start.
pub fn room(info: TensorInfo) -> Result<(Vec<u8>, usize), FormatError> {
    safetensors::room(DATA, info)
}

/// The tensor in a blob; it shares the blob's bytes.
pub fn decode(bytes: impl Into<Bytes>) -> Result<Tensor, FormatError> {
    SafetensorsFile::read(bytes.into())?.tensor(DATA)
}

/// The symbols of a model that takes texts character by character and spells no numbers.
pub fn plain_symbols(fields: &Fields) -> Option<&Arc<Blob>> {
    fields.blob(VOCABULARY).filter(|_| fields.text(FAMILY) == Some(VITS))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use cache::Digest;
    use stage_core::Value;

    use super::*;

    #[test]
    fn a_tensor_comes_back_and_shares_the_bytes() {
        let tensor = Tensor::from_f32([2, 1], &[1.0, -2.0]).unwrap();
        let bytes = Bytes::from(encode(&tensor).unwrap());
        let back = decode(bytes.clone()).unwrap();
        assert_eq!(back, tensor);
        assert!(bytes.as_ptr_range().contains(&back.data().as_ptr()));
        let (mut file, start) = room(tensor.info().clone()).unwrap();
        file[start..].copy_from_slice(tensor.data());
        assert_eq!(file, bytes);
    }

    #[test]
    fn the_tensors_of_an_artifact_are_those_of_its_tensor_fields() {
        let blob = || Blob { digest: Digest::of(b""), size: 0, kind: TENSOR_KIND.into() };
        let fields: Fields = [
            (tensor_field("b.weight"), Value::Blob(Arc::new(blob()))),
            (tensor_field("a.weight"), Value::Blob(Arc::new(blob()))),
            (CONFIG.to_owned(), Value::Blob(Arc::new(blob()))),
            (FAMILY.to_owned(), Value::text(DUAL_AR)),
        ]
        .into_iter()
        .collect();
        let names: Vec<&str> = tensors(&fields).map(|(name, _)| name).collect();
        assert_eq!(names, ["a.weight", "b.weight"]);
    }
}
