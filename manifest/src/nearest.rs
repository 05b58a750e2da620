//! Finds the name that was probably meant.

/// Longer names are not compared: the cost grows with the square of their length.
const LONGEST: usize = 100;
/// The score from which on a name is offered. One slip in a short name, such as `rnu` for `run`,
/// is given it.
const NEAR: f64 = 0.7;

/// The most similar name, if any is similar enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let similar = |candidate: &&str| candidate.len() <= LONGEST;
    let scored =
        known.into_iter().filter(similar).map(|candidate| (score(name, candidate), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))?;
    (best.0 >= NEAR).then_some(best.1)
}

/// 1 for equal, 0 for nothing in common. The part after the dot is also compared alone, so that
/// `resample` finds `audio.resample`.
fn score(name: &str, candidate: &str) -> f64 {
    let (a, b) = (name.to_lowercase(), candidate.to_lowercase());
    let similar =
        strsim::jaro_winkler(&a, &b).min(strsim::normalized_damerau_levenshtein(&a, &b) + 0.3);
    let is_slip = a.chars().count() >= 3 && strsim::damerau_levenshtein(&a, &b) == 1;
    let whole = if is_slip { similar.max(NEAR) } else { similar };
    let tail = b.rsplit('.').next().unwrap_or(&b);
    let part = strsim::normalized_damerau_levenshtein(&a, tail) * 0.95;
    whole.max(part)
}

/// "did you mean", or the whole list if nothing is similar and the list is short.
pub fn suggestion<'a>(
    name: &str,
    what: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let mut known: Vec<&str> = known.into_iter().collect();
    if let Some(near) = nearest(name, known.iter().copied()) {
        return Some(format!("did you mean `{near}`?"));
    }
    known.sort_unstable();
    known.dedup();
    match known.len() {
        0 => None,
        1..=20 => Some(format!("{what}: {}", list(known))),
        _ => None,
    }
}

/// Names in backticks, separated by commas.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: [&str; 6] = ["run", "status", "items", "why", "watch", "audio.resample"];

    #[test]
    fn one_slip_finds_a_short_name_and_nothing_finds_none() {
        for (typed, meant) in [
            ("rnu", Some("run")),
            ("rum", Some("run")),
            ("stauts", Some("status")),
            ("item", Some("items")),
            ("Why", Some("why")),
            ("resampel", Some("audio.resample")),
            ("ru", Some("run")),
            ("fly", None),
            ("go", None),
            ("xyzzy", None),
        ] {
            assert_eq!(nearest(typed, COMMANDS), meant, "{typed}");
        }
    }
}
