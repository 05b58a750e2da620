//! `vits.init`: a VITS model with random weights.

use stage_core::catalogue::vits;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, Parameters, Setup, Stage, StageError,
};
use stage_formats::artifact;
use stage_formats::vits::{TextRules, tokenizer_config_file, vocabulary_file};

use super::fresh;
use crate::error::guarded;
use crate::vits::{Config, fresh as drawn};

pub struct VitsInit;

impl Stage for VitsInit {
    fn kind(&self) -> &'static Kind {
        &vits::INIT
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(InitJob { parameters: setup.parameters })))
    }
}

struct InitJob {
    parameters: Parameters,
}

impl GatherJob for InitJob {
    fn run(
        &mut self,
        _: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        guarded(|| self.make(context))
    }
}

impl InitJob {
    fn make(&self, context: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let symbols: Vec<String> =
            self.parameters.text("characters")?.chars().map(String::from).collect();
        let rules = TextRules { add_blank: true, is_uroman: false };
        let vocabulary = vocabulary_file(&symbols)?;
        let text = fresh::config_file(&self.config(symbols.len() as i64)?)?;
        let config = Config::parse(&text)?;
        let files = vec![
            (artifact::CONFIG, text),
            (artifact::VOCABULARY, vocabulary),
            (artifact::TOKENIZER_CONFIG, tokenizer_config_file(&symbols, rules)),
        ];
        let seed = self.parameters.integer("seed")? as u64;
        let judge = match self.parameters.flag("discriminator")? {
            true => Some(drawn::discriminator(&config, seed)?),
            false => None,
        };
        let generator = drawn::generator(&config, seed)?;
        let tensors = generator.into_iter().chain(judge.into_iter().flatten());
        fresh::output((&vits::INIT, artifact::VITS), files, tensors, context)
    }

    fn config(&self, symbols: i64) -> Result<Config, StageError> {
        let mut config = match self.parameters.text("shape")? {
            "mms" => Config { model_type: "vits".into(), ..Config::default() },
            _ => small(),
        };
        let figure = |name: &str, preset: i64| match self.parameters.is_set(name) {
            true => self.parameters.integer(name),
            false => Ok(preset),
        };
        config.vocab_size = symbols;
        config.sampling_rate = self.parameters.integer("rate")?;
        let hidden = figure("hidden", config.hidden_size)?;
        if hidden != config.hidden_size {
            config.ffn_dim = 4 * hidden;
            config.flow_size = hidden;
            config.hidden_size = hidden;
        }
        config.num_hidden_layers = figure("layers", config.num_hidden_layers)?;
        config.upsample_initial_channel = figure("channels", config.upsample_initial_channel)?;
        config.num_speakers = figure("speakers", 1)?;
        if config.num_speakers > 1 {
            config.speaker_embedding_size = config.hidden_size;
        }
        Ok(config)
    }
}

/// Frames and the length of parts are those of the published models.
fn small() -> Config {
    Config {
        model_type: "vits".into(),
        hidden_size: 32,
        num_hidden_layers: 2,
        ffn_dim: 128,
        flow_size: 32,
        upsample_initial_channel: 32,
        resblock_kernel_sizes: vec![3],
        resblock_dilation_sizes: vec![vec![1, 3]],
        prior_encoder_num_flows: 2,
        prior_encoder_num_wavenet_layers: 2,
        posterior_encoder_num_wavenet_layers: 4,
        duration_predictor_filter_channels: 32,
        discriminator_periods: vec![2, 3],
        discriminator_period_channels: vec![1, 8, 16],
        discriminator_scale_channels: vec![1, 16, 16],
        ..Config::default()
    }
}
