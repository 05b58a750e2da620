//! The recordings of one sentence at the same loudness, and muffled copies of them.

use crate::audio::Fault;
use crate::audio::clip::Clip;
use crate::audio::loudness::{LoudnessTarget, level};
use crate::audio::resample::resample;
use crate::audio::trim::{self, trim};

/// Recordings are quieter than the target by less than this; only noise is not.
const LARGEST_GAIN: f64 = 40.0;
/// Sounds above half of this rate are missing in a muffled copy.
const DULL_RATE: u32 = 7_000;

/// Without the silence before and after the speech, if there is any speech.
pub fn trimmed(clip: Clip) -> Clip {
    match trim(clip.clone(), &trim::TrimOptions::default()) {
        Ok(trimmed) => trimmed.clip,
        Err(_) => clip,
    }
}

/// The clips at one loudness: the target, or the highest that none of them clips at. Silence stays
/// as it is.
pub fn matched(clips: Vec<Clip>, target: f64) -> Result<Vec<Clip>, Fault> {
    let options = LoudnessTarget {
        target_lufs: target,
        max_gain_db: LARGEST_GAIN,
        ..LoudnessTarget::default()
    };
    let mut reached = target;
    for clip in &clips {
        let levelled = level(clip.clone(), &options)?;
        if let Some(loudness) = levelled.loudness {
            reached = reached.min(loudness.lufs() + levelled.gain_db);
        }
    }
    let options = LoudnessTarget { target_lufs: reached, ..options };
    clips.into_iter().map(|clip| Ok(level(clip, &options)?.clip)).collect()
}

/// A copy without high sounds; None where the clip has none.
pub fn dull(clip: &Clip) -> Option<Clip> {
    if clip.rate <= DULL_RATE + 1_000 {
        return None;
    }
    let low = resample(clip.clone(), DULL_RATE).ok()?.clip;
    Some(resample(low, clip.rate).ok()?.clip)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::audio::loudness::loudness;

    const RATE: u32 = 16_000;

    /// A tone, with one loud sample in each tenth of a second.
    fn tone(hertz: f64, level: f64, peak: i16) -> Clip {
        let sample = |at: u32| match at % 1_600 {
            0 => peak,
            _ => ((f64::from(at) * hertz * 0.000_392_7).sin() * level * 32_767.0) as i16,
        };
        Clip::mono(RATE, (0..RATE * 2).map(sample).collect())
    }

    fn lufs(clip: &Clip) -> f64 {
        loudness(clip.clone()).unwrap().unwrap().lufs()
    }

    #[test]
    fn recordings_of_a_sentence_have_one_loudness() {
        let clips = vec![tone(300.0, 0.5, 0), tone(200.0, 0.01, 0), tone(400.0, 0.1, 0)];
        let matched = matched(clips, -23.0).unwrap();
        assert!(matched.iter().all(|clip| (lufs(clip) + 23.0).abs() < 0.1));
    }

    /// One that would clip must not be heard as the quieter one.
    #[test]
    fn where_one_would_clip_all_are_quieter() {
        let clips = vec![tone(300.0, 0.001, 32_000), tone(300.0, 0.5, 0)];
        let matched = matched(clips, -10.0).unwrap();
        let (one, other) = (lufs(&matched[0]), lufs(&matched[1]));
        assert!((one - other).abs() < 0.2 && one < -11.0, "{one} {other}");
    }

    #[test]
    fn silence_has_no_loudness_and_changes_no_other() {
        let silence = Clip::mono(RATE, vec![0; 16_000]);
        let matched = matched(vec![silence.clone(), tone(300.0, 0.5, 0)], -23.0).unwrap();
        assert_eq!(matched[0], silence);
        assert!((lufs(&matched[1]) + 23.0).abs() < 0.1);
        assert_eq!(trimmed(silence.clone()), silence);
    }

    #[test]
    fn a_muffled_copy_lacks_high_sounds_only() {
        let energy = |clip: Clip| -> f64 {
            clip.into_pcm().0.iter().map(|sample| f64::from(*sample).powi(2)).sum()
        };
        let kept = |hertz: f64| {
            let clip = tone(hertz, 0.5, 0);
            energy(dull(&clip).unwrap()) / energy(clip)
        };
        assert!(kept(1_000.0) > 0.9 && kept(5_000.0) < 0.01);
        assert_eq!(dull(&Clip::mono(8_000, vec![1; 800])), None);
    }
}
