//! The identity of training clips, and the selection of held-out ones: a plan forecasts with the
//! functions that the training uses.

use std::collections::HashMap;

use cache::Digest;
use stage_core::key::{HashSink, Sink};

/// The parts of a clip that a model learns from: the same clip under another name is the same clip.
#[derive(Clone, Debug, Default)]
pub struct Identity<'a> {
    pub text: &'a str,
    pub language: Option<&'a str>,
    pub tokens: Option<&'a Digest>,
    pub audio: Option<&'a Digest>,
    /// For models with several speakers.
    pub speaker: Option<&'a str>,
}

impl Identity<'_> {
    pub fn digest(&self) -> Digest {
        let mut sink = HashSink::default();
        sink.text("text", self.text);
        if let Some(language) = self.language {
            sink.text("language", language);
        }
        if let Some(tokens) = self.tokens {
            sink.digest("tokens", tokens);
        }
        if let Some(audio) = self.audio {
            sink.digest("audio", audio);
        }
        if let Some(speaker) = self.speaker {
            sink.text("speaker", speaker);
        }
        sink.finish()
    }
}

/// A fixed number for an id.
pub fn hash(salt: &str, id: &str) -> u64 {
    Digest::of(format!("{} {salt}{id}", salt.len()).as_bytes()).start()
}

/// True for each held-out id: `fraction` of them on average, by each clip's own id, so that other
/// clips never move one from side to side. If chance holds out none of several, the one with the
/// lowest hash is held out; one always stays for training.
pub fn held_out(ids: &[&str], fraction: f64, salt: &str) -> Vec<bool> {
    let ranks: Vec<u64> = ids.iter().map(|id| hash(salt, id)).collect();
    // A double has 53 exact bits.
    let is_below = |rank: &u64| ((rank >> 11) as f64 / (1u64 << 53) as f64) < fraction;
    let mut sides: Vec<bool> = ranks.iter().map(is_below).collect();
    if fraction <= 0.0 || ids.len() < 2 {
        return vec![false; ids.len()];
    }
    let place = |(at, rank): (usize, &u64)| (*rank, ids[at], at);
    let held = sides.iter().filter(|side| **side).count();
    if held == 0
        && let Some((_, _, at)) = ranks.iter().enumerate().map(place).min()
    {
        sides[at] = true;
    }
    if held == ids.len()
        && let Some((_, _, at)) = ranks.iter().enumerate().map(place).max()
    {
        sides[at] = false;
    }
    sides
}

/// The most likely number of held-out clips among this number of unknown ones.
pub fn expected_held_out(clips: f64, fraction: f64) -> f64 {
    let held = (fraction * clips).round();
    match fraction > 0.0 && clips >= 2.0 {
        true => held.clamp(1.0, clips - 1.0),
        false => 0.0,
    }
}

/// The held-out items with the sound of a training item: their positions, and for each the id of the
/// training item, the first one by name. Items are their id, their sound, and true if they are held
/// out.
pub fn repeats<'a>(
    items: impl Iterator<Item = (&'a str, Option<Digest>, bool)> + Clone,
) -> Vec<(usize, &'a str)> {
    let mut trained: HashMap<Digest, &str> = HashMap::new();
    for (id, sound, _) in items.clone().filter(|(_, _, is_held)| !is_held) {
        let Some(sound) = sound else { continue };
        let first = trained.entry(sound).or_insert(id);
        *first = (*first).min(id);
    }
    let repeated = |(at, (_, sound, is_held)): (usize, (&str, Option<Digest>, bool))| {
        let original = trained.get(&sound?).filter(|_| is_held)?;
        Some((at, *original))
    };
    items.enumerate().filter_map(repeated).collect()
}

/// The note on such items that are kept: the first one, and its training item.
pub fn repeats_note(first: &str, original: &str) -> String {
    format!("held out with the sound of a training clip (`{first}` is `{original}`)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("clip{number}")).collect()
    }

    fn sides(ids: &[String], fraction: f64) -> Vec<bool> {
        held_out(&ids.iter().map(String::as_str).collect::<Vec<_>>(), fraction, "salt")
    }

    #[test]
    fn new_clips_move_no_other_clip() {
        let (few, many) = (sides(&ids(100), 0.1), sides(&ids(1_000), 0.1));
        assert_eq!(few, many[..100]);
        let held = many.iter().filter(|side| **side).count();
        assert!((60..140).contains(&held), "{held}");
        assert_eq!(expected_held_out(1_000.0, 0.1), 100.0);
    }

    #[test]
    fn both_sides_have_a_clip_where_there_are_two() {
        for count in [2, 3] {
            for fraction in [1e-9, 0.5, 1.0] {
                let sides = sides(&ids(count), fraction);
                assert!(sides.contains(&true) && sides.contains(&false), "{count} {fraction}");
                let expected = expected_held_out(count as f64, fraction);
                assert!(expected >= 1.0 && expected < count as f64, "{count} {fraction}");
            }
        }
        assert_eq!(sides(&ids(1), 0.5), [false]);
        assert_eq!(sides(&ids(3), 0.0), [false; 3]);
        assert_eq!((expected_held_out(1.0, 0.5), expected_held_out(3.0, 0.0)), (0.0, 0.0));
    }

    #[test]
    fn a_held_out_sound_that_is_trained_on_is_found_with_the_first_name() {
        let (one, other) = (Some(Digest::of(b"one")), Some(Digest::of(b"other")));
        let items = [
            ("c", one, false),
            ("b", one, true),
            ("a", one, false),
            ("d", other, true),
            ("e", None, true),
            ("f", None, false),
        ];
        assert_eq!(repeats(items.into_iter()), [(1, "a")]);
    }

    #[test]
    fn every_part_of_a_clip_is_in_its_identity() {
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let clip = Identity { text: "a", tokens: Some(&one), ..Identity::default() };
        let others = [
            Identity { text: "b", ..clip.clone() },
            Identity { language: Some("fi"), ..clip.clone() },
            Identity { tokens: Some(&other), ..clip.clone() },
            Identity { tokens: None, audio: Some(&one), ..clip.clone() },
            Identity { speaker: Some("aino"), ..clip.clone() },
        ];
        let digests: Vec<Digest> = others.iter().map(Identity::digest).collect();
        assert!(!digests.contains(&clip.digest()));
        assert_eq!(clip.digest(), clip.clone().digest());
    }
}
