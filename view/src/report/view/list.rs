//! The list of all clips of a corpus: a table that is searched and sorted by the script of the
//! page. The page contains the rows with recordings; the script makes the others on demand from
//! data in the page.

use engine::units;
use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::player::player;
use super::table::{FIRST, heading};
use super::text;
use crate::escape::fit;
use crate::report::audio::PageAudio;
use crate::report::clips::{Clip, ClipMeasure, Corpus};

/// Clips at each end of a measure that stand out.
const ODD: usize = 3;
/// Clips that can be listened to, those that stand out included.
const HEARD: usize = 60;
/// Clips that are listed.
const LISTED: usize = 20_000;
/// The most bytes of the data.
const MOST_BYTES: usize = 4 << 20;
/// Longer transcripts are cut.
const TEXT: usize = 600;

/// A list with its data made ready.
pub struct List<'a> {
    corpus: &'a Corpus,
    columns: Vec<ListColumn>,
    /// The clips with rows in the page, by their positions, with what they stand out by.
    first: Vec<(usize, Vec<&'static str>)>,
    listed: usize,
    data: String,
}

#[derive(Clone, Copy)]
struct ListColumn {
    measure: ClipMeasure,
    heading: &'static str,
    digits: usize,
}

const COLUMNS: [ListColumn; 4] = [
    ListColumn { measure: ClipMeasure::Seconds, heading: "Seconds", digits: 2 },
    ListColumn { measure: ClipMeasure::Pace, heading: "Letters/s", digits: 1 },
    ListColumn { measure: ClipMeasure::Snr, heading: "SNR dB", digits: 1 },
    ListColumn { measure: ClipMeasure::Loudness, heading: "dBFS", digits: 1 },
];

impl ListColumn {
    fn shown(&self, value: f64) -> String {
        format!("{value:.*}", self.digits)
    }
}

impl List<'_> {
    pub fn of(corpus: &Corpus) -> List<'_> {
        let is_known = |column: &ListColumn| {
            corpus.clips.iter().any(|clip| clip.measure(column.measure).is_some())
        };
        let columns: Vec<ListColumn> = COLUMNS.into_iter().filter(is_known).collect();
        let mut first = corpus.odd(ODD);
        let others = (0..corpus.clips.len().min(HEARD)).filter(|at| !is_in(&first, *at));
        let others: Vec<usize> = others.take(HEARD.saturating_sub(first.len())).collect();
        first.extend(others.into_iter().map(|at| (at, Vec::new())));
        let (data, listed) = data(corpus, &columns, &first);
        List { corpus, columns, first, listed, data }
    }

    /// The size of its data in the page.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    pub fn render(&self, page_audio: &mut PageAudio) -> Markup {
        let count = self.corpus.clips.len();
        let rest = count - self.listed;
        html! {
            div.clips data-first=(FIRST) {
                div.tools {
                    label { "Search " input type="search" placeholder="text, id, speaker" autocomplete="off"; }
                    span.note role="status" { (units::count(self.listed as u64)) " clips" }
                }
                div.scroll tabindex="0" role="region" aria-label="Clips" {
                    table {
                        caption { "Clips" }
                        thead {
                            tr {
                                th scope="col" { "Listen" }
                                (heading("Clip", false))
                                (heading("Text", false))
                                @if self.has_speakers() { (heading("Speaker", false)) }
                                @for column in &self.columns { (heading(column.heading, true)) }
                            }
                        }
                        tbody { @for (row, (at, why)) in self.first.iter().enumerate() { (self.row(row, *at, why, page_audio)) } }
                    }
                }
                button.more type="button" { "Show more clips" }
                script type="application/json" { (PreEscaped(&self.data)) }
            }
            @if rest > 0 { p.note { (units::count(rest as u64)) " more clips are not listed: " code { "throstle items" } " lists them." } }
        }
    }

    fn has_speakers(&self) -> bool {
        has_speakers(self.corpus)
    }

    fn row(&self, row: usize, at: usize, why: &[&str], page_audio: &mut PageAudio) -> Markup {
        let clip = &self.corpus.clips[at];
        html! {
            tr.later[row >= FIRST] data-at=(at) {
                td.listen { (listen(clip, page_audio)) }
                td { code { (text(&clip.id)) } }
                td.prose { (shortened(clip)) @for why in why { " " span.tag { (why) } } }
                @if self.has_speakers() { td data-label="Speaker" { (text(clip.speaker.as_deref().unwrap_or(""))) } }
                @for column in &self.columns {
                    td.number data-label=(column.heading) { (clip.measure(column.measure).map_or_else(String::new, |value| column.shown(value))) }
                }
            }
        }
    }
}

fn is_in(first: &[(usize, Vec<&'static str>)], at: usize) -> bool {
    first.iter().any(|(own, _)| *own == at)
}

/// One speaker is told above the list.
fn has_speakers(corpus: &Corpus) -> bool {
    let mut names = corpus.clips.iter().map(|clip| &clip.speaker);
    let first = names.next();
    names.any(|name| Some(name) != first)
}

fn listen(clip: &Clip, page_audio: &mut PageAudio) -> Markup {
    match clip.hear(page_audio) {
        Some(heard) => player(&heard, &format!("clip {}", clip.id)),
        None => html! {},
    }
}

fn shortened(clip: &Clip) -> String {
    fit(&text(clip.text.as_deref().unwrap_or("")), TEXT).into_owned()
}

/// The clips as JSON, and how many of them there was room for: a list of the columns, and a list
/// for each clip with its id, text, speaker and figures, those in `first` before the others.
fn data(
    corpus: &Corpus,
    columns: &[ListColumn],
    first: &[(usize, Vec<&'static str>)],
) -> (String, usize) {
    let speakers = has_speakers(corpus);
    let mut data = json!({
        "columns": columns.iter().map(|column| json!([column.heading, column.digits])).collect::<Vec<_>>(),
        "speakers": speakers,
    })
    .to_string();
    data.truncate(data.len() - 1);
    data.push_str(",\"clips\":[");
    let mut is_first = vec![false; corpus.clips.len()];
    first.iter().for_each(|(at, _)| is_first[*at] = true);
    let others = (0..corpus.clips.len()).filter(|at| !is_first[*at]);
    let mut listed = 0;
    for at in first.iter().map(|(at, _)| *at).chain(others).take(LISTED) {
        let row = row_data(&corpus.clips[at], at, columns, speakers).to_string();
        // Escapes what would end the element; JSON texts stay the same.
        let row = row.replace('<', "\\u003c");
        if data.len() + row.len() > MOST_BYTES {
            break;
        }
        data.push_str(if listed > 0 { "," } else { "" });
        data.push_str(&row);
        listed += 1;
    }
    data.push_str("]}");
    (data, listed)
}

fn row_data(clip: &Clip, at: usize, columns: &[ListColumn], speakers: bool) -> Value {
    let mut row = vec![json!(at), json!(text(&clip.id)), json!(shortened(clip))];
    if speakers {
        row.push(json!(text(clip.speaker.as_deref().unwrap_or(""))));
    }
    row.extend(columns.iter().map(|column| match clip.measure(column.measure) {
        Some(value) => {
            let scale = 10f64.powi(column.digits as i32);
            json!((value * scale).round() / scale)
        }
        None => Value::Null,
    }));
    Value::Array(row)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn corpus(clips: usize, words: usize) -> Corpus {
        let clip = |at: usize| Clip {
            id: format!("clip{at:05}").into(),
            text: Some("</script><b> äiti ".repeat(words).into()),
            speaker: Some("aino".into()),
            ..Clip::default()
        };
        Corpus { source: "clips".into(), clips: (0..clips).map(clip).collect() }
    }

    #[test]
    fn the_data_is_json_that_ends_no_element_and_has_every_clip_once() {
        let corpus = corpus(200, 1);
        let list = List::of(&corpus);
        assert!(!list.data.contains('<'), "{}", &list.data[..200]);
        let data: Value = serde_json::from_str(&list.data).unwrap();
        let clips = data["clips"].as_array().unwrap();
        let mut numbers: Vec<u64> = clips.iter().map(|row| row[0].as_u64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..200).collect::<Vec<u64>>());
        assert!(clips[0][2].as_str().unwrap().starts_with("</script><b> äiti"));
    }

    #[test]
    fn a_list_that_is_too_long_is_cut_and_says_so() {
        let corpus = corpus(25_000, 40);
        let list = List::of(&corpus);
        assert!(list.bytes() <= MOST_BYTES + 2 && list.listed < LISTED, "{}", list.listed);
        serde_json::from_str::<Value>(&list.data).unwrap();
        assert_eq!(List::of(&self::corpus(25_000, 1)).listed, LISTED);
    }
}
