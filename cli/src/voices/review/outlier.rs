//! The outlier score of a clip: the distance of its worst measure from those of other clips.

use std::collections::BTreeMap;

use super::clips::Clip;

/// The clips of a recording beside one, on each side.
const BESIDE: usize = 2;
/// The standard deviation of a normal distribution, in median absolute deviations.
const NORMAL: f64 = 1.4826;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bad {
    Low,
    High,
    Both,
}

impl Bad {
    fn side(self, distance: f64) -> f64 {
        match self {
            Bad::Low => -distance,
            Bad::High => distance,
            Bad::Both => distance.abs(),
        }
    }
}

#[derive(Debug, PartialEq)]
pub struct Measure {
    pub field: &'static str,
    label: &'static str,
    bad: Bad,
}

const fn measure(field: &'static str, label: &'static str, bad: Bad) -> Measure {
    Measure { field, label, bad }
}

/// The fields that are compared, as far as clips have them.
pub static MEASURES: [Measure; 7] = [
    measure("align_worst", "worst window", Bad::Low),
    measure("align_mean", "path mean", Bad::Low),
    measure("align_edge", "first or last letter", Bad::Low),
    measure("letters_per_second", "letters per second", Bad::Both),
    measure("characters_per_second", "characters per second", Bad::Both),
    measure("cer", "CER", Bad::High),
    measure("wer", "WER", Bad::High),
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutlierScore {
    /// In standard deviations.
    pub score: f64,
    /// The measure, with its value and the usual one.
    pub why: String,
}

impl OutlierScore {
    fn raise(&mut self, score: f64, why: impl FnOnce() -> String) {
        if score > self.score {
            *self = OutlierScore { score, why: why() };
        }
    }
}

/// The outlier score of each clip.
pub fn outlier_scores(clips: &[Clip]) -> Vec<OutlierScore> {
    let mut doubts = vec![OutlierScore::default(); clips.len()];
    let recordings = recordings(clips);
    for measure in &MEASURES {
        let value = |at: usize| clips[at].measure(measure.field);
        let values: Vec<f64> = (0..clips.len()).filter_map(value).collect();
        let Some((usual, spread)) = middle_and_spread(&values) else { continue };
        for (at, doubt) in doubts.iter_mut().enumerate() {
            let Some(own) = value(at) else { continue };
            let score = measure.bad.side((own - usual) / spread);
            doubt.raise(score, || format!("{} {own:.2}, usually {usual:.2}", measure.label));
        }
        for recording in recordings.values() {
            for (place, at) in recording.iter().enumerate() {
                let around = place.saturating_sub(BESIDE)..recording.len().min(place + BESIDE + 1);
                let others = around.filter(|other| *other != place);
                let others: Vec<f64> = others.filter_map(|other| value(recording[other])).collect();
                // Clips on one side only do not tell what is usual here.
                let (Some(own), true) = (value(*at), others.len() > BESIDE) else { continue };
                let beside = middle(others);
                let score = measure.bad.side((own - beside) / spread);
                let why = || format!("{} {own:.2}, neighbours {beside:.2}", measure.label);
                doubts[*at].raise(score, why);
            }
        }
    }
    doubts
}

/// The clips of each recording in order of time.
fn recordings(clips: &[Clip]) -> BTreeMap<&str, Vec<usize>> {
    let mut recordings = BTreeMap::<&str, Vec<usize>>::new();
    for (at, clip) in clips.iter().enumerate() {
        if let Some(recording) = &clip.recording {
            recordings.entry(recording).or_default().push(at);
        }
    }
    for clips_of in recordings.values_mut() {
        clips_of.sort_by(|one, other| clips[*one].start.total_cmp(&clips[*other].start));
    }
    recordings
}

/// The median and a robust standard deviation; None if all values are the same.
fn middle_and_spread(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 3 {
        return None;
    }
    let usual = middle(values.to_vec());
    let distances: Vec<f64> = values.iter().map(|value| (value - usual).abs()).collect();
    let mean = distances.iter().sum::<f64>() / distances.len() as f64;
    let spread = NORMAL * middle(distances);
    let spread = if spread > 0.0 { spread } else { mean };
    (spread > 0.0).then_some((usual, spread))
}

/// The median.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
    (at(values.len().saturating_sub(1) / 2) + at(values.len() / 2)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clips(measures: &[(&'static str, &[f64])]) -> Vec<Clip> {
        let count = measures.first().map_or(0, |(_, values)| values.len());
        let clip = |at: usize| {
            let own = measures.iter().map(|(name, values)| (*name, values[at]));
            Clip::for_tests("r", at as f64, own.collect())
        };
        (0..count).map(clip).collect()
    }

    fn worst(doubts: &[OutlierScore]) -> usize {
        let scores = doubts.iter().enumerate();
        scores.max_by(|one, other| one.1.score.total_cmp(&other.1.score)).map_or(0, |(at, _)| at)
    }

    #[test]
    fn the_measure_that_is_farthest_on_its_bad_side_is_told() {
        let doubts = outlier_scores(&clips(&[
            ("align_worst", &[-0.5, -0.4, -3.0, -0.6, -0.5, -0.1]),
            ("cer", &[0.1, 0.12, 0.1, 0.11, 0.02, 0.1]),
        ]));
        assert_eq!(worst(&doubts), 2);
        assert_eq!(doubts[2].why, "worst window -3.00, usually -0.50");
        // Better than the others is no outlier.
        assert!(doubts[5].score < 1.0, "{:?}", doubts[5]);
    }

    #[test]
    fn a_clip_unlike_its_neighbours_is_doubtful_where_others_are_like_it() {
        // The voice becomes faster and faster.
        let mut speeds: Vec<f64> = (0..20).map(f64::from).collect();
        speeds[4] = 18.0;
        let doubts = outlier_scores(&clips(&[("letters_per_second", &speeds)]));
        assert_eq!(worst(&doubts), 4);
        assert!(doubts[4].why.ends_with("18.00, neighbours 4.00"), "{}", doubts[4].why);
    }

    #[test]
    fn equal_and_missing_measures_raise_no_doubt() {
        let all = outlier_scores(&clips(&[
            ("cer", &[0.1, 0.1, 0.1, 0.1]),
            ("other", &[1.0, 9.0, 1.0, 1.0]),
        ]));
        assert!(all.iter().all(|doubt| *doubt == OutlierScore::default()));
        assert!(outlier_scores(&[]).is_empty());
    }
}
