//! The measurements: the fields of each candidate and sentence.

use std::collections::{BTreeMap, BTreeSet};

use stage_core::{Fields, Item};
use stage_expression::{Each, Lacks, Test};

/// The items by candidate and sentence.
#[derive(Clone, Debug, Default)]
pub struct SentenceTable<'a> {
    pub sentences: Vec<&'a str>,
    items: BTreeMap<&'a str, BTreeMap<&'a str, &'a Fields>>,
}

/// A value that an expression needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    #[error("the sentence `{0}` was not measured")]
    Sentence(String),
    #[error("the sentence `{sentence}` has no number `{field}`")]
    Number { sentence: String, field: String },
    #[error("the sentence `{sentence}` has no text `{field}`")]
    Text { sentence: String, field: String },
    #[error("the sentence `{sentence}` gives no finite number")]
    Infinite { sentence: String },
}

/// Two items of one candidate and sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{candidate}` has the sentence `{sentence}` twice")]
pub struct Twice {
    pub candidate: String,
    pub sentence: String,
}

impl<'a> SentenceTable<'a> {
    /// `place` gives the candidate and the sentence of an item.
    pub fn of(
        items: &'a [Item],
        place: impl Fn(&'a Item) -> (&'a str, &'a str),
    ) -> Result<SentenceTable<'a>, Twice> {
        let mut table = SentenceTable::default();
        let mut sentences = BTreeSet::new();
        for item in items {
            let (candidate, sentence) = place(item);
            sentences.insert(sentence);
            let own = table.items.entry(candidate).or_default();
            if own.insert(sentence, &item.fields).is_some() {
                let (candidate, sentence) = (candidate.to_owned(), sentence.to_owned());
                return Err(Twice { candidate, sentence });
            }
        }
        table.sentences = sentences.into_iter().collect();
        Ok(table)
    }

    pub fn candidates(&self) -> impl Iterator<Item = &'a str> {
        self.items.keys().copied()
    }

    pub fn has(&self, candidate: &str) -> bool {
        self.items.contains_key(candidate)
    }

    /// Only these sentences.
    pub fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.sentences.retain(|sentence| is_kept(sentence));
    }

    /// With only the sentences that all these candidates have.
    pub fn shared(&self, candidates: &[&str]) -> SentenceTable<'a> {
        let mut table = self.clone();
        let has = |candidate: &&str, sentence: &str| {
            self.items.get(*candidate).is_some_and(|own| own.contains_key(sentence))
        };
        table.keep(|sentence| candidates.iter().all(|candidate| has(candidate, sentence)));
        table
    }

    fn each<T>(
        &self,
        candidate: &str,
        value: impl Fn(&Fields) -> Result<T, Lacks>,
    ) -> Result<Vec<T>, Missing> {
        let own = self.items.get(candidate);
        let one = |sentence: &str| {
            let fields = own.and_then(|own| own.get(sentence).copied());
            let fields = fields.ok_or_else(|| Missing::Sentence(sentence.to_owned()))?;
            value(fields).map_err(|lacks| Missing::of(lacks, sentence))
        };
        self.sentences.iter().map(|sentence| one(sentence)).collect()
    }

    /// A number for each sentence.
    pub fn numbers(&self, candidate: &str, each: &Each) -> Result<Vec<f64>, Missing> {
        self.each(candidate, |fields| each.of(fields))
    }

    /// 1 for each sentence that passes, and 0 for each other.
    pub fn passes(&self, candidate: &str, test: &Test) -> Result<Vec<f64>, Missing> {
        self.each(candidate, |fields| Ok(f64::from(u8::from(test.of(fields)?))))
    }
}

impl Missing {
    fn of(lacks: Lacks, sentence: &str) -> Missing {
        let sentence = sentence.to_owned();
        match lacks {
            Lacks::Number(field) => Missing::Number { sentence, field },
            Lacks::Text(field) => Missing::Text { sentence, field },
            Lacks::Finite => Missing::Infinite { sentence },
            Lacks::Sentences => Missing::Sentence(sentence),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_core::Value;
    use stage_expression::{Aggregate, Whole, measure};

    use super::*;

    fn item(id: &str, cer: Option<f64>, stop: Option<&str>) -> Item {
        let cer = cer.map(|cer| ("cer", Value::Number(cer)));
        let stop = stop.map(|stop| ("stop", Value::text(stop)));
        Item::new(id, cer.into_iter().chain(stop).collect())
    }

    fn table(items: &[Item]) -> SentenceTable<'_> {
        SentenceTable::of(items, |item| item.id.split_once('@').map(|(a, b)| (b, a)).unwrap())
            .unwrap()
    }

    fn broken() -> Test {
        match measure("share(cer > 0.3 or stop != 'end')").unwrap() {
            Whole::Aggregate(Aggregate::Share(test)) => test,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_broken_sentence_is_one_that_is_not_understood_or_does_not_end() {
        let items = [
            item("a@x", Some(0.2), Some("end")),
            item("b@x", Some(0.4), Some("end")),
            item("c@x", Some(0.1), Some("limit")),
        ];
        assert_eq!(table(&items).passes("x", &broken()).unwrap(), [0.0, 1.0, 1.0]);
    }

    /// A bad sentence must not pass for a good one since a figure of it is missing.
    #[test]
    fn a_missing_value_is_an_error_and_never_zero() {
        let whole = item("a@x", Some(0.2), Some("end"));
        for (other, reason) in [
            (item("b@x", None, Some("end")), "the sentence `b` has no number `cer`"),
            (item("b@x", Some(f64::NAN), Some("end")), "the sentence `b` has no number `cer`"),
            (item("b@x", Some(0.9), None), "the sentence `b` has no text `stop`"),
        ] {
            let items = [whole.clone(), other];
            let error = table(&items).passes("x", &broken()).unwrap_err();
            assert_eq!(error.to_string(), reason);
        }
    }

    #[test]
    fn a_sentence_that_only_others_have_is_missing() {
        let items = [
            item("a@x", Some(0.2), None),
            item("a@y", Some(0.2), None),
            item("b@y", Some(0.2), None),
        ];
        let each = Each::Field("cer".into());
        let table = table(&items);
        assert_eq!(table.numbers("y", &each).unwrap(), [0.2, 0.2]);
        assert_eq!(table.numbers("x", &each).unwrap_err(), Missing::Sentence("b".into()));
    }

    #[test]
    fn a_division_by_zero_is_no_number() {
        let items = [item("a@x", Some(0.0), None)];
        let each = Each::Binary(
            stage_expression::Operator::Divide,
            Box::new(Each::Number(1.0)),
            Box::new(Each::Field("cer".into())),
        );
        let error = table(&items).numbers("x", &each).unwrap_err();
        assert_eq!(error, Missing::Infinite { sentence: "a".into() });
    }

    #[test]
    fn a_sentence_that_was_measured_twice_is_refused() {
        let items = [item("a@x", None, None), item("a@x", None, None)];
        let error = SentenceTable::of(&items, |_| ("x", "a")).unwrap_err();
        assert_eq!(error.to_string(), "`x` has the sentence `a` twice");
    }
}
