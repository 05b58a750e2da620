//! Applies corrections to segments: the resulting segments and their fields.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::table::{Correction, CorrectionLine, CorrectionTable};

/// Two segments of a recording follow each other if no more seconds are between them.
const ADJOINING: f64 = 1e-4;

pub trait CorrectableSegment {
    /// The name by its sound.
    fn name(&self) -> &str;

    /// The id of a whole clip, by which a line may also name it. None for a part and for several joined.
    fn clip_id(&self) -> Option<&str>;

    /// The recording, and start and end in it in seconds. None for a clip on its own.
    fn place(&self) -> Option<(&str, f64, f64)>;
}

/// Cuts and joins segments.
pub trait AudioEditor<S> {
    type Fault;

    /// Two segments of one, the first with this many seconds. None if it is not so long.
    fn split(&mut self, segment: &S, at: f64) -> Result<Option<[S; 2]>, Self::Fault>;

    /// One segment of two. None if their sounds do not fit together.
    fn join(&mut self, one: &S, other: &S) -> Result<Option<S>, Self::Fault>;
}

/// A segment after splits and joins, with its text or drop.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrectedSegment<'t, S> {
    pub segment: S,
    pub line: Option<&'t CorrectionLine>,
}

impl<'t, S> CorrectedSegment<'t, S> {
    pub fn correction(&self) -> Option<&'t Correction> {
        self.line.map(|line| &line.correction)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct CorrectedRecordings<'t, S> {
    /// In order of recordings and times; clips on their own come last.
    pub segments: Vec<CorrectedSegment<'t, S>>,
    /// The lines that change nothing.
    pub unused: Vec<UnusedLine<'t>>,
}

/// A line without effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnusedLine<'t> {
    pub line: &'t CorrectionLine,
    pub why: &'static str,
}

const NO_SEGMENT: &str = "no segment has this sound or this id";
const SHADOWED: &str = "another line has the sound of this clip, and takes precedence";
const TOO_SHORT: &str = "the segment ends before the time of the split";
const NO_NEXT: &str = "no segment follows this one in its recording without a gap";
const OTHER_NEXT: &str = "another segment follows this one";
const UNLIKE: &str = "the next segment has another sample rate or other channels";

#[derive(Clone, Debug, PartialEq)]
pub enum CorrectionError<F> {
    /// Lines undo each other. The names of their segments.
    Circle(BTreeSet<String>),
    AudioEditor(F),
}

impl<F: fmt::Display> fmt::Display for CorrectionError<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CorrectionError::Circle(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                let names = names.join(" and ");
                write!(formatter, "the corrections of {names} undo each other: remove one of them")
            }
            CorrectionError::AudioEditor(fault) => fault.fmt(formatter),
        }
    }
}

/// Applies a table to all segments.
///
/// # Errors
///
/// If lines undo each other, or a sound cannot be read.
pub fn apply<'t, S: CorrectableSegment, C: AudioEditor<S>>(
    table: &'t CorrectionTable,
    segments: Vec<S>,
    editor: &mut C,
) -> Result<CorrectedRecordings<'t, S>, CorrectionError<C::Fault>> {
    let (mut recordings, mut alone) = (BTreeMap::<String, Vec<S>>::new(), Vec::new());
    for segment in segments {
        match segment.place() {
            Some((recording, ..)) => {
                recordings.entry(recording.to_owned()).or_default().push(segment);
            }
            None => alone.push(segment),
        }
    }
    let start = |segment: &S| segment.place().map_or(0.0, |(_, start, _)| start);
    let mut work = CorrectionRun {
        table,
        editor,
        used: BTreeSet::new(),
        unfit: BTreeMap::new(),
        done: Vec::new(),
    };
    for mut segments in recordings.into_values() {
        segments.sort_by(|one, other| start(one).total_cmp(&start(other)));
        work.recording(segments)?;
    }
    for segment in alone {
        work.recording(vec![segment])?;
    }
    let unused = table.lines().filter(|(name, _)| !work.used.contains(name)).map(|(name, line)| {
        let why = work.unfit.get(name).copied().unwrap_or(NO_SEGMENT);
        UnusedLine { line, why }
    });
    Ok(CorrectedRecordings { unused: unused.collect(), segments: work.done })
}

struct CorrectionRun<'t, 'c, S, C> {
    table: &'t CorrectionTable,
    editor: &'c mut C,
    used: BTreeSet<&'t str>,
    /// Lines that do not fit a segment with their sound.
    unfit: BTreeMap<&'t str, &'static str>,
    done: Vec<CorrectedSegment<'t, S>>,
}

impl<'t, S: CorrectableSegment, C: AudioEditor<S>> CorrectionRun<'t, '_, S, C> {
    fn recording(&mut self, segments: Vec<S>) -> Result<(), CorrectionError<C::Fault>> {
        // Each with the names of the segments that it was made of.
        let mut rest: VecDeque<(S, BTreeSet<String>)> =
            segments.into_iter().map(|segment| (segment, BTreeSet::new())).collect();
        while let Some((segment, mut made_of)) = rest.pop_front() {
            let of_clip = || self.table.line_of_clip(segment.clip_id()?);
            if let (Some((by_sound, _)), Some((by_id, _))) =
                (self.table.line(segment.name()), of_clip())
                && by_sound != by_id
            {
                self.unfit.insert(by_id, SHADOWED);
            }
            let Some((name, line)) = self.table.line(segment.name()).or_else(of_clip) else {
                self.done.push(CorrectedSegment { segment, line: None });
                continue;
            };
            let correction = &line.correction;
            let is_cut = matches!(correction, Correction::Split { .. } | Correction::Join { .. });
            if is_cut && !made_of.insert(name.to_owned()) {
                return Err(CorrectionError::Circle(made_of));
            }
            match correction {
                Correction::Text(_) | Correction::Drop => {
                    self.used.insert(name);
                    self.done.push(CorrectedSegment { segment, line: Some(line) });
                }
                Correction::Split { at } => {
                    match self.editor.split(&segment, *at).map_err(CorrectionError::AudioEditor)? {
                        Some([first, second]) => {
                            self.used.insert(name);
                            rest.push_front((second, made_of.clone()));
                            rest.push_front((first, made_of));
                        }
                        None => self.leave(name, segment, TOO_SHORT),
                    }
                }
                Correction::Join { with } => {
                    let joined = match next_segment(&segment, rest.front(), with) {
                        Ok(next) => {
                            let joined = self.editor.join(&segment, next);
                            joined.map_err(CorrectionError::AudioEditor)?.ok_or(UNLIKE)
                        }
                        Err(why) => Err(why),
                    };
                    match joined {
                        Ok(joined) => {
                            self.used.insert(name);
                            let next = rest.pop_front().map(|(_, made_of)| made_of);
                            made_of.extend(next.unwrap_or_default());
                            rest.push_front((joined, made_of));
                        }
                        Err(why) => self.leave(name, segment, why),
                    }
                }
            }
        }
        Ok(())
    }

    /// A segment that its line does not fit.
    fn leave(&mut self, name: &'t str, segment: S, why: &'static str) {
        self.unfit.insert(name, why);
        self.done.push(CorrectedSegment { segment, line: None });
    }
}

/// The next segment, if it is the one that the table means.
fn next_segment<'s, S: CorrectableSegment>(
    segment: &S,
    next: Option<&'s (S, BTreeSet<String>)>,
    with: &Option<String>,
) -> Result<&'s S, &'static str> {
    let next = next.map(|(next, _)| next).ok_or(NO_NEXT)?;
    match (segment.place(), next.place()) {
        (Some((_, _, end)), Some((_, start, _))) if (start - end).abs() < ADJOINING => {}
        _ => return Err(NO_NEXT),
    }
    if with.as_ref().is_none_or(|with| with == next.name()) { Ok(next) } else { Err(OTHER_NEXT) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A segment with a letter for each second of its sound, which is its name.
    #[derive(Clone, Debug, PartialEq)]
    struct Letters(String, f64);

    impl CorrectableSegment for Letters {
        fn name(&self) -> &str {
            &self.0
        }

        fn clip_id(&self) -> Option<&str> {
            None
        }

        fn place(&self) -> Option<(&str, f64, f64)> {
            Some(("r", self.1, self.1 + self.0.len() as f64))
        }
    }

    struct TestEditor;

    impl AudioEditor<Letters> for TestEditor {
        type Fault = String;

        fn split(&mut self, segment: &Letters, at: f64) -> Result<Option<[Letters; 2]>, String> {
            let count = at as usize;
            let parts = (count < segment.0.len()).then(|| segment.0.split_at(count));
            Ok(parts.map(|(one, two)| {
                [Letters(one.to_owned(), segment.1), Letters(two.to_owned(), segment.1 + at)]
            }))
        }

        fn join(&mut self, one: &Letters, other: &Letters) -> Result<Option<Letters>, String> {
            Ok(Some(Letters(format!("{}{}", one.0, other.0), one.1)))
        }
    }

    /// The segments of `abc`, `de`, `fgh` and, after a gap, `ij`; and the unused lines.
    fn applied(lines: &str) -> Result<(String, String), CorrectionError<String>> {
        let table =
            CorrectionTable::read(format!("segment,action,text,at,with\n{lines}").as_bytes())
                .unwrap();
        let segments = [("abc", 0.0), ("de", 3.0), ("fgh", 5.0), ("ij", 9.0)];
        let segments = segments.map(|(name, at)| Letters(name.to_owned(), at)).to_vec();
        let applied = apply(&table, segments, &mut TestEditor)?;
        let told = |one: &CorrectedSegment<Letters>| match one.correction() {
            None => one.segment.0.clone(),
            Some(Correction::Text(text)) => format!("{}={text}", one.segment.0),
            Some(_) => format!("-{}", one.segment.0),
        };
        let told: Vec<String> = applied.segments.iter().map(told).collect();
        let unused: Vec<String> = applied
            .unused
            .iter()
            .map(|unused| format!("{} {}: {}", unused.line.number, unused.line.segment, unused.why))
            .collect();
        Ok((told.join(" "), unused.join("; ")))
    }

    fn all(lines: &str) -> String {
        let (told, unused) = applied(lines).unwrap();
        assert_eq!(unused, "");
        told
    }

    #[test]
    fn parts_have_corrections_of_their_own() {
        assert_eq!(all(""), "abc de fgh ij");
        assert_eq!(all("abc,text,A,,\nde,drop,,,\n"), "abc=A -de fgh ij");
        assert_eq!(all("fgh,split,,1,\ngh,text,G,,\nf,drop,,,\n"), "abc de -f gh=G ij");
        assert_eq!(all("abc,join,,,de\nabcde,join,,,\nabcdefgh,text,A,,\n"), "abcdefgh=A ij");
    }

    #[test]
    fn a_join_and_a_split_move_a_cut() {
        assert_eq!(all("abc,join,,,de\nabcde,split,,2,\ncde,text,C,,\n"), "ab cde=C fgh ij");
    }

    #[test]
    fn lines_that_fit_nothing_are_listed_and_change_nothing() {
        let unchanged = "abc de fgh ij".to_owned();
        for (lines, unused) in [
            ("x/xyz,drop,,,\n", format!("2 x/xyz: {NO_SEGMENT}")),
            ("abc,join,,,fgh\n", format!("2 abc: {OTHER_NEXT}")),
            // Sound is missing between them; nothing follows.
            ("fgh,join,,,\n", format!("2 fgh: {NO_NEXT}")),
            ("ij,join,,,\n", format!("2 ij: {NO_NEXT}")),
            ("xyz,drop,,,\nde,split,,2,\n", format!("3 de: {TOO_SHORT}; 2 xyz: {NO_SEGMENT}")),
        ] {
            assert_eq!(applied(lines).unwrap(), (unchanged.clone(), unused));
        }
    }

    #[test]
    fn lines_that_undo_each_other_are_an_error() {
        let trouble = applied("abc,split,,1,\na,join,,,bc\n").unwrap_err();
        let told = "the corrections of `a` and `abc` undo each other: remove one of them";
        assert_eq!(trouble.to_string(), told);
    }
}
