//! The fates of the parts of long recordings, for `report.recordings`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stage_core::Reject;

use crate::numbers::rounded;

/// The most segments, and the most parts of its text, that are listed for a recording.
const LISTED: usize = 200;
/// Segments that are closer than this have nothing between them, in seconds.
const GAP: f64 = 0.01;
/// The code of segments that have sound and no text.
const NO_TEXT: &str = "no-text";

/// A segment, and what has become of it.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    pub id: String,
    pub start: f64,
    pub seconds: f64,
    /// The stage that has it no more, and why. None if it is kept.
    pub lost: Option<(String, Reject)>,
}

/// The fate of a span of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    Kept,
    Rejected,
    /// Sound without a text.
    NoText,
    /// In no segment.
    Uncut,
}

/// A part of a recording: start, end, fate.
pub type Span = (f64, f64, Fate);

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Total {
    pub segments: u64,
    pub seconds: f64,
}

/// A segment that is not kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LostSegment {
    pub id: String,
    pub start: f64,
    pub seconds: f64,
    pub stage: String,
    pub code: String,
    pub reason: String,
}

/// A part of a text that was not heard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnheardText {
    pub recordings: Vec<String>,
    pub words: u64,
    pub text: String,
}

/// The report on one recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordingReport {
    pub name: String,
    /// To the end of its last segment.
    pub seconds: f64,
    pub kept: Total,
    /// By code.
    pub lost: BTreeMap<String, Total>,
    /// Seconds in no segment.
    pub uncut: f64,
    pub spans: Vec<Span>,
    pub rejected: Vec<LostSegment>,
    /// Further segments that are not listed.
    pub more_rejected: u64,
    pub unheard_words: u64,
    pub unheard: Vec<UnheardText>,
}

impl RecordingReport {
    /// The parts of a text that several recordings share are listed in the first of them.
    pub fn of(
        name: &str,
        mut segments: Vec<SegmentReport>,
        unheard: &[UnheardText],
    ) -> RecordingReport {
        segments.sort_by(|one, other| one.start.total_cmp(&other.start));
        let own: Vec<&UnheardText> = unheard
            .iter()
            .filter(|part| part.recordings.first().is_some_and(|first| first == name))
            .collect();
        let mut recording = RecordingReport {
            name: name.to_owned(),
            seconds: 0.0,
            kept: Total::default(),
            lost: BTreeMap::new(),
            uncut: 0.0,
            spans: Vec::new(),
            rejected: Vec::new(),
            more_rejected: 0,
            unheard_words: own.iter().map(|part| part.words).sum(),
            unheard: own.into_iter().take(LISTED).cloned().collect(),
        };
        segments.into_iter().for_each(|segment| recording.add(segment));
        recording.round();
        recording
    }

    fn add(&mut self, segment: SegmentReport) {
        let SegmentReport { id, start, seconds, lost } = segment;
        if start > self.seconds + GAP {
            self.uncut += start - self.seconds;
            self.span(self.seconds, start, Fate::Uncut);
        }
        let end = start + seconds;
        let fate = match &lost {
            None => Fate::Kept,
            Some((_, reject)) if reject.code == NO_TEXT => Fate::NoText,
            Some(_) => Fate::Rejected,
        };
        self.span(start, end, fate);
        self.seconds = self.seconds.max(end);
        let total = match &lost {
            None => &mut self.kept,
            Some((_, reject)) => self.lost.entry(reject.code.clone()).or_default(),
        };
        total.segments += 1;
        total.seconds += seconds;
        if let Some((stage, Reject { code, reason })) = lost {
            if self.rejected.len() < LISTED {
                self.rejected.push(LostSegment {
                    id,
                    start: rounded(start),
                    seconds: rounded(seconds),
                    stage,
                    code,
                    reason,
                })
            } else {
                self.more_rejected += 1
            }
        }
    }

    /// Adds a part, or makes the last one longer.
    fn span(&mut self, start: f64, end: f64, fate: Fate) {
        match self.spans.last_mut() {
            Some(last) if last.2 == fate && start <= last.1 + GAP => last.1 = last.1.max(end),
            _ => self.spans.push((start, end, fate)),
        }
    }

    fn round(&mut self) {
        let totals = self.lost.values_mut().chain([&mut self.kept]);
        totals.for_each(|total| total.seconds = rounded(total.seconds));
        self.seconds = rounded(self.seconds);
        self.uncut = rounded(self.uncut);
        for span in &mut self.spans {
            (span.0, span.1) = (rounded(span.0), rounded(span.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: f64, seconds: f64, code: &str) -> SegmentReport {
        let lost = (!code.is_empty()).then(|| ("s".to_owned(), Reject::new(code, "why")));
        SegmentReport { id: format!("a/{start}"), start, seconds, lost }
    }

    #[test]
    fn each_second_has_a_fate_and_neighbours_of_one_fate_are_one_span() {
        let segments = vec![
            segment(6.0, 2.0, "no-text"),
            segment(0.0, 3.0, ""),
            segment(3.0, 3.0, ""),
            segment(10.0, 1.5, "bad-transcript"),
            segment(11.5, 0.5, "cut-word"),
        ];
        let part = |recordings: &[&str], words| UnheardText {
            recordings: recordings.iter().map(|name| (*name).to_owned()).collect(),
            words,
            text: "lost".to_owned(),
        };
        let unheard = [part(&["a", "b"], 3), part(&["b"], 4)];
        let found = RecordingReport::of("a", segments, &unheard);
        let expected = [
            (0.0, 6.0, Fate::Kept),
            (6.0, 8.0, Fate::NoText),
            (8.0, 10.0, Fate::Uncut),
            (10.0, 12.0, Fate::Rejected),
        ];
        assert_eq!(found.spans, expected);
        assert_eq!((found.seconds, found.uncut, found.unheard_words), (12.0, 2.0, 3));
        assert_eq!(found.kept, Total { segments: 2, seconds: 6.0 });
        let codes: Vec<&str> = found.lost.keys().map(String::as_str).collect();
        assert_eq!(codes, ["bad-transcript", "cut-word", "no-text"]);
        let covered: f64 = found.spans.iter().map(|(start, end, _)| end - start).sum();
        assert_eq!(covered, found.seconds);
    }

    #[test]
    fn ten_hours_with_a_fault_every_ten_seconds_stay_small() {
        let segments = (0..3_600)
            .map(|at| segment(f64::from(at) * 10.0, 10.0, ["", "no-text"][at as usize % 2]))
            .collect();
        let found = RecordingReport::of("a", segments, &[]);
        assert_eq!((found.rejected.len(), found.more_rejected), (LISTED, 1_800 - LISTED as u64));
        assert_eq!(found.lost["no-text"].seconds, 18_000.0);
        let size = serde_json::to_vec(&found).map_or(usize::MAX, |json| json.len());
        assert!(size < 200_000, "{size} bytes");
    }
}
