//! Finds the name that was probably meant.

/// Longer names are not compared: the cost grows with the square of their length.
const LONGEST: usize = 100;

/// The most similar name, if any is similar enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let similar = |candidate: &&str| candidate.len() <= LONGEST;
    let scored =
        known.into_iter().filter(similar).map(|candidate| (score(name, candidate), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))?;
    (best.0 >= 0.7).then_some(best.1)
}

/// 1 for equal, 0 for nothing in common. The part after the dot is also compared alone, so that
/// `resample` finds `audio.resample`.
fn score(name: &str, candidate: &str) -> f64 {
    let (a, b) = (name.to_lowercase(), candidate.to_lowercase());
    let whole =
        strsim::jaro_winkler(&a, &b).min(strsim::normalized_damerau_levenshtein(&a, &b) + 0.3);
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
