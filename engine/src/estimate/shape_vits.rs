//! The sizes of the VITS models that flow through a pipeline.

use stage_families::artifact;
use stage_families::vits::kinds as vits;
use stage_families::vits::{Config, fresh_config};

use super::Estimator;
use super::shape::Family;
use super::stage::LEAST_SHARE;
use crate::pipeline::StageSpec;

/// Published weights are in f32.
const WEIGHT_BYTES: f64 = 4.0;

const VITS: Family<Config> = Family { parse: |bytes| Config::parse(bytes).ok(), made: drawn };

fn drawn(_: &Estimator<'_>, spec: &StageSpec) -> Option<Config> {
    if spec.kind.name != vits::INIT.name {
        return None;
    }
    let symbols = spec.parameters.text("characters").ok()?.chars().count();
    fresh_config(&spec.parameters, symbols as i64).ok()
}

impl Estimator<'_> {
    /// Whether the weights of a stage are those of a VITS model: it says so, or their configuration,
    /// or those of whom it gets them or to whom it gives them.
    pub fn is_vits(&self, spec: &StageSpec) -> bool {
        let is_voice = |spec: &StageSpec| spec.kind.cost.family() == Some(artifact::VITS);
        let mut below = self.pipeline.stages.iter().filter(|below| is_voice(below));
        is_voice(spec)
            || self.find_model(spec, &VITS).is_some()
            || spec.upstream().any(|above| is_voice(self.pipeline.stage(above)))
            || below.any(|below| below.upstream().any(|above| above == spec.id))
    }

    pub fn vits_model(&self, spec: &StageSpec) -> Config {
        self.find_model(spec, &VITS).unwrap_or_else(|| {
            self.assumed.add(
                "a VITS model that is not there is taken for one of MMS: 36 million parameters, \
                 kept in f32",
            );
            Config::mms()
        })
    }

    /// Of the generator, and of the discriminator where one is made beside it.
    pub fn vits_bytes(&self, spec: &StageSpec) -> f64 {
        let config = self.vits_model(spec);
        let judge = match spec.parameters.flag("discriminator") {
            Ok(true) => config.judging_parameters(),
            _ => 0,
        };
        (config.speaking_parameters() + judge) as f64 * WEIGHT_BYTES
    }
}

/// How large a model is beside those of MMS, and so how long it takes to compute.
pub fn vits_share(config: &Config) -> f64 {
    let share = config.speaking_parameters() as f64 / Config::mms().speaking_parameters() as f64;
    share.max(LEAST_SHARE)
}
