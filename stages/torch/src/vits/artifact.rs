//! A model as an artifact: reading and writing.

use std::sync::Arc;

use stage_core::{Blob, Context, Fields, NewValue, Reject, StageError, Value};
use stage_families::artifact;
use stage_families::vits::{
    PHONEMES, PHONEMISE, ROMANISE, Tokens, VitsTokenizer, config_for_speakers, read_speakers,
    write_speakers,
};
use tch::Device;

use super::VitsConfig;
use super::load::{NetworkWeights, WeightForm, prepare};
use crate::error::TorchError;
use crate::lineage::{self, ModelLineage};
use crate::port_model::{Family, PortModel};
use crate::stored;

/// Fields that are passed on unchanged to derived models.
const CARRIED: [&str; 3] = [artifact::VOCABULARY, artifact::TOKENIZER_CONFIG, artifact::LICENSE];

const FAMILY: Family = Family {
    name: artifact::VITS,
    title: "VITS model",
    advice: "read from a `model.import`, `vits.init` or `vits.finetune` stage",
};

/// A model that arrived on a port; its tensors are still in the store.
#[derive(Clone, Debug)]
pub struct VitsModel {
    pub fields: Fields,
    pub config: VitsConfig,
    pub tokenizer: VitsTokenizer,
    /// The names of the speakers by number, if known.
    pub speakers: Option<Vec<String>>,
    pub lineage: ModelLineage,
    config_file: Arc<Blob>,
}

impl VitsModel {
    pub fn read(
        port: &str,
        fields: Option<&Fields>,
        context: &mut dyn Context,
    ) -> Result<VitsModel, StageError> {
        let arrived = PortModel::on(port, fields, &FAMILY)?;
        let config_file = arrived.blob(artifact::CONFIG)?;
        let config = super::load::parse(&context.read(config_file)?)?;
        let vocabulary = arrived.file(artifact::VOCABULARY, context)?;
        let settings = arrived.file(artifact::TOKENIZER_CONFIG, context)?;
        let tokenizer = VitsTokenizer::read(&vocabulary, &settings)?;
        if tokenizer.size() > config.vocab_size {
            let (tokens, rows) = (tokenizer.size(), config.vocab_size);
            let why =
                format!("its tokenizer has {tokens} tokens, but its embeddings have {rows} rows");
            return Err(arrived.refused(&why));
        }
        Ok(VitsModel {
            speakers: speakers(&arrived, &config)?,
            lineage: ModelLineage::of(arrived.fields),
            fields: arrived.fields.clone(),
            config,
            tokenizer,
            config_file: config_file.clone(),
        })
    }

    /// Sets the names of all speakers.
    pub fn set_speakers(
        &mut self,
        names: Vec<String>,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let count = names.len() as i64;
        if count != self.config.num_speakers {
            let file = config_for_speakers(&context.read(&self.config_file)?, count)?;
            self.config_file = context.keep(artifact::CONFIG_KIND, file.into())?.into();
            self.config.num_speakers = count;
        }
        self.speakers = Some(names);
        Ok(())
    }

    /// Declares the posterior encoder of a model that only speaks.
    pub fn complete(&mut self, context: &mut dyn Context) -> Result<(), StageError> {
        let file = VitsConfig::completed(&context.read(&self.config_file)?)?;
        self.config = super::load::parse(&file)?;
        self.config_file = context.keep(artifact::CONFIG_KIND, file.into())?.into();
        Ok(())
    }

    /// Its tensors on a device, in the requested form.
    pub fn prepared(
        &self,
        form: WeightForm,
        device: Device,
        context: &mut dyn Context,
    ) -> Result<NetworkWeights, StageError> {
        Ok(prepare(&self.config, stored::weights(&self.fields, context)?, form, device)?)
    }

    /// The fields of a derived model, without its tensors.
    pub fn carried(&self, lineage: &ModelLineage) -> Vec<(String, NewValue)> {
        let carried = CARRIED.iter().filter_map(|name| {
            let value = self.fields.get(name)?;
            Some(((*name).to_owned(), NewValue::Kept(value.clone())))
        });
        let text = |name: &str, text: String| (name.to_owned(), NewValue::Text(text));
        let config = NewValue::Kept(Value::Blob(self.config_file.clone()));
        let own = [
            (artifact::CONFIG.to_owned(), config),
            text(artifact::FAMILY, artifact::VITS.into()),
            text(artifact::LINEAGE, lineage::to_text(lineage)),
        ];
        let speakers = self.speakers.as_deref().map(write_speakers);
        let speakers = speakers.map(|names| text(artifact::SPEAKERS, names));
        carried.chain(own).chain(speakers).collect()
    }

    /// The tokenized text of an item, or its phonemes in a model that reads them, with a report of
    /// unknown characters.
    pub fn tokens_of(&self, fields: &Fields) -> Result<Tokens, Reject> {
        if !self.tokenizer.reads_phonemes() {
            return self.tokens(fields.text("text").unwrap_or_default());
        }
        let phonemes = fields.text(PHONEMES).ok_or_else(|| {
            Reject::new("phonemes", format!("the model reads phonemes; {PHONEMISE}"))
        })?;
        self.tokens(phonemes)
    }

    /// A tokenized text, with a report of unknown characters.
    pub fn tokens(&self, text: &str) -> Result<Tokens, Reject> {
        let tokens = self.tokenizer.encode(&self.tokenizer.prepare(text));
        if tokens.needs_uroman {
            let reason =
                format!("the model needs romanised text, but this text is not; {ROMANISE}");
            return Err(Reject::new("uroman", reason));
        }
        if tokens.ids.is_empty() {
            Err(Reject::new("unknown", "the model knows none of the characters of the text"))
        } else {
            Ok(tokens)
        }
    }

    /// The number of a speaker, by name or as digits; None for a model with one speaker.
    ///
    /// # Errors
    ///
    /// If the model has several, and not this one.
    pub fn speaker(&self, name: Option<&str>) -> Result<Option<i64>, TorchError> {
        let count = self.config.num_speakers;
        if count < 2 {
            return Ok(None);
        }
        let known = self.speakers.as_deref().unwrap_or_default();
        let number = name.and_then(|name| {
            let place = known.iter().position(|own| own == name).map(|place| place as i64);
            place.or_else(|| name.parse().ok().filter(|number| (0..count).contains(number)))
        });
        let asked = name.map_or("no speaker is given".to_owned(), |name| {
            format!("the model has no speaker `{name}`")
        });
        number.map(Some).ok_or_else(|| {
            let names = match known {
                [] => format!("0 to {}", count - 1),
                known => known.join(", "),
            };
            TorchError::Input(format!("{asked}; speakers of the model: {names}"))
        })
    }
}

fn speakers(arrived: &PortModel, config: &VitsConfig) -> Result<Option<Vec<String>>, StageError> {
    let list = arrived.fields.text(artifact::SPEAKERS);
    let names = list.map(|list| read_speakers(list.as_bytes(), config)).transpose();
    names.map_err(|error| arrived.refused(&error.to_string()))
}
