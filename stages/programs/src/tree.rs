//! The processes of a program: those of its group, and all their descendants.

use std::collections::{BTreeMap, BTreeSet};

use cache::fs::{Fs, RealFs};
use camino::Utf8Path;
use rustix::process::{Pid, Signal};

/// Processes are listed this number of times, since some start others meanwhile.
const ROUNDS: usize = 50;
/// The value on every Linux machine, whatever its clock rate.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Process {
    id: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// Ticks since the machine started.
    started: u64,
}

/// Kills all processes of these groups and their descendants. With a time, only processes that had
/// started by then belong to the groups: a reused process id does no harm.
pub fn kill(groups: &[i32], started: Option<u64>) {
    if groups.is_empty() {
        return;
    }
    let mut found: BTreeMap<i32, Process> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let all = list();
        let new: Vec<Process> = doomed(&all, groups, started)
            .into_iter()
            .filter(|process| found.get(&process.id) != Some(process))
            .collect();
        if new.is_empty() {
            break;
        }
        // A stopped process cannot start another one unnoticed.
        new.iter().for_each(|process| signal(process, Signal::STOP));
        found.extend(new.into_iter().map(|process| (process.id, process)));
    }
    // If this process ends before all signals are sent, the watcher still finds the rest: the
    // processes above them are alive.
    lowest_first(&found).iter().for_each(|process| signal(process, Signal::KILL));
}

fn lowest_first(found: &BTreeMap<i32, Process>) -> Vec<Process> {
    let depth = |process: &Process| {
        let above = |process: &&Process| found.get(&process.parent);
        // Processes are read one after the other, so their parents may seem to form a cycle.
        std::iter::successors(Some(process), above).take(found.len()).count()
    };
    let mut order: Vec<Process> = found.values().copied().collect();
    order.sort_by_key(|process| std::cmp::Reverse(depth(process)));
    order
}

/// The groups that are not among the known ones, and were probably started by the engine of this
/// watcher. The leader of such a group is younger than the watcher, has lost its parent as well,
/// and is in the same session; if it has ended, this is true of another process of the group.
/// At most this number of groups, the youngest.
pub fn orphans(known: &[i32], most: usize) -> Vec<i32> {
    youngest_orphans(&list(), std::process::id() as i32, known, most)
}

fn youngest_orphans(all: &[Process], own: i32, known: &[i32], most: usize) -> Vec<i32> {
    let Some(own) = all.iter().find(|process| process.id == own) else { return Vec::new() };
    let has_leader = |group: i32| all.iter().any(|process| process.id == group);
    let is_orphan = |process: &&Process| {
        (process.id == process.group || !has_leader(process.group))
            && process.group != own.group
            && process.parent == own.parent
            && process.session == own.session
            && process.started >= own.started
            && !known.contains(&process.group)
    };
    let mut found: Vec<&Process> = all.iter().filter(is_orphan).collect();
    found.sort_by_key(|process| std::cmp::Reverse((process.started, process.id)));
    let mut groups: Vec<i32> = Vec::new();
    for group in found.into_iter().map(|process| process.group) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups.truncate(most);
    groups
}

/// The processes of these groups and their descendants, except this process.
fn doomed(all: &[Process], groups: &[i32], started: Option<u64>) -> Vec<Process> {
    let is_in_time = |process: &Process| started.is_none_or(|time| process.started <= time);
    let own = std::process::id() as i32;
    let mut ids: BTreeSet<i32> = all
        .iter()
        .filter(|process| groups.contains(&process.group) && is_in_time(process))
        .map(|process| process.id)
        .collect();
    loop {
        let below = all.iter().filter(|process| ids.contains(&process.parent));
        let before = ids.len();
        let below: Vec<i32> = below.map(|process| process.id).collect();
        ids.extend(below);
        if ids.len() == before {
            break;
        }
    }
    let is_other = |process: &&Process| ids.contains(&process.id) && process.id != own;
    all.iter().filter(is_other).copied().collect()
}

/// Signals exactly this process, and none that has reused its id.
fn signal(process: &Process, signal: Signal) {
    let Some(id) = Pid::from_raw(process.id) else { return };
    let is_it = || read(process.id).is_some_and(|now| now.started == process.started);
    send(id, signal, is_it);
}

fn send(id: Pid, signal: Signal, is_it: impl FnOnce() -> bool) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Ok(held) = pidfd_open(id, PidfdFlags::empty()) else { return };
    // From here on the id may be reused, but the handle stays valid. A process that has exited by
    // itself needs no signal.
    if is_it() {
        let _ = pidfd_send_signal(held, signal);
    }
}

fn list() -> Vec<Process> {
    let entries = RealFs.read_dir(Utf8Path::new("/proc")).unwrap_or_default();
    entries.iter().filter_map(|entry| read(entry.name.parse().ok()?)).collect()
}

fn read(id: i32) -> Option<Process> {
    parse(id, &stat(id)?)
}

fn stat(id: i32) -> Option<String> {
    let bytes = RealFs.read_system_file(Utf8Path::new(&format!("/proc/{id}/stat"))).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The fields after the name, which may contain anything.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(')').map_or_else(Vec::new, |(_, rest)| rest.split_whitespace().collect())
}

/// None for a process that has exited and is not reaped.
fn parse(id: i32, stat: &str) -> Option<Process> {
    let fields = fields(stat);
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some(Process {
        id,
        parent: number(1)? as i32,
        group: number(2)? as i32,
        session: number(3)? as i32,
        started: number(19)? as u64,
    })
}

/// The processor time of a process.
pub fn ticks(id: u32) -> Option<u64> {
    let stat = stat(i32::try_from(id).ok()?)?;
    let fields = fields(&stat);
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(number(11)? + number(12)?)
}

/// The time since the machine started, in ticks.
pub fn now() -> Option<u64> {
    let bytes = RealFs.read_system_file(Utf8Path::new("/proc/uptime")).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * TICKS_PER_SECOND) as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: i32, parent: i32, group: i32, started: u64) -> Process {
        Process { id, parent, group, session: 4, started }
    }

    #[test]
    fn an_orphan_of_the_same_session_is_of_the_engine_if_it_is_younger_than_the_watcher() {
        let all = [
            process(10, 1, 10, 50),
            process(11, 1, 11, 49),
            process(12, 1, 12, 51),
            process(13, 1, 13, 52),
            process(14, 13, 14, 53),
            process(15, 1, 13, 54),
            Process { session: 5, ..process(16, 1, 16, 55) },
            process(17, 1, 17, 56),
            // Left by a leader that has ended; the engine's own group is known.
            process(19, 1, 18, 51),
            process(20, 1, 18, 51),
            process(21, 1, 6, 57),
        ];
        assert_eq!(youngest_orphans(&all, 10, &[17, 6], 9), [13, 18, 12]);
        assert_eq!(youngest_orphans(&all, 10, &[17, 6], 1), [13]);
        assert_eq!(youngest_orphans(&all, 99, &[], 9), [0; 0]);
    }

    #[test]
    fn children_are_killed_before_their_parents() {
        let all = [process(10, 1, 10, 5), process(12, 14, 12, 7), process(14, 10, 14, 6)];
        let found = all.into_iter().map(|process| (process.id, process)).collect();
        let order = lowest_first(&found).iter().map(|process| process.id).collect::<Vec<_>>();
        assert_eq!(order, [12, 14, 10]);
    }

    #[test]
    fn all_below_a_group_belong_to_it_and_what_came_later_does_not() {
        let all = [
            process(10, 1, 10, 5),
            process(11, 10, 10, 6),
            process(12, 11, 12, 7),
            process(13, 12, 13, 9),
            process(20, 1, 20, 5),
            process(30, 1, 30, 50),
        ];
        let ids = |groups: &[i32], time| -> Vec<i32> {
            doomed(&all, groups, time).iter().map(|process| process.id).collect()
        };
        assert_eq!(ids(&[10], None), [10, 11, 12, 13]);
        assert_eq!(ids(&[10, 30], Some(8)), [10, 11, 12, 13]);
        assert_eq!(ids(&[99], None), [0; 0]);
    }

    #[test]
    fn the_name_of_a_program_may_hold_anything() {
        let rest = "S 4 3 4 0 -1 0 0 0 0 0 7 8 0 0 20 0 1 0 99 0";
        let seen = parse(5, &format!("5 (a) Z) {rest}"));
        assert_eq!(seen, Some(process(5, 4, 3, 99)));
        assert_eq!(parse(5, "5 (x) Z 4 3 2 0 -1 0 0 0 0 0 7 8 0 0 20 0 1 0 99 0"), None);
    }
}
