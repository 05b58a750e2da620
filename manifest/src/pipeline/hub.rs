//! Models of the Hugging Face Hub, as manifests name them: `hf://OWNER/NAME[@REVISION]`.

use std::fmt;

pub const SCHEME: &str = "hf://";
/// The revision of models without one.
const USUAL: &str = "main";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubModel {
    pub owner: String,
    pub name: String,
    /// A branch, a tag or a commit.
    pub revision: String,
}

impl HubModel {
    /// None if it is no name of a model.
    pub fn parse(text: &str) -> Option<HubModel> {
        let rest = text.strip_prefix(SCHEME)?;
        let (model, revision) = rest.split_once('@').unwrap_or((rest, USUAL));
        let (owner, name) = model.split_once('/')?;
        let is_plain = |part: &str, more: &str| {
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || more.contains(letter);
            part.starts_with(|letter: char| letter.is_ascii_alphanumeric())
                && part.chars().all(allowed)
                && !part.contains("..")
                && part.len() <= 200
        };
        let is_valid =
            is_plain(owner, "-_.") && is_plain(name, "-_.") && is_plain(revision, "-_./");
        let [owner, name, revision] = [owner, name, revision].map(str::to_owned);
        is_valid.then_some(HubModel { owner, name, revision })
    }

    /// The name of the repository.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

impl fmt::Display for HubModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SCHEME}{}/{}@{}", self.owner, self.name, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_an_owner_a_name_and_a_revision() {
        let model = HubModel::parse("hf://some-lab/a.voice@v1.0/x").map(|m| m.to_string());
        assert_eq!(model.as_deref(), Some("hf://some-lab/a.voice@v1.0/x"));
        let model = HubModel::parse("hf://a/b").map(|model| (model.repository(), model.revision));
        assert_eq!(model, Some(("a/b".to_owned(), "main".to_owned())));
    }

    #[test]
    fn names_that_could_be_options_or_paths_are_refused() {
        for text in [
            "hf://",
            "hf://a",
            "hf://a/",
            "hf:///b",
            "hf://a/b/c",
            "hf://-a/b",
            "hf://a/--b",
            "hf://a/..",
            "hf://a/b@",
            "hf://a/b@../x",
            "hf://a/b@-x",
            "hf://a b/c",
            "hf://a/b@x\n",
            "s3://a/b",
        ] {
            assert_eq!(HubModel::parse(text), None, "{text}");
        }
    }
}
