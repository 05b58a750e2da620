//! New models: sizes from the parameters of `xtts.init`, and a vocabulary.

use stage_core::{Parameters, StageError};

use super::config::{DecoderConfig, DvaeConfig, GptConfig, SpeakerEncoderConfig, XttsConfig};
use super::vocabulary::XttsVocabulary;

/// From the parameters of `xtts.init`.
pub fn config(parameters: &Parameters) -> Result<(XttsConfig, XttsVocabulary), StageError> {
    let is_published = parameters.text("shape")? == "published";
    let languages: Vec<String> = match parameters.is_set("languages") {
        true => parameters.text("languages")?.split_whitespace().map(str::to_owned).collect(),
        false => XttsConfig::published().languages,
    };
    let rows = is_published.then_some(XttsConfig::published().gpt.text_tokens);
    let vocabulary = XttsVocabulary::fresh(parameters.text("characters")?, &languages, rows)?;
    let tokens = vocabulary.text_tokens()?;
    let mut config =
        if is_published { XttsConfig::published() } else { XttsConfig::small(tokens.rows) };
    config.languages = languages;
    let gpt = &mut config.gpt;
    (gpt.text_tokens, gpt.start_text_token, gpt.stop_text_token) =
        (tokens.rows, tokens.start, tokens.stop);
    gpt.layers = parameters.integer_or("layers", gpt.layers)?;
    gpt.width = parameters.integer_or("width", gpt.width)?;
    gpt.heads = parameters.integer_or("heads", gpt.heads)?;
    gpt.conditioning_heads = gpt.heads;
    config.decoder.input_width = gpt.width;
    config.dvae.codes = parameters.integer_or("audio_codes", config.dvae.codes)?;
    gpt.audio_tokens = config.dvae.codes + 2;
    gpt.start_audio_token = config.dvae.codes;
    gpt.stop_audio_token = config.dvae.codes + 1;
    config.check()?;
    Ok((config, vocabulary))
}

impl XttsConfig {
    /// With this number of text tokens; `[STOP]` is 0 and `[START]` the last. Rates, mel bins and
    /// the perceiver's heads are those of the published model.
    pub fn small(text_tokens: i64) -> XttsConfig {
        let published = XttsConfig::published();
        XttsConfig {
            gpt: GptConfig {
                layers: 2,
                width: 64,
                heads: 4,
                conditioning_heads: 4,
                text_tokens,
                start_text_token: text_tokens - 1,
                audio_tokens: 34,
                start_audio_token: 32,
                stop_audio_token: 33,
                max_text_tokens: 200,
                max_audio_tokens: 256,
                ..published.gpt
            },
            dvae: DvaeConfig {
                codes: 32,
                codebook_width: 16,
                hidden: 16,
                residual_blocks: 1,
                ..published.dvae
            },
            decoder: DecoderConfig {
                input_width: 64,
                initial_channels: 32,
                resblock_kernels: vec![3],
                resblock_dilations: vec![vec![1, 3, 5]],
                speaker_width: 32,
                ..published.decoder
            },
            speaker_encoder: SpeakerEncoderConfig {
                blocks: [1; 4],
                channels: [8, 8, 16, 16],
                width: 32,
                ..published.speaker_encoder
            },
            ..published
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_core::ParameterValue;

    use super::*;

    fn made(values: &[(&str, ParameterValue)]) -> Result<(XttsConfig, XttsVocabulary), StageError> {
        let text = |text: &str| ParameterValue::Text(text.to_owned());
        let mut all = vec![("shape", text("small")), ("characters", text("abc"))];
        all.extend_from_slice(values);
        let named = all.into_iter().map(|(name, value)| (name.to_owned(), value));
        config(&Parameters(named.collect()))
    }

    #[test]
    fn the_vocabulary_decides_the_rows_of_the_text() {
        let languages = ParameterValue::Text("en fi".to_owned());
        let (config, _) = made(&[("languages", languages)]).unwrap();
        // Stop, unknown, space, three characters, two tags, start.
        assert_eq!((config.gpt.text_tokens, config.gpt.start_text_token), (9, 8));
        assert_eq!(config.languages, ["en", "fi"]);
        let published = ParameterValue::Text("published".to_owned());
        let (config, _) = made(&[("shape", published)]).unwrap();
        assert_eq!(config, XttsConfig::published());
    }

    #[test]
    fn another_width_changes_what_depends_on_it() {
        let values =
            [("width", ParameterValue::Integer(96)), ("heads", ParameterValue::Integer(6))];
        let (config, _) = made(&values).unwrap();
        assert_eq!((config.decoder.input_width, config.gpt.conditioning_heads), (96, 6));
        assert!(made(&values[..1]).is_ok());
        assert!(made(&[("width", ParameterValue::Integer(66))]).is_err());
    }
}
