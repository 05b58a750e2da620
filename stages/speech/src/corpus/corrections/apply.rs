//! Applies corrections to segments: which segments there are then, and what is known of each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::table::{Correction, Table};

/// Two segments of a recording follow each other if no more seconds are between them.
const ADJOINING: f64 = 1e-4;

pub trait Segment {
    /// The name by its sound.
    fn name(&self) -> &str;

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
pub struct Corrected<'t, S> {
    pub segment: S,
    pub correction: Option<&'t Correction>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Applied<'t, S> {
    /// In order of recordings and times; clips on their own come last.
    pub segments: Vec<Corrected<'t, S>>,
    /// The names of lines without a segment that they fit.
    pub unused: Vec<&'t str>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Trouble<F> {
    /// Lines undo each other. The names of their segments.
    Circle(BTreeSet<String>),
    AudioEditor(F),
}

impl<F: fmt::Display> fmt::Display for Trouble<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Circle(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                let names = names.join(" and ");
                write!(formatter, "the corrections of {names} undo each other: remove one of them")
            }
            Trouble::AudioEditor(fault) => fault.fmt(formatter),
        }
    }
}

/// Applies a table to all segments.
///
/// # Errors
///
/// If lines undo each other, or a sound cannot be read.
pub fn apply<'t, S: Segment, C: AudioEditor<S>>(
    table: &'t Table,
    segments: Vec<S>,
    editor: &mut C,
) -> Result<Applied<'t, S>, Trouble<C::Fault>> {
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
    let mut work = Work { table, editor, used: BTreeSet::new(), done: Vec::new() };
    for mut segments in recordings.into_values() {
        segments.sort_by(|one, other| start(one).total_cmp(&start(other)));
        work.recording(segments)?;
    }
    for segment in alone {
        work.recording(vec![segment])?;
    }
    let unused = table.lines().map(|(name, _)| name).filter(|name| !work.used.contains(name));
    Ok(Applied { unused: unused.collect(), segments: work.done })
}

struct Work<'t, 'c, S, C> {
    table: &'t Table,
    editor: &'c mut C,
    used: BTreeSet<&'t str>,
    done: Vec<Corrected<'t, S>>,
}

impl<'t, S: Segment, C: AudioEditor<S>> Work<'t, '_, S, C> {
    fn recording(&mut self, segments: Vec<S>) -> Result<(), Trouble<C::Fault>> {
        // Each with the names of the segments that it was made of.
        let mut rest: VecDeque<(S, BTreeSet<String>)> =
            segments.into_iter().map(|segment| (segment, BTreeSet::new())).collect();
        while let Some((segment, mut made_of)) = rest.pop_front() {
            let Some((name, correction)) = self.table.line(segment.name()) else {
                self.done.push(Corrected { segment, correction: None });
                continue;
            };
            let is_cut = matches!(correction, Correction::Split { .. } | Correction::Join { .. });
            if is_cut && !made_of.insert(name.to_owned()) {
                return Err(Trouble::Circle(made_of));
            }
            match correction {
                Correction::Text(_) | Correction::Drop => {
                    self.used.insert(name);
                    self.done.push(Corrected { segment, correction: Some(correction) });
                }
                Correction::Split { at } => {
                    match self.editor.split(&segment, *at).map_err(Trouble::AudioEditor)? {
                        Some([first, second]) => {
                            self.used.insert(name);
                            rest.push_front((second, made_of.clone()));
                            rest.push_front((first, made_of));
                        }
                        None => self.done.push(Corrected { segment, correction: None }),
                    }
                }
                Correction::Join { with } => {
                    let next = rest.front().filter(|(next, _)| follows(&segment, next, with));
                    let joined = match next {
                        Some((next, _)) => {
                            self.editor.join(&segment, next).map_err(Trouble::AudioEditor)?
                        }
                        None => None,
                    };
                    match joined {
                        Some(joined) => {
                            self.used.insert(name);
                            let next = rest.pop_front().map(|(_, made_of)| made_of);
                            made_of.extend(next.unwrap_or_default());
                            rest.push_front((joined, made_of));
                        }
                        None => self.done.push(Corrected { segment, correction: None }),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Tests if a segment is the next one, as the table means it.
fn follows<S: Segment>(segment: &S, next: &S, with: &Option<String>) -> bool {
    let (Some((_, _, end)), Some((_, start, _))) = (segment.place(), next.place()) else {
        return false;
    };
    (start - end).abs() < ADJOINING && with.as_ref().is_none_or(|with| with == next.name())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A segment with a letter for each second of its sound, which is its name.
    #[derive(Clone, Debug, PartialEq)]
    struct Letters(String, f64);

    impl Segment for Letters {
        fn name(&self) -> &str {
            &self.0
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
    fn applied(lines: &str) -> Result<(String, String), Trouble<String>> {
        let table =
            Table::read(format!("segment,action,text,at,with\n{lines}").as_bytes()).unwrap();
        let segments = [("abc", 0.0), ("de", 3.0), ("fgh", 5.0), ("ij", 9.0)];
        let segments = segments.map(|(name, at)| Letters(name.to_owned(), at)).to_vec();
        let applied = apply(&table, segments, &mut TestEditor)?;
        let told = |one: &Corrected<Letters>| match one.correction {
            None => one.segment.0.clone(),
            Some(Correction::Text(text)) => format!("{}={text}", one.segment.0),
            Some(_) => format!("-{}", one.segment.0),
        };
        let told: Vec<String> = applied.segments.iter().map(told).collect();
        Ok((told.join(" "), applied.unused.join(" ")))
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
            ("xyz,drop,,,\n", "xyz"),
            // Another one follows; sound is missing between; nothing follows; it is not so long.
            ("abc,join,,,fgh\n", "abc"),
            ("fgh,join,,,\n", "fgh"),
            ("ij,join,,,\n", "ij"),
            ("de,split,,2,\n", "de"),
        ] {
            assert_eq!(applied(lines).unwrap(), (unchanged.clone(), unused.to_owned()));
        }
    }

    #[test]
    fn lines_that_undo_each_other_are_an_error() {
        let trouble = applied("abc,split,,1,\na,join,,,bc\n").unwrap_err();
        let told = "the corrections of `a` and `abc` undo each other: remove one of them";
        assert_eq!(trouble.to_string(), told);
    }
}
