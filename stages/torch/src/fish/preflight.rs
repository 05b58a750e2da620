//! Checks before hours of training: the base is trained, and training and synthesis agree. Each
//! refusal gives the problem and advice.

use stage_core::StageError;
use tch::Tensor;

use super::clip::script;
use super::model::FishModel;
use crate::dual_ar::{
    ClipColumns, DualAr, DualArSampling, DualArSentence, Parity, PromptFormat, SeededNoise, Stop,
};
use crate::error::TorchError;
use crate::nn::layers::Pass;
use crate::sound::codec::Codes;
use crate::train::losses::Means;

/// A trained base has less than this share of the loss of an untrained one.
const KNOWING: f64 = 0.6;

/// The relative tolerance between two ways to the same state: small differences in half precision,
/// while a missing factor gives far larger ones.
const SAME_STATE: f64 = 0.1;

/// Frames of the spoken sentence.
const FRAMES: usize = 4;

pub struct FishPreflight<'a> {
    pub model: &'a FishModel,
    pub parity: Parity,
}

impl FishPreflight<'_> {
    /// The loss of a model with equal probabilities for all tokens.
    pub fn uniform(&self) -> f64 {
        let config = &self.model.config;
        (config.vocab_size as f64).ln() + (config.codebook_size as f64).ln()
    }

    /// Refuses a base with lost weights.
    pub fn check_base(&self, losses: &Means) -> Result<(), StageError> {
        let (loss, uniform) = (losses.total(), self.uniform());
        if self.model.lineage.random || loss <= KNOWING * uniform {
            return Ok(());
        }
        Err(StageError::with_help(
            format!(
                "the base seems untrained: its loss is {loss:.2} before training; guessing has \
                 {uniform:.2}, a trained model less than {:.2}",
                KNOWING * uniform
            ),
            "its weights are lost, or the tokens are from another codec: import the published \
             files again, and encode the clips with the codec published with them; if the base is \
             untrained on purpose, set `preflight = false`",
        ))
    }

    /// Refuses a configuration that does not state if the embeddings of codebooks are scaled, since
    /// they are in all published models of its kind.
    pub fn check_scaling(&self) -> Result<(), StageError> {
        let is_said = self.model.config_text.contains("\"scale_codebook_embeddings\"");
        if is_said || !self.model.config.slow.qk_norm {
            return Ok(());
        }
        Err(StageError::with_help(
            "`config.json` does not say if the embeddings of codebooks are scaled",
            "add `\"scale_codebook_embeddings\": true`: models with `attention_qk_norm` were \
             trained with it and speak noise without it",
        ))
    }

    /// Refuses a training with other states than synthesis.
    pub fn check_passes(&self, model: &DualAr, clip: &ClipColumns) -> Result<(), StageError> {
        if self.parity == Parity::Upstream || !model.config().scale_codebook_embeddings {
            return Ok(());
        }
        let height = model.config().num_codebooks + 1;
        let difference = || -> Result<f64, TorchError> {
            let _guard = tch::no_grad_guard();
            let columns = Tensor::from_slice(&clip.tokens).view([height, -1]);
            let columns = columns.to_kind(tch::Kind::Int64).to_device(model.device());
            let length = columns.size()[1];
            let x = model.embed(&columns.unsqueeze(0), model.parity() == Parity::Correct);
            let states = model.slow(&x, &model.causal(length), Pass::Evaluate);
            let trained = states.narrow(1, length - 1, 1).view([1, -1]);
            let (_, spoken) = model.prefill(&[&columns], 0);
            let size = spoken.norm().double_value(&[]);
            Ok((trained - spoken).norm().double_value(&[]) / size.max(f64::MIN_POSITIVE))
        };
        let difference = difference()?;
        if difference <= SAME_STATE {
            return Ok(());
        }
        Err(StageError::with_help(
            format!(
                "the hidden states of training and synthesis differ by {:.0} %, since the \
                 embeddings of codebooks are not scaled",
                100.0 * difference
            ),
            "train with `parity = \"corrected\"`",
        ))
    }

    /// Synthesises a few frames.
    pub fn speak(&self, model: &DualAr) -> Result<Stop, StageError> {
        let script = script(&self.model.vocabulary);
        let prompt = script.prompt(PromptFormat::Interleave, &[], "Hei.")?;
        let mut noise = SeededNoise::new(0);
        let sentence =
            DualArSentence { prompt: &prompt, most: FRAMES, least: 0, noise: &mut noise };
        let spoken = model.generate(vec![sentence], &DualArSampling::default())?;
        let Some(spoken) = spoken.into_iter().next() else { return Ok(Stop::Limit) };
        let values = spoken.codes.iter().map(|code| *code as u16).collect();
        let codebooks = self.model.vocabulary.codebooks();
        let codes = Codes { codebooks, frames: spoken.frames, values };
        if spoken.frames > 0 {
            self.model.vocabulary.check_codes(&codes)?;
        }
        Ok(spoken.stop)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_core::Fields;

    use super::*;
    use crate::dual_ar::SpokenText;
    use crate::fish::clip::{FishClip, FishClips, FishData};
    use crate::fish::testing::{config, vocabulary};
    use crate::fish::{DualArMemory, DualArTrainee};
    use crate::lineage::ModelLineage;
    use crate::nn::lora::{self, LoraSettings};
    use crate::train::Trainee;
    use crate::train::clips::UnusableClips;
    use crate::train::frozen::{check_frozen, digests};
    use crate::train::notes::Notes;
    use crate::train::order::ClipEntry;
    use crate::tune::preflight::{check_adapters, losses};

    fn model() -> FishModel {
        let (fields, config_text) = (Fields::new(), String::new());
        let (config, vocabulary) = (config(), vocabulary());
        FishModel { fields, config, config_text, vocabulary, lineage: ModelLineage::default() }
    }

    fn loaded(model: &FishModel, parity: Parity) -> DualAr {
        let fresh = DualAr::fresh(&model.config, 1);
        let loaded = DualAr::load(model.config.clone(), model.vocabulary.tokens(), fresh).unwrap();
        loaded.with_parity(parity)
    }

    fn clip(model: &FishModel) -> FishClip {
        let spoken = SpokenText { text: "sana", codes: &[1, 2, 3, 4, 5, 6] };
        let columns = script(&model.vocabulary).clip(PromptFormat::Interleave, &spoken).unwrap();
        let length = columns.tokens.len() / (model.vocabulary.codebooks() + 1);
        let entry = ClipEntry { id: "one".into(), length, group: 0 };
        FishClip { entry, begin: "sana".into(), content: columns }
    }

    #[test]
    fn a_training_that_does_not_scale_what_synthesis_scales_is_refused_unless_that_is_wanted() {
        let model = model();
        let (correct, upstream) = (Parity::Correct, Parity::Upstream);
        for parity in [correct, upstream] {
            let preflight = FishPreflight { model: &model, parity };
            preflight.check_passes(&loaded(&model, parity), &clip(&model).content).unwrap();
        }
        let preflight = FishPreflight { model: &model, parity: correct };
        let error =
            preflight.check_passes(&loaded(&model, upstream), &clip(&model).content).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("the hidden states of training and synthesis"), "{text}");
        assert_eq!(error.help(), Some("train with `parity = \"corrected\"`"));
    }

    #[test]
    fn a_base_that_moves_under_its_adapters_is_refused() {
        let model = model();
        let base = loaded(&model, Parity::Correct);
        let mut trainee = DualArTrainee::new(base, DualArMemory::default()).unwrap();
        let patterns = vec!["layers.*.attention.w*".to_owned()];
        let settings = LoraSettings { rank: 2, alpha: 4.0, dropout: 0.0, patterns };
        lora::attach(trainee.network_mut(), &settings, 1).unwrap();
        let before = digests(trainee.frozen()).unwrap();
        let _guard = tch::no_grad_guard();
        for (_, mut adapter) in trainee.parameters() {
            let _ = adapter.g_add_scalar_(1.0);
        }
        check_frozen(&before, &digests(trainee.frozen()).unwrap()).unwrap();
        let name = "layers.1.attention.wo.weight";
        let tensors = trainee.frozen();
        let (_, moved) = tensors.iter().find(|(own, _)| own == name).unwrap();
        let _ = moved.shallow_clone().g_mul_scalar_(1.0 + 1e-6);
        let error = check_frozen(&before, &digests(trainee.frozen()).unwrap()).unwrap_err();
        let expected = format!("1 frozen tensors moved in training, the first is `{name}`");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn adapters_that_change_the_loss_before_they_have_learnt_are_refused() {
        let model = model();
        let (clips, held_out) = (vec![clip(&model)], vec![false]);
        let (aside, notes) = (UnusableClips::default(), Notes::default());
        let clips = FishClips { clips, held_out, aside, left_out: 0, notes };
        let data = FishData::new(&clips, &model.vocabulary);
        let of = |parity: Parity| {
            let trainee =
                DualArTrainee::new(loaded(&model, parity), DualArMemory::default()).unwrap();
            losses(&trainee, &data, 1).unwrap()
        };
        let without = of(Parity::Correct);
        check_adapters(&without, &without).unwrap();
        let with = of(Parity::Upstream);
        let error = check_adapters(&without, &with).unwrap_err().to_string();
        assert!(error.starts_with("fresh adapters change the loss of the base from "), "{error}");
    }
}
