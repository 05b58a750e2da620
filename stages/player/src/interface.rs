//! The inputs of a graph that speaks, by their names.

use stage_core::StageError;
use stage_core::escape::clean;

/// The names of inputs, as two kinds of players know them.
const TOKENS: [&str; 2] = ["input", "x"];
const LENGTHS: [&str; 3] = ["input_lengths", "x_length", "x_lengths"];
const SCALES: &str = "scales";
const NOISE: &str = "noise_scale";
const LENGTH: &str = "length_scale";
const NOISE_OF_DURATIONS: &str = "noise_scale_w";
const SPEAKER: &str = "sid";

/// What an input is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRole {
    Tokens,
    TokenCount,
    /// Noise, length and noise of durations together.
    Scales,
    NoiseScale,
    LengthScale,
    NoiseScaleOfDurations,
    Speaker,
    /// Normal noise, the list of this number.
    Noise(usize),
}

/// The roles of inputs that hold normal noise, by their names.
pub fn noise_input(number: usize) -> String {
    format!("throstle_noise_{number}")
}

impl InputRole {
    /// The role of an input that [`roles`] has checked.
    ///
    /// # Errors
    ///
    /// If it is another one.
    pub fn of(name: &str) -> Result<InputRole, StageError> {
        InputRole::read(name)
            .ok_or_else(|| no_voice(&format!("it has the input `{}`", clean(name))))
    }

    fn read(name: &str) -> Option<InputRole> {
        let noise = name.strip_prefix("throstle_noise_").and_then(|number| number.parse().ok());
        Some(match name {
            _ if TOKENS.contains(&name) => InputRole::Tokens,
            _ if LENGTHS.contains(&name) => InputRole::TokenCount,
            SCALES => InputRole::Scales,
            NOISE => InputRole::NoiseScale,
            LENGTH => InputRole::LengthScale,
            NOISE_OF_DURATIONS => InputRole::NoiseScaleOfDurations,
            SPEAKER => InputRole::Speaker,
            _ => InputRole::Noise(noise?),
        })
    }
}

/// The roles of the inputs of a whole graph.
///
/// # Errors
///
/// If it has other inputs, or takes no tokens.
pub fn roles<'a>(
    inputs: impl Iterator<Item = &'a str>,
) -> Result<Vec<(String, InputRole)>, StageError> {
    let roles = inputs
        .map(|name| Ok((name.to_owned(), InputRole::of(name)?)))
        .collect::<Result<Vec<_>, StageError>>()?;
    let takes = |wanted: InputRole| roles.iter().any(|(_, role)| *role == wanted);
    if takes(InputRole::Tokens) && takes(InputRole::TokenCount) {
        Ok(roles)
    } else {
        Err(no_voice("it has no input for tokens and their number"))
    }
}

fn no_voice(why: &str) -> StageError {
    StageError::failed(format!("the graph is not one of a voice: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn inputs_of_both_players_are_known_and_others_are_named() {
        let read = |names: &[&str]| roles(names.iter().copied());
        let known = read(&["input", "input_lengths", "scales", "sid", &noise_input(1)]).unwrap();
        let known: Vec<InputRole> = known.into_iter().map(|(_, role)| role).collect();
        assert_eq!(known[2..], [InputRole::Scales, InputRole::Speaker, InputRole::Noise(1)]);
        assert!(read(&["x", "x_length", "noise_scale", "length_scale", "noise_scale_w"]).is_ok());
        let error = read(&["input", "input_lengths", "langid"]).unwrap_err().to_string();
        assert!(error.contains("`langid`"), "{error}");
        assert!(read(&["scales"]).unwrap_err().to_string().contains("no input for tokens"));
    }
}
