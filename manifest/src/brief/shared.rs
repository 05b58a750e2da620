//! The parameters that several kinds have: each is explained once.

use std::collections::BTreeMap;
use std::fmt::Write;

use stage_core::{Catalogue, Kind};

use super::entry::{ParameterEntry, REQUIRED};

/// The smallest number of parameters that are worth a group of their own.
const MIN_GROUP: usize = 4;

pub struct ParameterGroups {
    /// By the kinds that have all of them.
    groups: Vec<(Vec<&'static str>, Vec<ParameterEntry>)>,
    /// The others, by name.
    others: BTreeMap<&'static str, ParameterEntry>,
}

impl ParameterGroups {
    pub fn of(catalogue: &Catalogue) -> ParameterGroups {
        let mut by_name: BTreeMap<&'static str, Vec<(&'static str, ParameterEntry)>> =
            BTreeMap::new();
        for kind in catalogue.iter() {
            for parameter in kind.parameters {
                let own = (kind.name, ParameterEntry::in_kind(parameter));
                by_name.entry(parameter.name).or_default().push(own);
            }
        }
        let mut by_kinds: BTreeMap<Vec<&'static str>, Vec<ParameterEntry>> = BTreeMap::new();
        for uses in by_name.into_values() {
            let Some(entry) = most_common(&uses) else { continue };
            let alike = uses.iter().filter(|(_, other)| other.differs_only_in_default(&entry));
            let kinds = alike.map(|(kind, _)| *kind).collect();
            by_kinds.entry(kinds).or_default().push(entry);
        }
        let (groups, others): (Vec<_>, Vec<_>) =
            by_kinds.into_iter().partition(|(_, entries)| entries.len() >= MIN_GROUP);
        let others = others.into_iter().flat_map(|(_, entries)| entries);
        ParameterGroups { groups, others: others.map(|entry| (entry.name, entry)).collect() }
    }

    /// Everything that kinds refer to.
    pub fn chapter(&self) -> String {
        let mut page = "\n## Shared parameters\n\n".to_owned();
        self.others.values().for_each(|entry| page.push_str(&entry.line()));
        for (at, (kinds, entries)) in self.groups.iter().enumerate() {
            let _ = write!(page, "\n### Group {}: {}\n\n", letter(at), kinds.join(", "));
            entries.iter().for_each(|entry| page.push_str(&entry.line()));
        }
        page
    }

    /// The letters of the groups that a kind has.
    pub fn groups_of(&self, kind: &Kind) -> Vec<String> {
        let groups = self.groups.iter().enumerate();
        let own = groups.filter(|(_, (kinds, _))| kinds.contains(&kind.name));
        own.map(|(at, _)| letter(at).to_string()).collect()
    }

    /// What a kind says about a shared parameter: nothing if its group says it all. `None` if the
    /// parameter is not shared.
    pub fn mention(&self, kind: &Kind, entry: &ParameterEntry) -> Option<Option<String>> {
        let groups = self.groups.iter().filter(|(kinds, _)| kinds.contains(&kind.name));
        let in_group = groups.flat_map(|(_, entries)| entries).find(|own| own.name == entry.name);
        let shared = in_group.or_else(|| self.others.get(entry.name))?;
        if !shared.differs_only_in_default(entry) {
            return None;
        }
        let name = entry.name;
        Some(match entry.default.as_str() {
            same if same == shared.default => in_group.is_none().then(|| name.to_owned()),
            "" => Some(format!("{name} without a default")),
            REQUIRED => Some(format!("{name} (required)")),
            default => Some(format!("{name}{default}")),
        })
    }
}

/// As most kinds have it, if several do.
fn most_common(uses: &[(&'static str, ParameterEntry)]) -> Option<ParameterEntry> {
    let count = |entry: &ParameterEntry| {
        let alike = uses.iter().filter(|(_, other)| other.differs_only_in_default(entry)).count();
        (alike, uses.iter().filter(|(_, other)| other == entry).count())
    };
    // Of several, the first.
    let (_, entry) = uses.iter().rev().max_by_key(|(_, entry)| count(entry))?;
    (count(entry).0 > 1).then(|| entry.clone())
}

/// A, B, C and so on.
fn letter(group: usize) -> char {
    char::from_u32('A' as u32 + group as u32).unwrap_or('?')
}
