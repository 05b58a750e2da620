//! Common parts of the files of the text model and the codec of Fish Speech.

/// Tensors that are recomputed from the configuration, wherever these words are in the name.
const REMADE: [&str; 3] = ["freqs_cis", "fast_freqs_cis", "causal_mask"];

/// The name of a tensor that is kept.
pub fn kept(name: &str) -> Option<String> {
    let last = name.rsplit('.').next().unwrap_or(name);
    (!REMADE.contains(&last)).then(|| name.to_owned())
}
