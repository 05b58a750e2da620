//! `vq.fit`: fits the built-in codec on a corpus.

use stage_core::{
    Blob, Context, GatherInput, GatherJob, GatherOutput, Item, Job, Kind, NewValue, PortOutput,
    Setup, Stage, StageError,
};
use stage_families::kinds::vq;

use super::arrived::blob;
use crate::nn::random::scramble;
use crate::sound::mel::MelShape;
use crate::sound::mel_rvq::Config;
use crate::sound::mel_rvq_fit::{FrameDraw, fit};
use crate::sound::wave::{self, Wave};

/// The media type of a fitted codec.
const MODEL_KIND: &str = "model/safetensors";

pub struct VqFit;

impl Stage for VqFit {
    fn kind(&self) -> &'static Kind {
        &vq::FIT
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        let count = |name| setup.parameters.integer(name).map(|number| number.max(1) as usize);
        Ok(Job::Gather(Box::new(FitJob {
            codebooks: count("codebooks")?,
            entries: count("entries")?,
            clips: count("clips")?,
            frames: count("frames")?,
            seed: setup.parameters.integer("seed")? as u64,
        })))
    }
}

struct FitJob {
    codebooks: usize,
    entries: usize,
    clips: usize,
    frames: usize,
    seed: u64,
}

impl GatherJob for FitJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        self.fit(input.items("input")?, context)
    }
}

impl FitJob {
    fn fit(&self, items: &[Item], context: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let clips = self.draw_clips(items)?;
        let total = (clips.len() + self.codebooks) as u64;
        let (config, frames) = self.draw_frames(&clips, total, context)?;
        let mut step = |done: usize| -> Result<(), StageError> {
            context.progress((clips.len() + done) as u64, total);
            if context.stopping() { Err(StageError::Stopped) } else { Ok(()) }
        };
        let fitted = fit(config, &frames, self.seed, &mut step)?;
        let model = NewValue::bytes(MODEL_KIND, fitted.model.save()?);
        let artifact = PortOutput::Artifact(vec![("model".to_owned(), model)]);
        Ok(GatherOutput::default().with("output", artifact))
    }

    /// The clips with the lowest ranks by content, each content once.
    fn draw_clips<'a>(&self, items: &'a [Item]) -> Result<Vec<(&'a str, &'a Blob)>, StageError> {
        let mut ranked = Vec::with_capacity(items.len());
        for item in items {
            let blob = blob(item, "audio")?;
            ranked.push((clip_rank(self.seed, blob), blob.digest, &*item.id, blob));
        }
        ranked.sort_by_key(|(rank, digest, id, _)| (*rank, *digest, *id));
        ranked.dedup_by_key(|(_, digest, _, _)| *digest);
        ranked.truncate(self.clips);
        Ok(ranked.into_iter().map(|(_, _, id, blob)| (id, blob)).collect())
    }

    fn draw_frames(
        &self,
        clips: &[(&str, &Blob)],
        total: u64,
        context: &mut dyn Context,
    ) -> Result<(Config, Vec<f32>), StageError> {
        let mut drawing: Option<(Config, &str, FrameDraw)> = None;
        for (done, (id, blob)) in clips.iter().enumerate() {
            context.progress(done as u64, total);
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            let wave = read_wave(id, blob, context)?;
            let (config, first, mut draw) = match drawing.take() {
                Some(drawing) => drawing,
                None => self.begin(id, wave.rate)?,
            };
            if config.mel.rate != wave.rate {
                return Err(two_rates(first, config.mel.rate, id, wave.rate));
            }
            draw.add(blob.digest.as_bytes(), &wave.samples)?;
            drawing = Some((config, first, draw));
        }
        match drawing {
            Some((config, _, draw)) => Ok((config, draw.frames())),
            None => Err(StageError::failed("there are no clips to fit a codec on")),
        }
    }

    fn begin<'a>(
        &self,
        id: &'a str,
        rate: u32,
    ) -> Result<(Config, &'a str, FrameDraw), StageError> {
        let config = Config::new(MelShape::at_rate(rate), self.codebooks, self.entries);
        Ok((config, id, FrameDraw::new(&config, self.frames, self.seed)?))
    }
}

/// Another hash than that of the frames, so that both draws are independent.
fn clip_rank(seed: u64, blob: &Blob) -> u64 {
    scramble(scramble(!seed) ^ blob.digest.start())
}

fn read_wave(id: &str, blob: &Blob, context: &mut dyn Context) -> Result<Wave, StageError> {
    wave::read(&context.read(blob)?)
        .map_err(|reject| StageError::failed(format!("clip `{id}`: {reject}")))
}

fn two_rates(first: &str, first_rate: u32, other: &str, other_rate: u32) -> StageError {
    StageError::with_help(
        format!("clip `{first}` has {first_rate} Hz, clip `{other}` has {other_rate} Hz"),
        "put `audio.resample` before this stage",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::nn::random::Random;
    use crate::testing::{Bench, wave_item};
    use stage_core::PortInput;

    fn job(clips: usize) -> FitJob {
        FitJob { codebooks: 2, entries: 8, clips, frames: 500, seed: 1 }
    }

    fn noise(number: usize) -> Vec<f32> {
        let mut random = Random::new(number as u64);
        (0..8_000).map(|_| random.fraction() as f32 - 0.5).collect()
    }

    fn corpus(bench: &mut Bench, count: usize) -> Vec<Item> {
        (0..count).map(|at| wave_item(bench, at, 16_000, &noise(at))).collect()
    }

    fn run(job: &mut FitJob, items: Vec<Item>, bench: &mut Bench) -> Result<Vec<u8>, StageError> {
        let data = PortInput::Dataset { stage: "clips".into(), items, rejects: Vec::new() };
        let input = GatherInput { ports: [("input".to_owned(), vec![data])].into() };
        let output = job.run(input, bench)?;
        let Some(PortOutput::Artifact(values)) = output.ports.get("output") else {
            return Err(StageError::failed("no artifact"));
        };
        match &values[..] {
            [(name, NewValue::Bytes { bytes, .. })] if name == "model" => Ok(bytes.to_vec()),
            other => Err(StageError::failed(format!("{other:?}"))),
        }
    }

    #[test]
    fn names_and_order_of_clips_do_not_matter() {
        let mut bench = Bench::default();
        let items = corpus(&mut bench, 5);
        let model = run(&mut job(9), items.clone(), &mut bench).unwrap();
        let renamed = items.iter().rev().enumerate();
        let renamed = renamed.map(|(at, item)| Item::new(format!("x{at}"), item.fields.clone()));
        assert_eq!(run(&mut job(9), renamed.collect(), &mut bench).unwrap(), model);
    }

    #[test]
    fn only_drawn_clips_are_read_and_others_do_not_matter() {
        let mut bench = Bench::default();
        let items = corpus(&mut bench, 12);
        let model = run(&mut job(3), items.clone(), &mut bench).unwrap();
        assert_eq!(bench.reads, 3);
        let chosen: Vec<String> =
            job(3).draw_clips(&items).unwrap().iter().map(|(id, _)| (*id).to_owned()).collect();
        let drawn = items.iter().filter(|item| chosen.iter().any(|id| **id == *item.id));
        let drawn: Vec<Item> = drawn.cloned().collect();
        assert_eq!(run(&mut job(3), drawn, &mut bench).unwrap(), model);
        assert_ne!(run(&mut job(4), items, &mut bench).unwrap(), model);
    }

    #[test]
    fn progress_rises_to_the_end_and_a_stop_is_heeded_at_every_point() {
        let mut bench = Bench::default();
        let items = corpus(&mut bench, 3);
        run(&mut job(9), items.clone(), &mut bench).unwrap();
        let expected: Vec<(u64, u64)> = (0..=5).map(|done| (done, 5)).collect();
        assert_eq!(bench.progress, expected);
        for looks in 0..=5 {
            bench.stop_after = Some(looks);
            let error = run(&mut job(9), items.clone(), &mut bench).unwrap_err();
            assert_eq!(error, StageError::Stopped, "{looks}");
        }
    }

    #[test]
    fn clips_that_cannot_be_fitted_on_are_named() {
        let mut bench = Bench::default();
        let error = |items, bench: &mut Bench| run(&mut job(9), items, bench).unwrap_err();
        let none = error(Vec::new(), &mut bench);
        assert_eq!(none.to_string(), "there are no clips to fit a codec on");
        let mixed = vec![
            wave_item(&mut bench, 1, 16_000, &[0.1; 100]),
            wave_item(&mut bench, 2, 22_050, &[0.1; 100]),
        ];
        let mixed = error(mixed, &mut bench).to_string();
        assert!(mixed.contains("`clip001` has 16000 Hz"), "{mixed}");
        assert!(mixed.contains("`clip002` has 22050 Hz"), "{mixed}");
        let broken = vec![bench.item(7, "audio", "audio/wav", b"<html>")];
        let broken = error(broken, &mut bench).to_string();
        assert!(broken.starts_with("clip `clip007`: not a plain WAV file"), "{broken}");
    }
}
