//! The threads with tasks: those of the pool, and one with a worker process per device.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::thread::{Builder, JoinHandle};

use cache::fs::Fs;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use stage_core::Place;
use stage_core::device::{DeviceId, DeviceName, Devices};

use super::message::{Message, Task};
use super::pool;
use super::reservations::{Reservation, Reservations, ThreadKind, named_gpus};
use super::shared::SharedState;
use crate::pipeline::{StageId, StageSpec};
use crate::run::workers::device;
use crate::run::workers::process::ProcessHandle;

/// The number of tasks that may wait beside the running ones, so that no thread idles while the
/// schedule computes.
const AHEAD: usize = 1;
/// The tasks of a device that gets no more of them.
const FULL: usize = AHEAD + 1;
/// The same for the threads of this process, which finish sooner and usually occupy all cores when
/// the schedule wants one.
const AHEAD_HERE: usize = 2;

pub struct Threads {
    shared: SharedState,
    count: usize,
    pool: TaskQueue,
    tasks: Receiver<Task>,
    devices: BTreeMap<DeviceId, DeviceThread>,
    /// The GPUs, asked of a worker when the first task has to know them.
    found: OnceCell<Devices>,
    /// A worker has been asked and has not answered yet.
    is_asking: Cell<bool>,
    /// The tasks of the threads, by ticket.
    handed: BTreeMap<u64, DispatchedTask>,
    reserved: Reservations,
}

struct DispatchedTask {
    thread: ThreadKind,
    stage: StageId,
}

struct TaskQueue {
    sender: Sender<Task>,
    busy: usize,
}

struct DeviceThread {
    queue: TaskQueue,
    process: ProcessHandle,
    thread: JoinHandle<()>,
}

impl DeviceThread {
    fn start(id: DeviceId, shared: SharedState) -> io::Result<DeviceThread> {
        let (sender, tasks) = unbounded();
        let process = ProcessHandle::default();
        let handle = process.clone();
        let work = move || device::work(shared, id, handle, tasks);
        let thread = Builder::new().name(id.to_string()).spawn(work)?;
        Ok(DeviceThread { queue: TaskQueue { sender, busy: 0 }, process, thread })
    }
}

impl Threads {
    /// See [`Scratch::is_gone`](super::scratch::Scratch::is_gone).
    pub fn is_scratch_gone(&self, fs: &dyn Fs) -> bool {
        self.shared.scratch.is_gone(fs)
    }

    /// Fails if not even one thread can be started.
    pub fn new(shared: SharedState) -> io::Result<Threads> {
        let (sender, tasks) = unbounded();
        let count = shared.engine.threads.max(1);
        let mut threads = Threads {
            shared,
            count: 0,
            pool: TaskQueue { sender, busy: 0 },
            tasks,
            devices: BTreeMap::new(),
            found: OnceCell::new(),
            is_asking: Cell::new(false),
            handed: BTreeMap::new(),
            reserved: Reservations::default(),
        };
        threads.add_thread()?;
        // Fewer threads do the same work.
        while threads.count < count && threads.add_thread().is_ok() {}
        Ok(threads)
    }

    /// The way to the schedule, for threads that have no tasks.
    pub fn messages(&self) -> Sender<Message> {
        self.shared.messages.clone()
    }

    /// Starts another pool thread: at the start, or to replace one that hangs.
    fn add_thread(&mut self) -> io::Result<()> {
        let (shared, tasks) = (self.shared.clone(), self.tasks.clone());
        Builder::new().name("pool".into()).spawn(move || pool::work(shared, tasks))?;
        self.count += 1;
        Ok(())
    }

    /// To open a GPU that is not there says why.
    fn candidates(&self, device: DeviceName) -> Vec<DeviceId> {
        match device.one() {
            Some(device) => vec![device],
            None => self.found.get_or_init(|| self.ask()).candidates(device),
        }
    }

    fn ask(&self) -> Devices {
        self.shared.spare.ask(&self.shared.engine, &self.shared.messages)
    }

    /// Asks on a thread, which sends the answer: a broken driver may answer late.
    fn ask_in_background(&self) {
        let shared = self.shared.clone();
        let work = move || {
            let found = shared.spare.ask(&shared.engine, &shared.messages);
            // Without a reader the run has ended.
            let _ = shared.messages.send(Message::Found(found));
        };
        if Builder::new().name("ask".into()).spawn(work).is_err() {
            let _ = self.shared.messages.send(Message::Found(self.ask()));
        }
    }

    /// Tests if the GPUs are known, in case this device depends on them; if not, asks for them.
    /// Other work goes on meanwhile.
    fn knows(&self, device: DeviceName) -> bool {
        if device.one().is_some() || self.found.get().is_some() {
            return true;
        }
        if !self.is_asking.replace(true) {
            self.ask_in_background();
        }
        false
    }

    /// Tests if a worker still has to say which GPUs there are.
    pub fn awaits_devices(&self) -> bool {
        self.is_asking.get()
    }

    /// Tests if a worker was started for that.
    pub fn has_asked(&self) -> bool {
        self.awaits_devices() || self.found().is_some()
    }

    pub fn learn(&mut self, found: Devices) {
        self.is_asking.set(false);
        // A caller that could not wait may have asked too.
        let _ = self.found.set(found);
    }

    /// The GPUs, if they had to be known.
    pub fn found(&self) -> Option<&Devices> {
        self.found.get()
    }

    /// The tasks of a device. One that is reserved gets no more.
    fn load(&self, device: DeviceId) -> usize {
        let reserved = if self.reserved.has(device) { FULL } else { 0 };
        reserved + self.devices.get(&device).map_or(0, |device| device.queue.busy)
    }

    /// The least busy of the suitable devices; first of those that the stage names.
    fn choose(&self, spec: &StageSpec) -> Option<DeviceId> {
        let named = named_gpus(spec);
        let order = |device: &DeviceId| (!named.contains(device), self.load(*device));
        self.candidates(spec.policy.device).into_iter().min_by_key(order)
    }

    fn thread(&self, spec: &StageSpec) -> ThreadKind {
        match spec.kind.place {
            Place::Here => ThreadKind::Pool,
            Place::Worker => ThreadKind::Device(self.choose(spec).unwrap_or_default()),
        }
    }

    /// The devices of a task that uses others than that of its thread.
    fn needed(&self, spec: &StageSpec) -> Option<Reservation> {
        let mut devices = named_gpus(spec);
        if devices.is_empty() {
            return None;
        }
        let thread = self.thread(spec);
        if let ThreadKind::Device(device) = thread {
            devices.insert(device);
        }
        (thread == ThreadKind::Pool || devices.len() > 1).then_some(Reservation { thread, devices })
    }

    /// Reserves all devices of a task that uses several. True once none of them has work.
    pub fn reserve(&mut self, spec: &StageSpec) -> bool {
        if self.reserved.of(spec.id).is_none() {
            let Some(needed) = self.needed(spec) else { return true };
            if !self.reserved.add(spec.id, needed) {
                return false;
            }
        }
        self.reserved.of(spec.id).is_none_or(|reserved| self.is_idle(reserved))
    }

    /// Lets others have the devices of a task that is not handed out.
    pub fn release(&mut self, stage: StageId) {
        self.reserved.release(stage);
    }

    fn is_idle(&self, reserved: &Reservation) -> bool {
        let is_idle = |id: &DeviceId| self.devices.get(id).is_none_or(|own| own.queue.busy == 0);
        reserved.devices.iter().all(is_idle)
    }

    /// Tests if work of a stage would go to a GPU.
    pub fn is_on_gpu(&self, spec: &StageSpec) -> bool {
        spec.kind.place == Place::Worker && self.choose(spec).is_some_and(DeviceId::is_gpu)
    }

    pub fn gpus_are_busy(&self) -> bool {
        let is_busy =
            |(id, device): (&DeviceId, &DeviceThread)| id.is_gpu() && device.queue.busy > 0;
        let others = self.handed.values().filter_map(|task| self.reserved.of(task.stage));
        self.devices.iter().any(is_busy)
            || others.flat_map(|reserved| &reserved.devices).any(|id| id.is_gpu())
    }

    /// Tells work on GPUs to save and stop.
    pub fn stop_gpus(&self) {
        self.shared.gpu_stop.request_after_batch();
    }

    /// The number of pool threads.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The stages of the tasks that threads of this process have, or that wait for one.
    pub fn on_threads(&self) -> impl Iterator<Item = StageId> {
        let is_here = |task: &&DispatchedTask| task.thread == ThreadKind::Pool;
        self.handed.values().filter(is_here).map(|task| task.stage)
    }

    /// Tests if a task of a stage can be handed out, or its devices reserved.
    pub fn is_free(&self, spec: &StageSpec) -> bool {
        let place = spec.kind.place;
        if place == Place::Worker && !self.knows(spec.policy.device) {
            return false;
        }
        if let Some(reserved) = self.reserved.of(spec.id) {
            return self.is_idle(reserved);
        }
        let needed = self.needed(spec);
        if needed.as_ref().is_some_and(|needed| !self.reserved.allow(needed)) {
            return false;
        }
        match place {
            Place::Here => self.pool.busy < self.count + AHEAD_HERE,
            // It waits for its devices when it has reserved them.
            Place::Worker if needed.is_some() => true,
            Place::Worker => self.choose(spec).is_none_or(|device| self.load(device) <= AHEAD),
        }
    }

    /// Hands out a task. The devices of one that uses several are reserved.
    pub fn hand_out(&mut self, spec: &StageSpec, mut task: Task) -> io::Result<()> {
        let thread = match self.reserved.of(spec.id).cloned() {
            Some(reserved) => {
                self.clear(&reserved, &mut task);
                reserved.thread
            }
            None => self.thread(spec),
        };
        let stage = spec.id;
        self.handed.insert(task.ticket(), DispatchedTask { thread, stage });
        let queue = match thread {
            ThreadKind::Pool => &mut self.pool,
            ThreadKind::Device(device) => &mut self.device(device)?.queue,
        };
        queue.busy += 1;
        // The receiving thread lives as long as the run.
        let _ = queue.sender.send(task);
        Ok(())
    }

    /// Lets the workers of the other devices of a task drop what they hold. The task waits for that.
    fn clear(&self, reserved: &Reservation, task: &mut Task) {
        let Task::Gather(task) = task else { return };
        for id in reserved.devices.iter().filter(|id| ThreadKind::Device(**id) != reserved.thread) {
            if let Some(device) = self.devices.get(id) {
                let (held, dropped) = bounded(0);
                let _ = device.queue.sender.send(Task::CloseAll(held));
                task.awaits.push(dropped);
            }
        }
    }

    /// Lets all workers drop a job, after the tasks that wait.
    pub fn close(&self, job: u32) {
        for device in self.devices.values() {
            let _ = device.queue.sender.send(Task::Close(job));
        }
    }

    fn device(&mut self, id: DeviceId) -> io::Result<&mut DeviceThread> {
        Ok(match self.devices.entry(id) {
            Entry::Occupied(device) => device.into_mut(),
            Entry::Vacant(place) => place.insert(DeviceThread::start(id, self.shared.clone())?),
        })
    }

    pub fn returned(&mut self, ticket: u64) {
        let Some(DispatchedTask { thread, stage }) = self.handed.remove(&ticket) else { return };
        self.reserved.release(stage);
        match thread {
            ThreadKind::Pool => self.pool.busy -= 1,
            ThreadKind::Device(id) => {
                if let Some(device) = self.devices.get_mut(&id) {
                    device.queue.busy -= 1;
                }
            }
        }
    }

    /// False for a task that waits behind others of its thread.
    pub fn is_running(&self, ticket: u64) -> bool {
        let Some(DispatchedTask { thread, .. }) = self.handed.get(&ticket) else { return true };
        let at_once = if *thread == ThreadKind::Pool { self.count } else { 1 };
        let before = self.handed.range(..ticket).filter(|(_, other)| other.thread == *thread);
        before.count() < at_once
    }

    /// Gives up on a task that takes too long. A worker is killed, and its task returns as a death;
    /// a pool thread cannot be killed and is replaced.
    pub fn abandon(&mut self, ticket: u64) -> io::Result<()> {
        let Some(&DispatchedTask { thread, stage }) = self.handed.get(&ticket) else {
            return Ok(());
        };
        // The workers of its other devices may be what it waits for.
        let others = self.reserved.of(stage).into_iter().flat_map(|reserved| &reserved.devices);
        let own = match thread {
            ThreadKind::Pool => None,
            ThreadKind::Device(device) => Some(device),
        };
        for id in others.copied().chain(own) {
            if let Some(device) = self.devices.get(&id) {
                device.process.end_task(ticket);
            }
        }
        if own.is_some() {
            return Ok(());
        }
        self.returned(ticket);
        self.count -= 1;
        // The other threads continue without it.
        let added = self.add_thread();
        if self.count == 0 { added } else { Ok(()) }
    }

    /// The workers with tasks.
    pub fn busy_workers(&self) -> impl Iterator<Item = (DeviceId, &ProcessHandle)> {
        let busy = self.devices.iter().filter(|(_, device)| device.queue.busy > 0);
        busy.map(|(id, device)| (*id, &device.process))
    }

    /// Ends all workers, busy or not.
    pub fn leave_workers(&self) {
        self.devices.values().for_each(|device| device.process.abandon());
    }

    /// Ends the workers cleanly.
    pub fn dismiss(self) {
        self.shared.spare.end();
        for (_, device) in self.devices {
            drop(device.queue.sender);
            // A thread that panicked has no result.
            let _ = device.thread.join();
        }
    }
}
