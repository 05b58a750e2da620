//! Texts as sentences.

/// Signs that end a sentence if a space or the end follows.
const ENDS: &str = ".!?…।॥؟۔;";
/// Signs that end a sentence wherever they are.
const WIDE_ENDS: &str = "。！？；።፧";
/// Signs that may follow the end of a sentence.
const CLOSERS: &str = "\"'”’»)]";
/// A longer sentence is cut at commas, or else between words.
const MAX_SENTENCE_CHARACTERS: usize = 400;

/// The sentences of a text, without the spaces around them. None is without a letter or digit: signs
/// alone belong to the sentence before.
pub fn sentences(text: &str) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for part in text.lines().flat_map(ended) {
        let part = part.trim();
        let is_spoken = part.chars().any(char::is_alphanumeric);
        match sentences.last_mut() {
            _ if part.is_empty() => {}
            Some(last) if !is_spoken => {
                last.push(' ');
                last.push_str(part);
            }
            _ => sentences.extend(short(part)),
        }
    }
    sentences
}

/// A line cut behind the ends of sentences.
fn ended(line: &str) -> Vec<&str> {
    let signs: Vec<(usize, char)> = line.char_indices().collect();
    let (mut parts, mut start) = (Vec::new(), 0);
    let mut at = 0;
    while at < signs.len() {
        let sign = signs[at].1;
        at += 1;
        let is_wide = WIDE_ENDS.contains(sign);
        if !is_wide && !ENDS.contains(sign) {
            continue;
        }
        while signs.get(at).is_some_and(|(_, sign)| CLOSERS.contains(*sign)) {
            at += 1;
        }
        let end = signs.get(at).map_or(line.len(), |(place, _)| *place);
        let is_end = signs.get(at).is_none_or(|(_, sign)| sign.is_whitespace());
        if is_wide || is_end {
            parts.push(&line[start..end]);
            start = end;
        }
    }
    parts.push(&line[start..]);
    parts
}

/// A sentence in parts that are not too long.
fn short(sentence: &str) -> Vec<String> {
    let (mut parts, mut rest) = (Vec::new(), sentence);
    while let Some((limit, _)) = rest.char_indices().nth(MAX_SENTENCE_CHARACTERS) {
        let head = &rest[..limit];
        let comma = head.rfind([',', '،', '、', ':', '–', '—']).filter(|at| *at > limit / 2);
        let cut = match comma.or_else(|| head.rfind(char::is_whitespace)) {
            Some(at) => at + head[at..].chars().next().map_or(0, char::len_utf8),
            None => limit,
        };
        parts.push(rest[..cut].trim().to_owned());
        rest = &rest[cut..];
    }
    parts.push(rest.trim().to_owned());
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_behind_its_sentences() {
        for (text, parts) in [
            ("Hei. Mitä kuuluu? Hyvää!", &["Hei.", "Mitä kuuluu?", "Hyvää!"][..]),
            ("One line\n\nand another", &["One line", "and another"]),
            ("It is 3.5 m (\"far.\") Yes", &["It is 3.5 m (\"far.\")", "Yes"]),
            ("નમસ્તે। કેમ છો?", &["નમસ્તે।", "કેમ છો?"]),
            ("你好。再见！", &["你好。", "再见！"]),
            ("Wait ... what?", &["Wait ...", "what?"]),
            ("So. — !", &["So. — !"]),
            ("  ", &[]),
        ] {
            assert_eq!(sentences(text), parts, "{text}");
        }
    }

    #[test]
    fn nothing_of_a_long_text_is_lost_and_no_part_is_long() {
        for text in [
            "word ".repeat(500),
            "x".repeat(3 * MAX_SENTENCE_CHARACTERS + 7),
            "ää, öö ".repeat(200),
            "一".repeat(900),
        ] {
            let parts = sentences(&text);
            assert!(parts.iter().all(|part| part.chars().count() <= MAX_SENTENCE_CHARACTERS));
            let letters =
                |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).count();
            assert_eq!(letters(&parts.concat()), letters(&text));
        }
    }

    #[test]
    fn only_signs_are_one_sentence_to_be_refused() {
        assert_eq!(sentences("?! ..."), ["?! ..."]);
    }
}
