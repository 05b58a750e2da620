//! The page of a blind listening test: on the local server, or as one file for other raters.

use std::collections::BTreeMap;

use base64ct::{Base64, Encoding};
use maud::{Markup, html};
use serde_json::Value;

use crate::local::{Page, Parts};

const STYLE: &str = include_str!("rate/page.css");
/// The keys and the players. Where pairs come from and votes go is left to one of the two below.
const TEST: &str = include_str!("rate/page.js");
const LIVE: &str = include_str!("rate/live.js");
const PACKED: &str = include_str!("rate/packed.js");

const TITLE: &str = "Listening test";

/// The page that asks its server for pairs.
pub fn page() -> Page {
    let script = format!("{TEST}{LIVE}");
    Page::new(Parts { title: TITLE, style: STYLE, script: &script, body: test() })
}

/// A file that needs nothing else: `data` has pairs and orders, and `sounds` are FLAC by name.
pub fn file(mut data: Value, sounds: &BTreeMap<String, Vec<u8>>) -> String {
    let text = |bytes: &Vec<u8>| Value::String(Base64::encode_string(bytes));
    data["sounds"] = sounds.iter().map(|(name, bytes)| (name.clone(), text(bytes))).collect();
    let script = format!("{TEST}{PACKED}");
    let body = html! {
        form #who {
            label for="name" { "Your name" }
            input #name required maxlength="64" pattern="[\\p{L}\\p{N}_\\-]+"
                title="letters, digits, - and _" autocomplete="off";
            button.more type="submit" { "Begin" }
        }
        (test())
        section #result hidden {
            p { "Send this file, or the text below, back to the person who sent you the test." }
            p { a #save { "Save the votes" } }
            textarea #votes rows="8" readonly {}
        }
    };
    let parts = Parts { title: TITLE, style: STYLE, script: &script, body };
    Page::file(parts, &data)
}

fn test() -> Markup {
    html! {
        section #test hidden {
            p #course.note {}
            progress #bar max="1" value="0" {}
            p #text.sentence {}
            div.sides {
                @for (number, side) in [("1", "left"), ("2", "right")] {
                    div.side {
                        button id=(format!("play-{side}")) type="button" { "Play " kbd { (number) } }
                        button id=(format!("prefer-{side}")) type="button" {
                            "Prefer " (number) " "
                            kbd { @if side == "left" { "←" } @else { "→" } }
                        }
                    }
                }
            }
            div.others {
                button #same type="button" hidden { "No difference " kbd { "↓" } }
                button #undo type="button" { "Undo " kbd { "u" } }
            }
            p.note { "Space pauses. Listen to both, then choose the one that sounds better to you." }
        }
        section #end hidden {
            p #ended {}
            button #more.more type="button" hidden { "Another round " kbd { "m" } }
        }
        p #told.note role="status" {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_load_nothing_from_elsewhere() {
        let sounds = BTreeMap::from([("name".to_owned(), vec![1, 2, 3])]);
        let file = file(serde_json::json!({"text": "</script><b>"}), &sounds);
        assert!(file.contains("\"sounds\":{\"name\":\"AQID\"}"));
        assert!(file.contains("default-src 'none'") && file.contains("connect-src 'none'"));
        assert!(!file.contains("</script><b>"));
        for page in [page().html(), &file] {
            for outside in ["http:", "https:", "src=", "innerHTML"] {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }
}
