//! The files of the user by their content.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use cache::Digest;
use cache::stat::{Section, StatEntry, What};

/// A file with some content: the start of its digest, the section, and the entry in it.
type Place = (u64, u32, u32);

/// The number of contents for which all sections are searched: a table of them costs more.
const SEARCHES: usize = 4;

/// Files as they were last seen.
pub struct Sources {
    sections: Vec<Section>,
    /// Filled once, after several searches.
    table: OnceLock<Vec<Place>>,
    /// The number of searches without it.
    searches: AtomicUsize,
}

impl Sources {
    pub fn new(sections: Vec<Section>) -> Sources {
        Sources { sections, table: OnceLock::new(), searches: AtomicUsize::new(0) }
    }

    /// The files that had this content.
    pub fn with(&self, digest: &Digest) -> Vec<StatEntry> {
        let is_file = |entry: &StatEntry| entry.what == What::File && entry.digest == *digest;
        if self.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES {
            let found = |section: &Section| {
                let found = section.of_content(digest).filter_map(|at| section.get(at));
                found.filter(is_file).collect::<Vec<StatEntry>>()
            };
            return self.sections.iter().flat_map(found).collect();
        }
        let table = self.table.get_or_init(|| self.table());
        let start = digest.start();
        let first = table.partition_point(|(own, _, _)| *own < start);
        let places = table[first..].iter().take_while(|(own, _, _)| *own == start);
        let entry = |(_, section, at): &Place| {
            self.sections.get(*section as usize)?.get(*at as usize).filter(is_file)
        };
        places.filter_map(entry).collect()
    }

    fn table(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for (number, section) in self.sections.iter().enumerate() {
            let digests = (0..section.len()).filter_map(|at| Some((at, section.digest(at)?)));
            places.extend(digests.map(|(at, own)| (own.start(), number as u32, at as u32)));
        }
        places.sort_unstable();
        places
    }
}
