//! A recogniser as an artifact.

use stage_core::{Context, Fields, StageError};
use stage_families::artifact;
use stage_families::wav2vec2::{CtcVocabulary, Preprocessor, Wav2Vec2Config};
use tch::Device;

use super::model::Wav2Vec2;
use crate::port_model::{Family, PortModel};
use crate::stored;

const FAMILY: Family = Family {
    name: artifact::WAV2VEC2,
    title: "speech recogniser",
    advice: "read from a `model.import` stage with a checkpoint of Wav2Vec2ForCTC",
};

/// A model that arrived on a port; its tensors are still in the store.
#[derive(Debug)]
pub struct Wav2Vec2Model {
    fields: Fields,
    pub config: Wav2Vec2Config,
    pub preprocessor: Preprocessor,
    pub vocabulary: CtcVocabulary,
}

impl Wav2Vec2Model {
    pub fn read(
        port: &str,
        fields: Option<&Fields>,
        context: &mut dyn Context,
    ) -> Result<Wav2Vec2Model, StageError> {
        let arrived = PortModel::on(port, fields, &FAMILY)?;
        let mut file = |name: &str| arrived.file(name, context);
        let config = Wav2Vec2Config::parse(&file(artifact::CONFIG)?)?;
        Ok(Wav2Vec2Model {
            preprocessor: Preprocessor::parse(&file(artifact::PREPROCESSOR)?)?,
            vocabulary: CtcVocabulary::read(&file(artifact::VOCABULARY)?, &config)?,
            config,
            fields: arrived.fields.clone(),
        })
    }

    pub fn load(&self, device: Device, context: &mut dyn Context) -> Result<Wav2Vec2, StageError> {
        let weights = stored::weights(&self.fields, context)?;
        Ok(Wav2Vec2::load(&self.config, self.preprocessor, weights, device)?)
    }
}
