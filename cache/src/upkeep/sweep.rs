//! Frees space: unwanted entries leave the index, and mostly dead packs are rewritten. A plan comes
//! first; removed entries go to the trash.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use camino::Utf8Path;

use crate::cache::{Cache, Shared};
use crate::fs::size_of;
use crate::index::rows::{Known, KnownValue, Location};
use crate::lease::Leases;
use crate::long::keep_parts;
use crate::pack::entry::{Entry, HEADER};
use crate::pack::packs::entry_at;
use crate::pack::writer::Writer;
use crate::upkeep::orphans::Orphan;
use crate::upkeep::recover::adopt;
use crate::upkeep::trash::{self, Swept};
use crate::{CacheError, Digest, Table};

/// The number of bytes in memory while a pack is rewritten.
const MOST_IN_MEMORY: u64 = 32 << 20;

/// The entries that a sweep would remove. It stays valid: later entries stay.
#[derive(Debug, Clone, Default)]
pub struct SweepPlan {
    pub(crate) objects: Vec<(Digest, Location)>,
    records: Vec<(Table, Digest, Known)>,
    packs: Vec<u32>,
    /// Files of large objects that the index does not name.
    pub(crate) orphans: Vec<Orphan>,
    /// The bytes that will be free once the trash is emptied.
    pub bytes: u64,
}

impl SweepPlan {
    /// True if nothing would be removed.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
            && self.records.is_empty()
            && self.packs.is_empty()
            && self.orphans.is_empty()
    }

    /// The objects that would be removed.
    pub fn objects(&self) -> impl Iterator<Item = &Digest> {
        self.objects.iter().map(|(digest, _)| digest)
    }

    /// The number of files of large objects that an interrupted command left.
    pub fn orphans(&self) -> usize {
        self.orphans.len()
    }

    /// The records that would be removed, by table and key.
    pub fn records(&self) -> impl Iterator<Item = (Table, &Digest)> {
        self.records.iter().map(|(table, key, _)| (*table, key))
    }

    /// The packs that would be rewritten.
    pub fn packs(&self) -> &[u32] {
        &self.packs
    }
}

/// The counts of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Objects removed.
    pub objects: u64,
    /// Records removed.
    pub records: u64,
    /// Packs rewritten.
    pub packs: u64,
    /// Packs left alone because a running process writes them.
    pub busy_packs: u64,
    /// Objects left alone because a program reads them.
    pub leased: u64,
}

impl Cache {
    /// Plans a sweep of everything that is not live.
    ///
    /// # Errors
    ///
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the index or a pack cannot be read.
    pub fn sweep_plan(
        &self,
        live: &dyn Fn(&Digest) -> bool,
        live_record: &dyn Fn(Table, &Digest, &[u8]) -> bool,
    ) -> Result<SweepPlan, CacheError> {
        let (objects, records) = self.0.ledger().rows()?;
        let mut plan = SweepPlan::default();
        let mut kept: BTreeMap<u32, u64> = BTreeMap::new();
        let mut parts = HashSet::new();
        for (table, key, known) in records {
            let written = self.0.written(table, &key, Some(known.clone()))?;
            let value = written.clone().map_or(Ok(None), |written| self.whole(written))?;
            match value {
                Some(value) if !live_record(table, &key, &value) => {
                    plan.records.push((table, key, known));
                }
                _ => {
                    keep_parts(written.as_deref(), &mut parts);
                    *kept.entry(known.pack).or_default() += known.entry_size();
                }
            }
        }
        for (digest, location) in objects {
            if live(&digest) || parts.contains(&digest) {
                if let Location::Packed { pack, length, .. } = location {
                    *kept.entry(pack).or_default() += HEADER as u64 + u64::from(length);
                }
                continue;
            }
            if let Location::Loose { size } = location {
                plan.bytes += size;
            }
            plan.objects.push((digest, location));
        }
        self.0.plan_packs(&kept, &mut plan)?;
        Ok(plan)
    }

    /// Carries out a plan, concurrently with readers and writers.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, and those of [`Cache::commit`]. A
    /// part of the plan may have been carried out; the rest stays as it was.
    pub fn sweep(&self, mut plan: SweepPlan) -> Result<SweepReport, CacheError> {
        let shared = &self.0;
        shared.require_writable()?;
        if plan.is_empty() {
            return Ok(SweepReport::default());
        }
        self.commit()?;
        let leases = Leases::read(&*shared.fs, &shared.layout)?;
        let planned = plan.objects.len();
        plan.objects.retain(|(digest, _)| !leases.hold(digest));
        let mut writer = shared.writer();
        let folder = trash::new_folder(&*shared.fs, &shared.layout)?;
        let leased = (planned - plan.objects.len()) as u64;
        let mut report = SweepReport { leased, ..SweepReport::default() };
        let swept = swept(shared, &plan)?;
        trash::write_list(&*shared.fs, &folder, &swept)?;
        report.records = remove_records(shared, &mut writer, &plan)?;
        report.objects = remove_objects(shared, &plan, &folder)?;
        report.objects += shared.discard_orphans(&plan.orphans, &folder)?;
        writer.start_new_packs(shared.ledger())?;
        for number in &plan.packs {
            if repack(shared, &mut writer, *number, &plan.packs, &folder)? {
                report.packs += 1
            } else {
                report.busy_packs += 1
            }
        }
        self.tidy()?;
        Ok(report)
    }
}

impl Shared {
    /// Packs are worth rewriting if less than half is kept.
    fn plan_packs(
        &self,
        kept: &BTreeMap<u32, u64>,
        plan: &mut SweepPlan,
    ) -> Result<(), CacheError> {
        for number in self.layout.pack_numbers(&*self.fs)? {
            let size = size_of(&*self.fs, &self.layout.pack(number))?;
            let kept = kept.get(&number).copied().unwrap_or(0);
            if size > 0 && kept < size / 2 {
                plan.packs.push(number);
                plan.bytes += size - kept;
            }
        }
        Ok(())
    }
}

/// The list from which the sweep can be undone.
fn swept(shared: &Shared, plan: &SweepPlan) -> Result<Swept, CacheError> {
    let mut swept = Swept::default();
    for (digest, location) in &plan.objects {
        if let Location::Packed { pack, offset, length } = location {
            swept.packed.push((*digest, *pack, *offset, *length));
        }
    }
    for (table, key, known) in &plan.records {
        if let Some(written) = shared.written(*table, key, Some(known.clone()))? {
            swept.records.push((table.0, *key, written));
        }
    }
    Ok(swept)
}

/// The log needs a removal entry, or a rebuilt index would have the record again.
fn remove_records(
    shared: &Shared,
    writer: &mut Writer,
    plan: &SweepPlan,
) -> Result<u64, CacheError> {
    let unchanged = shared.ledger().read(|view| {
        let mut unchanged = Vec::new();
        for (table, key, known) in &plan.records {
            if view.record(*table, key)?.as_ref() == Some(known) {
                unchanged.push((*table, *key));
            }
        }
        Ok(unchanged)
    })?;
    let first = *writer.sequence(shared.ledger())? + 1;
    let gone = |(sequence, (table, key))| Entry::Gone { table, key, sequence };
    let entries: Vec<Entry> = (first..).zip(unchanged).map(gone).collect();
    writer.append_durably(shared.ledger(), &entries)?;
    Ok(entries.len() as u64)
}

fn remove_objects(shared: &Shared, plan: &SweepPlan, folder: &Utf8Path) -> Result<u64, CacheError> {
    let removed = shared.ledger().write(|tables| {
        let mut removed = Vec::new();
        for (digest, location) in &plan.objects {
            if tables.remove_object(digest, *location)? {
                removed.push((*digest, *location));
            }
        }
        Ok(removed)
    })?;
    for (digest, location) in &removed {
        if matches!(location, Location::Loose { .. }) {
            shared.discard_file(digest, folder)?;
        }
    }
    Ok(removed.len() as u64)
}

/// Writes the live entries of a pack to another one and moves the pack to the trash. False if a
/// living process writes it.
fn repack(
    shared: &Shared,
    writer: &mut Writer,
    number: u32,
    leaving: &[u32],
    folder: &Utf8Path,
) -> Result<bool, CacheError> {
    let (fs, layout) = (&*shared.fs, &shared.layout);
    let Some(pack) = adopt(shared.ledger(), number)? else {
        return Ok(false);
    };
    let staying: BTreeSet<u32> =
        layout.pack_numbers(fs)?.into_iter().filter(|other| !leaving.contains(other)).collect();
    // A tombstone is needed as long as an older pack may hold the record.
    let is_oldest = staying.first().is_none_or(|first| *first > number);
    let (objects, records) = shared.ledger().rows()?;
    let mut entries = Entries::default();
    for (digest, location) in objects {
        let Location::Packed { pack: of, offset, length } = location else {
            continue;
        };
        if of == number {
            match entry_at(&*pack.file, number, offset, length)? {
                Some(entry) => entries.add(shared, writer, entry)?,
                None => {
                    _ = shared.ledger().write(|tables| tables.remove_object(&digest, location))?
                }
            }
        }
    }
    for (table, key, known) in records.into_iter().filter(|(_, _, known)| known.pack == number) {
        let sequence = known.sequence;
        let entry = match shared.written(table, &key, Some(known.clone()))? {
            Some(value) => Some(Entry::Record { table, key, sequence, value }),
            None if known.value == KnownValue::Gone && !is_oldest => {
                Some(Entry::Gone { table, key, sequence })
            }
            None => None,
        };
        match entry {
            Some(entry) => entries.add(shared, writer, entry)?,
            None => shared.ledger().write(|tables| tables.remove_record(table, &key, &known))?,
        }
    }
    entries.write(shared, writer)?;
    fs.rename(&layout.pack(number), &folder.join(format!("{number:06}.pack")))?;
    fs.sync_dir(&layout.packs)?;
    shared.ledger().write(|tables| tables.remove_pack(number))?;
    shared.packs.forget(number);
    Ok(true)
}

/// Entries on their way to another pack.
#[derive(Default)]
struct Entries {
    waiting: Vec<Entry>,
    bytes: u64,
}

impl Entries {
    fn add(
        &mut self,
        shared: &Shared,
        writer: &mut Writer,
        entry: Entry,
    ) -> Result<(), CacheError> {
        self.bytes += entry.size();
        self.waiting.push(entry);
        if self.bytes >= MOST_IN_MEMORY { self.write(shared, writer) } else { Ok(()) }
    }

    fn write(&mut self, shared: &Shared, writer: &mut Writer) -> Result<(), CacheError> {
        writer.append_durably(shared.ledger(), &self.waiting)?;
        self.waiting.clear();
        self.bytes = 0;
        Ok(())
    }
}
