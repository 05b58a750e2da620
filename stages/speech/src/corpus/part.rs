//! Clips that are parts of their files: times and a channel, as NeMo, lhotse and tables with `start`
//! and `end` give them.

use super::RowProblem;
use super::columns::{ColumnRole, is_in_milliseconds};

/// The use of times and channels of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PartRule {
    /// The clip is this part of its file.
    #[default]
    Cut,
    /// The files are cut already: times and channels are plain fields.
    Off,
}

/// The times and the channel of a row as written, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Times {
    pub start: Option<f64>,
    pub end: Option<f64>,
    pub duration: Option<f64>,
    pub channel: Option<u16>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    pub start: f64,
    /// None: to the end of the file.
    pub seconds: Option<f64>,
    /// From 0; None: all channels.
    pub channel: Option<u16>,
}

/// Longer times than a month are damage.
const MAX_SECONDS: f64 = 2.7e6;

impl Times {
    /// Takes a cell. An empty one is none, and a channel may be the name of a broadcaster.
    pub fn take(&mut self, role: ColumnRole, name: &str, cell: &str) -> Result<(), RowProblem> {
        if cell.is_empty() {
            return Ok(());
        }
        if role == ColumnRole::Channel {
            self.channel = cell.parse().ok();
            return Ok(());
        }
        let scale = if is_in_milliseconds(name) { 0.001 } else { 1.0 };
        match (role, seconds(cell)) {
            // A duration alone is no part, so that it may have any form.
            (ColumnRole::Duration, None) => Ok(()),
            (_, None) => Err(RowProblem::NotTime { column: name.to_owned(), found: shown(cell) }),
            (_, Some(value)) => self.set(role, name, value * scale),
        }
    }

    pub fn set(&mut self, role: ColumnRole, name: &str, value: f64) -> Result<(), RowProblem> {
        if !(0.0..=MAX_SECONDS).contains(&value) && role != ColumnRole::Duration {
            let found = value.to_string();
            return Err(RowProblem::NotTime { column: name.to_owned(), found });
        }
        match role {
            ColumnRole::Start => self.start = Some(value),
            ColumnRole::End => self.end = Some(value),
            ColumnRole::Duration => self.duration = Some(value),
            ColumnRole::Channel => self.channel = Some(value as u16),
            ColumnRole::Id | ColumnRole::File | ColumnRole::Text | ColumnRole::Speaker => {}
        }
        Ok(())
    }

    /// Tests if they give a part rather than a whole file with its duration.
    pub fn has_place(&self) -> bool {
        self.start.is_some() || self.end.is_some()
    }

    /// The part; None for the whole file. In a file in which other rows have a place, a duration
    /// alone is that of a part at the start, as NeMo reads it.
    pub fn part(&self, others_have_place: bool) -> Result<Option<Part>, RowProblem> {
        let Times { start, end, duration, channel } = *self;
        let is_first = others_have_place && duration.is_some();
        if !self.has_place() && !is_first {
            return Ok(channel.map(|_| Part { start: 0.0, seconds: None, channel }));
        }
        let start = start.unwrap_or(0.0);
        let seconds = match (end, duration) {
            (Some(end), _) => end - start,
            (None, Some(duration)) => duration,
            (None, None) => return Err(RowProblem::NoEnd),
        };
        if !(seconds > 0.0 && seconds <= MAX_SECONDS) {
            return Err(RowProblem::NoLength { start, end: start + seconds });
        }
        Ok(Some(Part { start, seconds: Some(seconds), channel }))
    }
}

impl Part {
    /// The end of the id of one of several parts of a file, in milliseconds.
    pub fn name(&self) -> String {
        let milliseconds = |seconds: f64| (seconds * 1000.0).round() as u64;
        let mut name = match self.seconds {
            Some(seconds) => {
                let (start, end) = (milliseconds(self.start), milliseconds(self.start + seconds));
                format!("-{start:07}-{end:07}")
            }
            None => String::new(),
        };
        if let Some(channel) = self.channel {
            name += &format!("-ch{channel}");
        }
        name
    }
}

/// Seconds, with a comma or a point, or a time such as `1:02:03.5`.
fn seconds(cell: &str) -> Option<f64> {
    let is_plain = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
    };
    let cell = if cell.contains('.') { cell.to_owned() } else { cell.replacen(',', ".", 1) };
    let parts: Vec<&str> = cell.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    let mut total = 0.0;
    for part in parts {
        let value = is_plain(part).then(|| part.parse::<f64>().ok()).flatten()?;
        total = total * 60.0 + value;
    }
    total.is_finite().then_some(total)
}

/// The start of a cell, for a message.
fn shown(cell: &str) -> String {
    cell.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn times(cells: &[(ColumnRole, &str, &str)]) -> Result<Option<Part>, RowProblem> {
        let mut times = Times::default();
        for (role, name, cell) in cells {
            times.take(*role, name, cell)?;
        }
        times.part(false)
    }

    #[test]
    fn a_start_with_an_end_or_a_duration_is_a_part() {
        let part = |start, seconds| Ok(Some(Part { start, seconds: Some(seconds), channel: None }));
        for cells in [
            [(ColumnRole::Start, "start", "1.5"), (ColumnRole::End, "end", "2")],
            [(ColumnRole::Start, "start", "1,5"), (ColumnRole::Duration, "duration", "0.5")],
            [(ColumnRole::Start, "start_ms", "1500"), (ColumnRole::End, "end_ms", "2000")],
            [(ColumnRole::Start, "start", "0:01.5"), (ColumnRole::End, "end", "0:00:02")],
        ] {
            assert_eq!(times(&cells), part(1.5, 0.5), "{cells:?}");
        }
        assert_eq!(times(&[(ColumnRole::End, "end", "2")]), part(0.0, 2.0));
        assert_eq!(times(&[(ColumnRole::Duration, "duration", "2")]), Ok(None));
        assert_eq!(times(&[(ColumnRole::Start, "start", "")]), Ok(None));
    }

    #[test]
    fn times_that_give_no_part_are_refused() {
        for cells in [
            vec![(ColumnRole::Start, "start", "1")],
            vec![(ColumnRole::Start, "start", "-1"), (ColumnRole::End, "end", "2")],
            vec![(ColumnRole::Start, "start", "2"), (ColumnRole::End, "end", "2")],
            vec![(ColumnRole::Start, "start", "1"), (ColumnRole::Duration, "duration", "0")],
            vec![(ColumnRole::Start, "start", "soon"), (ColumnRole::End, "end", "2")],
            vec![(ColumnRole::Start, "start", "1e300"), (ColumnRole::End, "end", "2")],
            vec![(ColumnRole::Start, "start", "nan"), (ColumnRole::End, "end", "2")],
        ] {
            assert!(times(&cells).is_err(), "{cells:?}");
        }
    }

    #[test]
    fn a_duration_alone_is_a_part_where_other_rows_have_a_place() {
        let times = Times { duration: Some(2.0), ..Times::default() };
        let expected = Part { start: 0.0, seconds: Some(2.0), channel: None };
        assert_eq!(times.part(true), Ok(Some(expected)));
    }

    #[test]
    fn a_channel_alone_is_a_part_and_a_name_is_not() {
        let part = times(&[(ColumnRole::Channel, "channel", "1")]).unwrap().unwrap();
        assert_eq!((part.seconds, part.channel), (None, Some(1)));
        assert_eq!(times(&[(ColumnRole::Channel, "channel", "yle")]), Ok(None));
    }
}
