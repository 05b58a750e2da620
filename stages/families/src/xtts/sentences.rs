//! Splits long texts into pieces that a model speaks well: at the ends of sentences, then at
//! commas, then between words.

/// Ends of sentences, if a space or nothing follows.
const ENDS: &[char] = &['.', '!', '?', '…', '。', '！', '？', '؟', '۔', '।', '።', '፧', '፨'];
/// Ends of sentences in scripts without spaces.
const ENDS_WITHOUT_SPACE: &[char] = &['。', '！', '？', '።', '፧', '፨'];
const PAUSES: &[char] = &[',', ';', ':', '،', '、', '，', '；', '：', '፣', '፤', '፥', '–', '—'];
/// Characters between the end of a sentence and the following space.
const CLOSING: &[char] = &['"', '\'', ')', ']', '»', '”', '’', '」', '』'];

/// The pieces of a text in order, each as long as possible; a text that fits is one piece. A word
/// or character that does not fit by itself is one piece too.
pub fn pieces(text: &str, fits: &dyn Fn(&str) -> bool) -> Vec<String> {
    pieces_of(text, &[sentences, clauses, words, characters], fits)
}

type Cut = fn(&str) -> Vec<&str>;

/// Splits in the first way, and longer parts in the next ones.
fn pieces_of(text: &str, cuts: &[Cut], fits: &dyn Fn(&str) -> bool) -> Vec<String> {
    let whole = text.trim();
    let Some((cut, finer)) = cuts.split_first() else { return vec![whole.to_owned()] };
    if whole.is_empty() || fits(whole) {
        return if whole.is_empty() { Vec::new() } else { vec![whole.to_owned()] };
    }
    let mut pieces: Vec<String> = Vec::new();
    let mut open = String::new();
    for part in cut(whole) {
        let joined = format!("{open}{part}");
        if fits(joined.trim()) {
            open = joined;
            continue;
        }
        pieces.extend(kept(&open));
        open.clear();
        match fits(part.trim()) {
            true => open.push_str(part),
            false => {
                pieces.extend(pieces_of(part, finer, fits));
                // Its last part may be extended by the next one.
                open = pieces.pop().unwrap_or_default();
            }
        }
    }
    pieces.extend(kept(&open));
    pieces
}

fn kept(piece: &str) -> Option<String> {
    let piece = piece.trim();
    (!piece.is_empty()).then(|| piece.to_owned())
}

/// Each with the text up to the next one, so that together they are the whole text.
fn sentences(text: &str) -> Vec<&str> {
    cut_behind(text, |before, next| {
        let sign = before.trim_end_matches(CLOSING).chars().next_back();
        let Some(sign) = sign.filter(|sign| ENDS.contains(sign)) else {
            return next == Some('\n');
        };
        let is_last_of_several = next.is_none_or(|next| !ENDS.contains(&next));
        let may_end = next.is_none_or(char::is_whitespace) || ENDS_WITHOUT_SPACE.contains(&sign);
        may_end && is_last_of_several && next.is_none_or(|next| !CLOSING.contains(&next))
    })
}

fn clauses(text: &str) -> Vec<&str> {
    cut_behind(text, |before, next| {
        before.ends_with(PAUSES)
            && (next.is_none_or(char::is_whitespace)
                || !before.ends_with([',', ':', '.', '–', '—']))
    })
}

fn words(text: &str) -> Vec<&str> {
    cut_behind(text, |_, next| next.is_some_and(char::is_whitespace))
}

fn characters(text: &str) -> Vec<&str> {
    cut_behind(text, |_, _| true)
}

/// Splits where `is_end` accepts the text before and the next character.
fn cut_behind(text: &str, is_end: impl Fn(&str, Option<char>) -> bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        if is_end(&text[start..end], text[end..].chars().next()) {
            parts.push(&text[start..end]);
            start = end;
        }
    }
    if start < text.len() {
        parts.push(&text[start..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, limit: usize) -> Vec<String> {
        pieces(text, &|piece| piece.chars().count() <= limit)
    }

    #[test]
    fn a_text_that_fits_stays_whole_and_nothing_has_no_pieces() {
        assert_eq!(cut("  One. Two.  ", 9), ["One. Two."]);
        assert!(cut(" \n ", 9).is_empty());
    }

    #[test]
    fn sentences_are_kept_together_as_far_as_they_fit() {
        let text = "One is here. Two! Three, at 3.5 percent? Four";
        assert_eq!(cut(text, 20), ["One is here. Two!", "Three,", "at 3.5 percent? Four"]);
        assert_eq!(cut("\"Really?\" he said. Yes.", 18), ["\"Really?\" he said.", "Yes."]);
        assert_eq!(cut("Wait... what?!", 8), ["Wait...", "what?!"]);
    }

    #[test]
    fn a_long_sentence_is_cut_at_pauses_then_between_words_then_anywhere() {
        assert_eq!(cut("one two, three four, five", 15), ["one two,", "three four,", "five"]);
        assert_eq!(cut("one two three", 7), ["one two", "three"]);
        assert_eq!(cut("abcdefgh", 3), ["abc", "def", "gh"]);
    }

    #[test]
    fn scripts_without_spaces_are_cut_behind_their_signs() {
        assert_eq!(cut("今日は。明日は！", 5), ["今日は。", "明日は！"]);
        assert_eq!(cut("ሰላም።እንዴት ነህ፧", 9), ["ሰላም።", "እንዴት ነህ፧"]);
        assert_eq!(cut("नमस्ते। कैसे हो?", 9), ["नमस्ते।", "कैसे हो?"]);
    }

    #[test]
    fn no_word_is_lost_at_any_limit() {
        let text = "First one, and then; the \"other one\". Third!\nFourth: 1,000 of them... end";
        let words = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        for limit in 1..=80 {
            assert_eq!(words(&cut(text, limit).concat()), words(text), "{limit}");
        }
    }
}
