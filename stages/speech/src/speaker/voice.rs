//! The direction of a voice: the mean of the embeddings of its clips.

use std::collections::BTreeMap;

/// An embedding of length 1.
pub type Direction = Vec<f64>;

/// The direction of an embedding; None if it has none.
pub fn direction(embedding: &[f64]) -> Option<Direction> {
    let length = dot(embedding, embedding).sqrt();
    let has_one = length > 0.0 && length.is_finite();
    has_one.then(|| embedding.iter().map(|number| number / length).collect())
}

pub fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

pub fn add(to: &mut [f64], other: &[f64]) {
    to.iter_mut().zip(other).for_each(|(to, other)| *to += other);
}

/// A voice with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Voice {
    pub name: String,
    pub direction: Direction,
}

/// The voices of clips with known speakers, by name. Speakers with clips that cancel each other have
/// no direction and are left out.
pub fn voices<'a>(clips: impl IntoIterator<Item = (&'a str, &'a Direction)>) -> Vec<Voice> {
    let mut sums: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, clip) in clips {
        match sums.get_mut(name) {
            Some(sum) => add(sum, clip),
            None => drop(sums.insert(name, clip.clone())),
        }
    }
    let voice = |(name, sum): (&str, Vec<f64>)| {
        Some(Voice { name: name.to_owned(), direction: direction(&sum)? })
    };
    sums.into_iter().filter_map(voice).collect()
}

/// The voice with the highest cosine, of equal ones the first, and that cosine.
pub fn nearest<'a>(
    voices: impl IntoIterator<Item = &'a Voice>,
    clip: &[f64],
) -> Option<(&'a Voice, f64)> {
    let cosine = |voice: &'a Voice| (voice, dot(&voice.direction, clip).clamp(-1.0, 1.0));
    let found = voices.into_iter().map(cosine);
    found.reduce(|one, other| if one.1 < other.1 { other } else { one })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_voice_is_the_mean_direction_of_its_clips() {
        let clips = [[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]].map(|clip| direction(&clip).unwrap());
        let found = voices([("b", &clips[0]), ("a", &clips[2]), ("b", &clips[1])]);
        let names: Vec<&str> = found.iter().map(|voice| voice.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!((found[1].direction[0] - 0.5_f64.sqrt()).abs() < 1e-12);
        let (voice, cosine) = nearest(&found, &clips[1]).unwrap();
        assert_eq!(voice.name, "b");
        assert!((cosine - 0.5_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn what_cancels_has_no_direction_and_of_equal_voices_the_first_is_nearest() {
        assert_eq!(direction(&[0.0, 0.0]), None);
        assert_eq!(direction(&[f64::INFINITY]), None);
        let clips = [[1.0], [-1.0]].map(|clip| direction(&clip).unwrap());
        assert!(voices([("a", &clips[0]), ("a", &clips[1])]).is_empty());
        let same = voices([("b", &clips[0]), ("a", &clips[0])]);
        assert_eq!(nearest(&same, &clips[0]).unwrap().0.name, "a");
        assert_eq!(nearest(&[], &clips[0]), None);
    }
}
