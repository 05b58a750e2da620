//! `speaker.stats`: clips, minutes, characters and noise, by speaker.

use std::collections::BTreeMap;

use crate::numbers::quantile;

/// The properties of an item that the statistics use.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClipProperties<'a> {
    pub speaker: Option<&'a str>,
    pub seconds: Option<f64>,
    pub text: Option<&'a str>,
    /// Signal-to-noise ratio in decibels, if it was measured.
    pub snr: Option<f64>,
}

/// The statistics of one speaker.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SpeakerStats {
    pub speaker: String,
    pub clips: u64,
    pub minutes: f64,
    pub characters: u64,
    /// Median over the clips that have one.
    pub median_snr: Option<f64>,
    /// Clips without a measured length, which the minutes do not include.
    pub clips_without_duration: u64,
}

/// The name for clips without a speaker.
pub const UNNAMED: &str = "";

/// The sums of some clips of one speaker.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Sums {
    clips: u64,
    /// In microseconds, so that the sum does not depend on the order of the clips.
    microseconds: u64,
    characters: u64,
    snrs: Vec<f64>,
    without_duration: u64,
}

/// Clips added up by speaker, in the order of the names.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SpeakerTotals(BTreeMap<String, Sums>);

impl SpeakerTotals {
    pub fn of<'a>(clips: impl IntoIterator<Item = ClipProperties<'a>>) -> SpeakerTotals {
        let mut stats = SpeakerTotals::default();
        for clip in clips {
            let name = clip.speaker.unwrap_or(UNNAMED);
            match stats.0.get_mut(name) {
                Some(sums) => sums.add(clip),
                None => stats.0.entry(name.to_owned()).or_default().add(clip),
            }
        }
        stats
    }

    /// Adds the clips of another.
    pub fn merge(&mut self, other: SpeakerTotals) {
        for (name, sums) in other.0 {
            self.0.entry(name).or_default().merge(sums);
        }
    }

    pub fn into_speakers(self) -> Vec<SpeakerStats> {
        self.0.into_iter().map(|(name, sums)| sums.into_speaker(name)).collect()
    }
}

impl Sums {
    fn add(&mut self, clip: ClipProperties<'_>) {
        self.clips += 1;
        match clip.seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0) {
            Some(seconds) => self.microseconds += (seconds * 1e6).round() as u64,
            None => self.without_duration += 1,
        }
        self.characters += clip.text.map_or(0, |text| text.chars().count() as u64);
        self.snrs.extend(clip.snr.filter(|snr| snr.is_finite()));
    }

    fn merge(&mut self, other: Sums) {
        self.clips += other.clips;
        self.microseconds += other.microseconds;
        self.characters += other.characters;
        self.snrs.extend(other.snrs);
        self.without_duration += other.without_duration;
    }

    fn into_speaker(mut self, name: String) -> SpeakerStats {
        SpeakerStats {
            speaker: name,
            clips: self.clips,
            minutes: self.microseconds as f64 / 60e6,
            characters: self.characters,
            median_snr: quantile(&mut self.snrs, 0.5),
            clips_without_duration: self.without_duration,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_add_up_by_speaker_and_missing_measures_are_counted() {
        let clip = |speaker, seconds, text, snr| ClipProperties {
            speaker,
            seconds,
            text: Some(text),
            snr,
        };
        let clips = [
            clip(Some("b"), Some(30.0), "äiti", Some(10.0)),
            clip(Some("a"), Some(60.0), "isä", None),
            clip(Some("b"), None, "koti", Some(20.0)),
            clip(None, Some(f64::NAN), "", None),
        ];
        let found = SpeakerTotals::of(clips).into_speakers();
        let brief: Vec<_> = found
            .iter()
            .map(|s| {
                (
                    s.speaker.as_str(),
                    s.clips,
                    s.minutes,
                    s.characters,
                    s.median_snr,
                    s.clips_without_duration,
                )
            })
            .collect();
        assert_eq!(
            brief,
            [("", 1, 0.0, 0, None, 1), ("a", 1, 1.0, 3, None, 0), ("b", 2, 0.5, 8, Some(15.0), 1),]
        );
        for division in 0..1 << clips.len() {
            let side = |one: usize| {
                clips.iter().enumerate().filter(move |(at, _)| division >> at & 1 == one)
            };
            let mut both = SpeakerTotals::of(side(0).map(|(_, clip)| *clip));
            both.merge(SpeakerTotals::of(side(1).map(|(_, clip)| *clip)));
            assert_eq!(both.into_speakers(), found, "{division:b}");
        }
    }
}
