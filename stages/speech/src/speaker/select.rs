//! `speaker.select`: the speakers with the most clips or minutes.

use super::stats::{SpeakerStats, UNNAMED};

/// The criterion for ranking speakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    #[default]
    Clips,
    Minutes,
}

/// The reason why no speaker can be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("no clip has a speaker; add a speaker column to the corpus")]
    NoSpeakers,
    #[error(
        "`by = \"minutes\"` needs durations, and {clips} clips have none; measure them first or select by clips"
    )]
    NoDurations { clips: u64 },
}

/// Names of the first `top` speakers, the largest first; ties in the order of their names.
pub fn select(speakers: &[SpeakerStats], by: By, top: usize) -> Result<Vec<String>, SelectError> {
    let mut named: Vec<&SpeakerStats> =
        speakers.iter().filter(|speaker| speaker.speaker != UNNAMED).collect();
    if named.is_empty() {
        return Err(SelectError::NoSpeakers);
    }
    let unmeasured = named.iter().map(|speaker| speaker.clips_without_duration).sum();
    if by == By::Minutes && unmeasured > 0 {
        return Err(SelectError::NoDurations { clips: unmeasured });
    }
    let size = |speaker: &SpeakerStats| match by {
        By::Clips => speaker.clips as f64,
        By::Minutes => speaker.minutes,
    };
    named.sort_by(|one, other| {
        size(other).total_cmp(&size(one)).then_with(|| one.speaker.cmp(&other.speaker))
    });
    Ok(named.iter().take(top).map(|speaker| speaker.speaker.clone()).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::stats::{ClipProperties, SpeakerTotals};
    use super::*;

    fn speakers() -> Vec<SpeakerStats> {
        let clip = |speaker, seconds| ClipProperties {
            speaker,
            seconds: Some(seconds),
            ..ClipProperties::default()
        };
        SpeakerTotals::of([
            clip(Some("b"), 1.0),
            clip(Some("b"), 1.0),
            clip(Some("a"), 1.0),
            clip(Some("a"), 1.0),
            clip(Some("long"), 9.0),
            clip(None, 99.0),
            clip(None, 1.0),
            clip(None, 1.0),
        ])
        .into_speakers()
    }

    #[test]
    fn the_most_clips_or_minutes_win_and_equals_go_by_name() {
        assert_eq!(select(&speakers(), By::Clips, 2).unwrap(), ["a", "b"]);
        assert_eq!(select(&speakers(), By::Minutes, 1).unwrap(), ["long"]);
        assert_eq!(select(&speakers(), By::Clips, 9).unwrap().len(), 3);
    }

    #[test]
    fn nameless_and_unmeasured_clips_are_an_error_and_not_a_guess() {
        let unnamed = SpeakerTotals::of([ClipProperties::default()]).into_speakers();
        assert_eq!(select(&unnamed, By::Clips, 1), Err(SelectError::NoSpeakers));
        let unmeasured =
            SpeakerTotals::of([ClipProperties { speaker: Some("a"), ..ClipProperties::default() }])
                .into_speakers();
        assert_eq!(select(&unmeasured, By::Minutes, 1), Err(SelectError::NoDurations { clips: 1 }));
    }
}
