//! `speakers_xtts.pth`: the voices that come with a model, each with conditioning latents of the
//! GPT and a speaker vector of the decoder.

use std::collections::BTreeMap;

use stage_formats::{FormatError, Tensor, WeightFile};

use super::config::XttsConfig;

const LATENTS: &str = "gpt_cond_latent";
const VECTOR: &str = "speaker_embedding";

/// A file with tensors that fit the model.
pub struct Speakers {
    file: WeightFile,
    /// The names of latents and vector in the file, by speaker.
    speakers: BTreeMap<String, [String; 2]>,
}

/// One voice: latents `[1, 32, width]` and a vector `[1, speaker width, 1]`.
pub struct Speaker {
    pub latents: Tensor,
    pub vector: Tensor,
}

impl Speakers {
    /// # Errors
    ///
    /// For a speaker that lacks one of the two, or has one of another shape.
    pub fn read(file: WeightFile, config: &XttsConfig) -> Result<Speakers, FormatError> {
        let gpt = &config.gpt;
        let expected = [vec![1, gpt.latents, gpt.width], vec![1, config.decoder.speaker_width, 1]];
        let mut speakers: BTreeMap<String, [Option<String>; 2]> = BTreeMap::new();
        for (stored, info) in file.tensors() {
            let Some((name, part)) = stored.rsplit_once('.') else { continue };
            let Some(at) = [LATENTS, VECTOR].iter().position(|own| *own == part) else { continue };
            let shape: Vec<i64> = info.shape.iter().map(|size| *size as i64).collect();
            if shape != expected[at] {
                let message = format!("its shape is {shape:?} instead of {:?}", expected[at]);
                return Err(FormatError::Tensor { name: stored.to_owned(), message });
            }
            speakers.entry(name.to_owned()).or_default()[at] = Some(stored.to_owned());
        }
        let whole = |(name, parts): (String, [Option<String>; 2])| match parts {
            [Some(latents), Some(vector)] => Ok((name, [latents, vector])),
            _ => Err(FormatError::Tensor {
                name,
                message: "it has only one of its two parts".into(),
            }),
        };
        let speakers: Result<_, FormatError> = speakers.into_iter().map(whole).collect();
        Ok(Speakers { file, speakers: speakers? })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.speakers.keys().map(String::as_str)
    }

    /// The voice of this name, if there is one.
    pub fn speaker(&self, name: &str) -> Result<Option<Speaker>, FormatError> {
        let Some([latents, vector]) = self.speakers.get(name) else { return Ok(None) };
        let (latents, vector) = (self.finite(latents)?, self.finite(vector)?);
        Ok(Some(Speaker { latents, vector }))
    }

    fn finite(&self, name: &str) -> Result<Tensor, FormatError> {
        let tensor = self.file.tensor(name)?;
        match tensor.to_f32().iter().all(|value| value.is_finite()) {
            true => Ok(tensor),
            false => {
                let message = "it has values that are not finite".into();
                Err(FormatError::Tensor { name: name.to_owned(), message })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_formats::safetensors;

    use super::*;

    fn file(tensors: &[(&str, &[usize])]) -> WeightFile {
        filled(tensors, 0.5)
    }

    fn filled(tensors: &[(&str, &[usize])], value: f32) -> WeightFile {
        let tensors: Vec<(&str, Tensor)> = tensors
            .iter()
            .map(|(name, shape)| {
                let values = vec![value; shape.iter().product()];
                (*name, Tensor::from_f32(shape.to_vec(), &values).unwrap())
            })
            .collect();
        let named = tensors.iter().map(|(name, tensor)| (*name, tensor));
        WeightFile::read(safetensors::write(named).unwrap()).unwrap()
    }

    #[test]
    fn voices_are_found_by_names_with_spaces_and_dots() {
        let config = XttsConfig::small(40);
        let (latents, vector): (&[usize], &[usize]) = (&[1, 32, 64], &[1, 32, 1]);
        let both = [("A. B.gpt_cond_latent", latents), ("A. B.speaker_embedding", vector)];
        let speakers = Speakers::read(file(&both), &config).unwrap();
        assert_eq!(speakers.names().collect::<Vec<_>>(), ["A. B"]);
        let voice = speakers.speaker("A. B").unwrap().unwrap();
        assert_eq!(voice.vector.shape(), [1, 32, 1]);
        assert!(speakers.speaker("A").unwrap().is_none());
        assert!(Speakers::read(file(&both[..1]), &config).is_err());
        let other = [("A.gpt_cond_latent", &[1usize, 32, 1024][..])];
        let error = Speakers::read(file(&other), &config).err().unwrap().to_string();
        assert!(error.contains("[1, 32, 1024] instead of [1, 32, 64]"), "{error}");
    }

    #[test]
    fn a_voice_of_no_numbers_is_refused_with_the_name_of_its_tensor() {
        let (latents, vector): (&[usize], &[usize]) = (&[1, 32, 64], &[1, 32, 1]);
        let both = [("A.gpt_cond_latent", latents), ("A.speaker_embedding", vector)];
        for value in [f32::NAN, f32::INFINITY] {
            let speakers = Speakers::read(filled(&both, value), &XttsConfig::small(40)).unwrap();
            let error = speakers.speaker("A").err().unwrap().to_string();
            assert!(error.contains("`A.gpt_cond_latent`"), "{error}");
            assert!(error.contains("has values that are not finite"), "{error}");
        }
    }
}
