//! Searches for damage everywhere, names it, and continues. With repair, damaged objects are
//! quarantined, and a wrong index is rebuilt.

use std::collections::{HashMap, HashSet};

use camino::{Utf8Path, Utf8PathBuf};

use crate::cache::{Cache, Shared};
use crate::fs::Open;
use crate::index::rows::{Known, KnownValue, Location};
use crate::pack::entry::Entry;
use crate::pack::scan::{Scan, ScannedEntry};
use crate::upkeep::lost_packs::{self, Reach, object_is_lost, record_is_lost};
use crate::upkeep::misplaced;
use crate::upkeep::rebuild::RebuildReport;
use crate::upkeep::recover::recover;
use crate::{Access, CacheError, Digest, Table, hash_open};

/// The extent of a verification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Quarantine damaged entries and fix the index.
    pub repair: bool,
    /// Read and hash every byte; else only positions and sizes are checked.
    pub read_data: bool,
}

/// One damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file that is damaged or missing.
    pub path: Utf8PathBuf,
    /// The offset in a pack, in bytes; None if it concerns the whole file.
    pub offset: Option<u64>,
    /// The object that is lost by it.
    pub object: Option<Digest>,
    /// The record that is lost by it, or would be if the index were.
    pub record: Option<(Table, Digest)>,
    /// The damage, as a sentence for people.
    pub what: String,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Objects in the index.
    pub objects: u64,
    /// Records in the index.
    pub records: u64,
    /// The number of bytes read.
    pub bytes: u64,
    /// All damages, in the order in which they were found.
    pub damages: Vec<Damage>,
    /// True if the damages were repaired.
    pub repaired: bool,
    /// True if the index was renewed, which is no damage: the packs have everything in it.
    pub index_rebuilt: bool,
}

impl VerifyReport {
    /// True if there is no damage.
    pub fn is_clean(&self) -> bool {
        self.damages.is_empty()
    }
}

const DIFFERENT_INPUT: &str = "this copy of an input of a program differs from its original";

/// The valid entries of each pack: offsets and keys.
type Sound = HashMap<u32, HashSet<(u64, Digest)>>;

impl Cache {
    /// Checks everything that the index refers to. `progress` gets the finished and the total
    /// number of bytes.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if a repair is requested of a cache that is open for reading, and
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the index or a folder cannot be read. Damage
    /// is no error: [`VerifyReport::damages`] lists it.
    pub fn verify(
        &self,
        options: VerifyOptions,
        progress: &dyn Fn(u64, u64),
    ) -> Result<VerifyReport, CacheError> {
        if options.repair {
            self.0.require_writable()?;
        }
        let mut check =
            Check { shared: &self.0, report: VerifyReport::default(), progress, total: 0 };
        if options.repair || self.0.access == Access::ReadOnly {
            check.report.index_rebuilt = self.renew_index()?;
        } else if !self.0.ledger().check_integrity()? {
            check.damage(&self.0.layout.ledger, None, "the index is damaged");
        }
        for path in misplaced::find(&*self.0.fs, &self.0.layout)? {
            check.damage(
                &path,
                None,
                "it is not a regular file, but a file of the cache belongs here",
            );
        }
        let (objects, records) = self.0.ledger().rows()?;
        check.report.objects = objects.len() as u64;
        check.report.records = records.len() as u64;
        if options.read_data {
            check.read_everything(&objects, &records)?;
            let (damaged, bytes) = self.damaged_inputs()?;
            check.advance(bytes);
            for path in damaged {
                check.damage(&path, None, DIFFERENT_INPUT);
            }
        } else {
            check.look_at_sizes(&objects, &records)?;
        }
        let mut report = check.report;
        if options.repair {
            self.repair(&report, &objects, &records)?;
            report.repaired = true;
        }
        Ok(report)
    }

    /// Builds the index again if it is invalid; true if it was. A cache that is only read has its
    /// packs read instead, also if the index lacks their ends.
    ///
    /// # Errors
    ///
    /// [`CacheError::Index`], [`CacheError::NoSpace`] or [`CacheError::Fs`] if the packs cannot be
    /// read or the index cannot be written.
    pub fn renew_index(&self) -> Result<bool, CacheError> {
        let ledger = self.0.ledger();
        // A writer has indexed the ends of the packs when it opened the cache.
        let is_usable = match self.0.access {
            Access::ReadWrite => ledger.check_integrity()?,
            Access::ReadOnly => ledger.is_up_to_date()?,
        };
        match (is_usable, self.0.access) {
            (true, _) => {}
            (false, Access::ReadWrite) => drop(self.rebuild_index()?),
            (false, Access::ReadOnly) => ledger.read_packs()?,
        }
        Ok(!is_usable)
    }

    /// Builds the index anew from the packs.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::renew_index`].
    pub fn rebuild_index(&self) -> Result<RebuildReport, CacheError> {
        let ledger = self.0.ledger();
        let report = ledger.rebuild()?;
        let writable = self.0.access == Access::ReadWrite;
        self.0.forget_lost_packs(recover(ledger, writable)?);
        Ok(report)
    }

    fn repair(
        &self,
        report: &VerifyReport,
        objects: &[(Digest, Location)],
        records: &[(Table, Digest, Known)],
    ) -> Result<(), CacheError> {
        // Losses since the cache was opened.
        let missing = recover(self.0.ledger(), true)?;
        if !missing.short.is_empty() {
            self.0.writer().start_new_packs(self.0.ledger())?;
        }
        self.0.forget_lost_packs(missing);
        let mut inputs = report.damages.iter().filter(|damage| damage.what == DIFFERENT_INPUT);
        inputs.try_for_each(|damage| self.0.fs.remove_file(&damage.path))?;
        let lost: HashSet<Digest> =
            report.damages.iter().filter_map(|damage| damage.object).collect();
        for (digest, location) in objects.iter().filter(|(digest, _)| lost.contains(digest)) {
            // It is named in the report already.
            let _ = self.0.quarantine(digest, *location);
        }
        let lost: HashSet<(Table, Digest)> =
            report.damages.iter().filter_map(|damage| damage.record).collect();
        for (table, key, known) in records {
            if !lost.contains(&(*table, *key)) || self.0.pending().record(*table, key).is_some() {
                continue;
            }
            match &known.value {
                // The index still has records that the log lost.
                KnownValue::Here(value) => self.record_as_written(*table, key, value.clone())?,
                KnownValue::Gone | KnownValue::InPack { .. } => self.forget(*table, key)?,
            }
        }
        self.commit()?;
        Ok(())
    }
}

struct Check<'a> {
    shared: &'a Shared,
    report: VerifyReport,
    progress: &'a dyn Fn(u64, u64),
    total: u64,
}

impl Check<'_> {
    fn damage(&mut self, path: &Utf8Path, offset: Option<u64>, what: &str) -> &mut Damage {
        self.report.damages.push(Damage {
            path: path.to_owned(),
            offset,
            object: None,
            record: None,
            what: what.to_owned(),
        });
        let last = self.report.damages.len() - 1;
        &mut self.report.damages[last]
    }

    fn damaged_object(&mut self, digest: &Digest, location: Location, what: &str) {
        let (path, _) = self.shared.describe(digest, location);
        let offset = match location {
            Location::Packed { offset, .. } => Some(u64::from(offset)),
            Location::Loose { .. } => None,
        };
        self.damage(&path, offset, what).object = Some(*digest);
    }

    fn damaged_record(&mut self, table: Table, key: &Digest, known: &Known, what: &str) {
        let path = self.shared.layout.pack(known.pack);
        self.damage(&path, Some(u64::from(known.offset)), what).record = Some((table, *key));
    }

    fn advance(&mut self, bytes: u64) {
        self.report.bytes += bytes;
        (self.progress)(self.report.bytes, self.total.max(self.report.bytes));
    }

    fn look_at_sizes(
        &mut self,
        objects: &[(Digest, Location)],
        records: &[(Table, Digest, Known)],
    ) -> Result<(), CacheError> {
        let lengths = self.pack_lengths()?;
        self.look_for_packs(&lengths, objects, records);
        for (digest, location) in objects {
            if location.pack_end().is_none() {
                self.look_at_file(digest, *location)?;
            }
        }
        Ok(())
    }

    /// Packs that are missing or shorter than the index says: one damage each.
    fn look_for_packs(
        &mut self,
        there: &HashMap<u32, u64>,
        objects: &[(Digest, Location)],
        records: &[(Table, Digest, Known)],
    ) -> Reach {
        let of_objects = objects.iter().filter_map(|(_, location)| Some(location.pack_end()?.0));
        let of_records = records.iter().map(|(_, _, known)| known.pack);
        let known = of_objects.chain(of_records);
        let mut reach: Reach = known.map(|pack| (pack, there.get(&pack).copied())).collect();
        let held = lost_packs::held_by(&reach, objects, records);
        reach.retain(|pack, length| length.is_none() || !held[pack].is_nothing());
        for (pack, length) in &reach {
            let path = self.shared.layout.pack(*pack);
            self.damage(&path, *length, &lost_packs::describe(length.is_none(), &held[pack]));
        }
        reach
    }

    fn pack_lengths(&self) -> Result<HashMap<u32, u64>, CacheError> {
        let (fs, layout) = (&*self.shared.fs, &self.shared.layout);
        let mut lengths = HashMap::new();
        for number in layout.pack_numbers(fs)? {
            lengths.insert(number, crate::fs::size_of(fs, &layout.pack(number))?);
        }
        Ok(lengths)
    }

    fn look_at_file(&mut self, digest: &Digest, location: Location) -> Result<(), CacheError> {
        match self.shared.fs.metadata(&self.shared.layout.object(digest)) {
            Ok(metadata) if metadata.size == location.size() => {}
            Ok(_) => self.damaged_object(digest, location, "the file has another size"),
            Err(error) if error.is_not_found() => {
                self.damaged_object(digest, location, "the file is missing");
            }
            Err(error) => self.damaged_object(digest, location, &error.whole()),
        }
        Ok(())
    }

    fn read_everything(
        &mut self,
        objects: &[(Digest, Location)],
        records: &[(Table, Digest, Known)],
    ) -> Result<(), CacheError> {
        let lengths = self.pack_lengths()?;
        let reach = self.look_for_packs(&lengths, objects, records);
        let is_loose = |location: &&(Digest, Location)| location.1.pack_end().is_none();
        let loose: u64 = objects.iter().filter(is_loose).map(|(_, location)| location.size()).sum();
        self.total = lengths.values().sum::<u64>() + loose;
        let mut sound = Sound::new();
        let mut numbers: Vec<u32> = lengths.into_keys().collect();
        numbers.sort_unstable();
        for number in numbers {
            let found = self.read_pack(number);
            sound.insert(number, found);
        }
        let has = |pack: u32, offset: u32, key: &Digest| {
            sound.get(&pack).is_none_or(|found| found.contains(&(u64::from(offset), *key)))
        };
        // The entries of a lost pack, or of its lost end, are reported as one damage.
        let objects = objects.iter().filter(|(_, place)| !object_is_lost(&reach, place));
        let records = records.iter().filter(|(_, _, known)| !record_is_lost(&reach, known));
        for (digest, location) in objects {
            match location {
                Location::Packed { pack, offset, .. } if !has(*pack, *offset, digest) => {
                    self.damaged_object(digest, *location, "the object is incomplete");
                }
                Location::Packed { .. } => {}
                Location::Loose { .. } => self.read_file(digest, *location),
            }
        }
        for (table, key, known) in records {
            if !has(known.pack, known.offset, key) {
                self.damaged_record(*table, key, known, "the record is incomplete");
            }
        }
        Ok(())
    }

    /// The valid entries of a pack. Unreadable parts are skipped.
    fn read_pack(&mut self, number: u32) -> HashSet<(u64, Digest)> {
        let path = self.shared.layout.pack(number);
        let mut sound = HashSet::new();
        let file = match self.shared.fs.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) => {
                self.damage(&path, None, &error.whole());
                return sound;
            }
        };
        let mut scan = match Scan::new(&*file, number, 0) {
            Ok(scan) => scan,
            Err(error) => {
                self.damage(&path, None, &error.whole());
                return sound;
            }
        };
        loop {
            let before = scan.position();
            match scan.next() {
                Ok(None) => return sound,
                Ok(Some(ScannedEntry::Entry { offset, entry })) => {
                    _ = sound.insert((offset, key_of(&entry)))
                }
                // Missing entries that the index refers to are reported by their name.
                Ok(Some(ScannedEntry::Damaged | ScannedEntry::Garbage)) => {}
                Err(error) => {
                    self.damage(&path, Some(before), &error.whole());
                    scan.step_over();
                }
            }
            self.advance(scan.position() - before);
        }
    }

    fn read_file(&mut self, digest: &Digest, location: Location) {
        let path = self.shared.layout.object(digest);
        let found = self.shared.fs.open(&path, Open::Read).and_then(|file| hash_open(&*file));
        match found {
            Ok((found, _)) if found == *digest => {}
            Ok(_) => self.damaged_object(digest, location, "the file has wrong contents"),
            Err(error) if error.is_not_found() => {
                self.damaged_object(digest, location, "the file is missing");
            }
            Err(error) => self.damaged_object(digest, location, &error.whole()),
        }
        self.advance(location.size());
    }
}

fn key_of(entry: &Entry) -> Digest {
    match entry {
        Entry::Object { digest, .. } | Entry::Loose { digest, .. } => *digest,
        Entry::Record { key, .. } | Entry::Gone { key, .. } => *key,
        Entry::Piece { of, .. } => *of,
    }
}
