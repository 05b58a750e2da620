//! The speakers of a voice, among which a person chooses.

use engine::manifest::suggestion;
use engine::store::Store;
use stage_core::{Fields, Setup};
use stage_families::artifact::{CONFIG, FAMILY, SPEAKERS};
use stage_families::find;
use view::escape::clean;

use crate::error::CliError;

/// More names are not listed.
const LISTED: usize = 20;

/// The speakers of a model.
#[derive(Clone, Debug, Default)]
pub struct Speakers {
    /// In the order of their numbers; empty if they have none.
    pub names: Vec<String>,
    /// None if it is not known.
    pub count: Option<u64>,
}

impl Speakers {
    /// A voice without a choice.
    pub fn one() -> Speakers {
        Speakers { names: Vec::new(), count: Some(1) }
    }

    /// Those of the model of a stage that has the most.
    pub fn of(setup: &Setup, store: &Store) -> Speakers {
        let all = setup.artifacts.values().flatten().map(|model| Speakers::of_model(model, store));
        all.max_by_key(|speakers| (speakers.count, speakers.names.len())).unwrap_or_default()
    }

    fn of_model(model: &Fields, store: &Store) -> Speakers {
        let names = model.text(SPEAKERS).and_then(|names| serde_json::from_str(names).ok());
        let names: Vec<String> = names.unwrap_or_default();
        let config = model.blob(CONFIG).and_then(|blob| store.read(&blob.digest).ok());
        let family = model.text(FAMILY).and_then(find);
        let read = family.zip(config).and_then(|(family, config)| family.read(&config));
        let counted = read.and_then(|model| model.speakers());
        let count = counted.or_else(|| u64::try_from(names.len()).ok().filter(|count| *count > 0));
        Speakers { names, count }
    }

    /// Fails if this is none of them, neither by name nor by number.
    pub fn require(&self, voice: &str, wished: &str) -> Result<(), CliError> {
        if self.names.is_empty() && self.count.is_none() {
            return Ok(());
        }
        let has_number = |count| wished.parse::<u64>().is_ok_and(|number| number < count);
        if self.names.iter().any(|name| name == wished) || self.count.is_some_and(has_number) {
            return Ok(());
        }
        let message = format!("the voice `{}` has no speaker `{}`", clean(voice), clean(wished));
        let help = match (self.count, self.names.as_slice()) {
            (None | Some(..=1), []) => "it has one speaker: leave out `--speaker`".to_owned(),
            (Some(count), []) => format!("its speakers are the numbers 0 to {}", count - 1),
            (_, [one]) => format!("its only speaker is `{}`", clean(one)),
            (_, names) => {
                let names = names.iter().take(LISTED).map(String::as_str);
                suggestion(wished, "its speakers are", names).unwrap_or_default()
            }
        };
        Err(CliError::usage(message, help))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn told(names: &[&str], count: Option<u64>, wished: &str) -> Result<(), String> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let required = Speakers { names, count }.require("voice", wished);
        required.map_err(|error| match error {
            CliError::Usage { help, .. } => help.unwrap_or_default(),
            other => other.to_string(),
        })
    }

    #[test]
    fn a_speaker_is_one_of_the_names_or_numbers() {
        let two = ["aino", "eero"];
        assert_eq!(told(&two, Some(2), "eero"), Ok(()));
        assert_eq!(told(&two, Some(2), "1"), Ok(()));
        assert_eq!(told(&["aino"], Some(1), "aino"), Ok(()));
        assert_eq!(told(&[], Some(1), "0"), Ok(()));
        assert_eq!(told(&[], Some(3), "2"), Ok(()));
        assert_eq!(told(&[], None, "anni"), Ok(()), "the model knows");
        for (names, count, wished, help) in [
            (&two[..], Some(2), "2", "`aino`, `eero`"),
            (&two[..], Some(2), "nobody", "`aino`, `eero`"),
            (&["aino"], Some(1), "nobody", "its only speaker is `aino`"),
            (&[], Some(1), "nobody", "leave out `--speaker`"),
            (&[], Some(3), "3", "the numbers 0 to 2"),
        ] {
            let refused = told(names, count, wished).unwrap_err();
            assert!(refused.contains(help), "{names:?} {wished}: {refused}");
        }
    }
}
