//! The fields of a configuration that no release of its project has. They are kept and change
//! nothing, and a user who wrote one should know.

use serde_json::Value;
use stage_core::escape::clean;
use stage_formats::shapes::listed;

/// The fields of every configuration of transformers.
pub const TRANSFORMERS_FIELDS: &str = "\
    _commit_hash _name_or_path add_cross_attention architectures attn_implementation \
    bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward \
    cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample dtype \
    early_stopping encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty \
    finetuning_task forced_bos_token_id forced_eos_token_id id2label is_decoder \
    is_encoder_decoder label2id length_penalty max_length min_length model_type \
    no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_attentions \
    output_hidden_states output_scores pad_token_id prefix problem_type pruned_heads \
    remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id \
    suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder \
    tie_word_embeddings tokenizer_class top_k top_p torch_dtype torchscript transformers_version \
    typical_p use_bfloat16";

/// A note on the fields of a part of a configuration that no list in `known` has. A list is a text
/// of names with spaces between them; `part` is empty for the whole.
pub fn unknown_fields(config: &[u8], part: &str, known: &[&str]) -> Vec<(String, u64)> {
    let parsed: Value = serde_json::from_slice(config).unwrap_or_default();
    let fields = if part.is_empty() { Some(&parsed) } else { parsed.get(part) };
    let Some(fields) = fields.and_then(Value::as_object) else { return Vec::new() };
    let is_known = |name: &str| {
        known.iter().flat_map(|names| names.split_whitespace()).any(|known| known == name)
    };
    let unknown: Vec<&str> =
        fields.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
    let place = match part {
        "" => "`config.json`".to_owned(),
        part => format!("`{part}` of `config.json`"),
    };
    let names = listed(unknown.iter().copied());
    let note = format!("fields of {place} without effect: {}", clean(&names));
    (!unknown.is_empty()).then_some((note, unknown.len() as u64)).into_iter().collect()
}
