//! Work that runs as jobs of an executor. A thread for each batch submits its jobs and waits for
//! their results in the remote; for the schedule it is one more thread with tasks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cache::Digest;
use camino::{Utf8Path, Utf8PathBuf};
use remote::{Remote, RemoteError};
use stage_core::StageError;

use super::Schedule;
use crate::engine::EngineError;
use crate::executor::batch::{Batch, BatchWork, Upstream};
use crate::executor::jobs::{self, Order};
use crate::executor::own::{self, close, own};
use crate::executor::split::{JobLimits, batches, split};
use crate::executor::state;
use crate::pipeline::{ExecutorSpec, StageId};
use crate::plan::PlannedValue;
use crate::record::PortValue;
use crate::run::arrived::{artifacts, gather_sources};
use crate::run::board::StageState;
use crate::run::items::queue::QueuedItem;
use crate::run::jobs::batch_thread::BatchThread;
use crate::run::jobs::job_inputs::{Inputs, objects};
use crate::run::jobs::open_shard::OpenShard;
use crate::run::jobs::remote_jobs::shards_of_earlier;

impl Schedule<'_> {
    /// Hands all pending work of a stage to its executor. True if it was taken off the queue.
    pub(super) fn hand_out_jobs(&mut self, id: StageId) -> Result<bool, EngineError> {
        let Some(spec) = self.run.executor(id).cloned() else { return Ok(false) };
        let Some(remote) = self.store().remote().cloned().filter(|remote| remote.is_writable())
        else {
            let message =
                format!("the executor `{}` needs a remote that can be written", spec.name);
            let help = "add `[remote]` with `url = \"file:///shared/cache\"`, or use `--remote`";
            let error = StageError::with_help(message, help);
            if self.board.is(id, StageState::AwaitsThread) {
                self.board.advance(id, StageState::RunsTask)?;
            }
            return self.fail(id, &error).map(|()| false);
        };
        match self.board[id].state() {
            StageState::AwaitsThread | StageState::AwaitsClaim => {
                self.submit_training(id, spec, remote)
            }
            StageState::RunsItems => self.submit_items(id, spec, remote),
            _ => Ok(false),
        }
    }

    fn submit_training(
        &mut self,
        id: StageId,
        spec: ExecutorSpec,
        remote: Arc<Remote>,
    ) -> Result<bool, EngineError> {
        if self.take_finished(id)? {
            return Ok(true);
        }
        let stage = self.run.stage(id);
        let Some(keyed) = self.board[id].known.keyed.clone() else { return Ok(false) };
        if !self.jobs.claim(self.run.cache, &keyed.digest)? {
            if self.board.is(id, StageState::AwaitsThread) {
                self.board.advance(id, StageState::AwaitsClaim)?;
            }
            return Ok(false);
        }
        let at = |error: crate::error::PlanError| error.at(stage.name.clone());
        self.planner.choose_parent(stage, &keyed).map_err(at)?;
        let ticket = self.tasks.ticket();
        let open = BTreeMap::from([(0, OpenShard::new(ticket, Vec::new()))]);
        // The job of an earlier run may still be at work.
        let Some(earlier) = self.earlier(&keyed.digest, &remote)? else { return Ok(false) };
        if let Some(batch) = earlier.into_iter().next() {
            self.board.advance(id, StageState::RunsTask)?;
            self.tasks.begin(ticket, id, Arc::default(), Vec::new());
            return self.start_batch_thread(spec, remote, batch, open, None).map(|()| true);
        }
        let batch = self.batch(id, keyed.digest, BatchWork::Training);
        let (pipeline, board, assets) = (self.run.pipeline, &self.board, &self.planner.assets);
        let ports = gather_sources(pipeline, board.runs(), assets, stage);
        let inputs = Inputs { ports: Some(ports), ..self.inputs(id) };
        self.board.advance(id, StageState::RunsTask)?;
        self.tasks.begin(ticket, id, Arc::default(), Vec::new());
        self.start_batch_thread(spec, remote, batch, open, Some(inputs))?;
        Ok(true)
    }

    fn submit_items(
        &mut self,
        id: StageId,
        spec: ExecutorSpec,
        remote: Arc<Remote>,
    ) -> Result<bool, EngineError> {
        let Some(stage) = self.board[id].items_mut() else { return Ok(false) };
        let intake = stage.intake.clone();
        let key = intake.key;
        if !self.jobs.claim(self.run.cache, &key)? {
            // Another run waits for jobs of this stage.
            if let Some(stage) = self.board[id].items_mut() {
                stage.elsewhere.extend(stage.queue.drain());
            }
            return Ok(true);
        }
        let Some(earlier) = self.earlier(&key, &remote)? else { return Ok(false) };
        let picked = self.pick_all(id)?;
        let each = self.jobs.seconds(id);
        let mut left: HashMap<Digest, QueuedItem> =
            picked.into_iter().map(|queued| (queued.key, queued)).collect();
        // Jobs of an earlier run may still be at work on some of them.
        for batch in earlier {
            let taken = shards_of_earlier(&batch, &mut left);
            self.submit_shards(id, &spec, &remote, batch, taken, None)?;
        }
        if left.is_empty() {
            return Ok(true);
        }
        let mut items: Vec<QueuedItem> = left.into_values().collect();
        items.sort_by_key(|queued| queued.key);
        let weight: u64 = items.iter().map(|queued| queued.weight).sum();
        let mean = weight as f64 / items.len() as f64;
        let cost = |queued: &QueuedItem| {
            if mean > 0.0 { each * queued.weight as f64 / mean } else { each }
        };
        let (size, jobs) = batches(items.len(), spec.max_jobs as usize);
        let limits = JobLimits { seconds: spec.shard_seconds, jobs };
        for items in items.chunks(size) {
            let costs: Vec<f64> = items.iter().map(cost).collect();
            let shards = split(&costs, limits);
            let keys = shards.iter().map(|shard| shard.iter().map(|at| items[*at].key).collect());
            let batch = self.batch(id, key, BatchWork::Items(keys.collect()));
            let mut inputs = self.inputs(id);
            inputs.objects.extend(objects(&intake.reads, items.iter().map(|queued| &queued.item)));
            let taken = shards
                .iter()
                .map(|shard| shard.iter().map(|at| items[*at].clone()).collect())
                .collect();
            self.submit_shards(id, &spec, &remote, batch, taken, Some(inputs))?;
        }
        Ok(true)
    }

    /// The open batches of earlier runs for this work; none if the remote does not answer: then the run
    /// pauses, since it cannot know what is in their jobs.
    fn earlier(
        &mut self,
        key: &Digest,
        remote: &Remote,
    ) -> Result<Option<Vec<Batch>>, EngineError> {
        let is_at_work = |id: &Digest| self.jobs.is_at_work(id);
        match own::open(self.run.cache, remote, key, is_at_work) {
            Ok(batches) => Ok(Some(batches)),
            Err(RemoteError::Cache(error)) => Err(error.into()),
            Err(trouble) => {
                self.pause(trouble.to_string());
                Ok(None)
            }
        }
    }

    /// Takes everything off the queue of a stage, except items that another one has the key of.
    fn pick_all(&mut self, id: StageId) -> Result<Vec<QueuedItem>, EngineError> {
        let Some(stage) = self.board[id].items_mut() else { return Ok(Vec::new()) };
        let mut picked = Vec::new();
        while let Some(queued) = stage.queue.pop() {
            picked.extend(self.duplicates.begin(id, queued));
        }
        let keys: Vec<Digest> = picked.iter().map(|queued| queued.key).collect();
        let mut left = Vec::new();
        for (queued, known) in picked.into_iter().zip(self.store().known_items(&keys)?) {
            match known {
                Some(record) => self.resolve_known(id, queued, record, None)?,
                None => left.push(queued),
            }
        }
        Ok(left)
    }

    /// Hands out the taken items of each shard; shards without any are not waited for.
    fn submit_shards(
        &mut self,
        id: StageId,
        spec: &ExecutorSpec,
        remote: &Arc<Remote>,
        batch: Batch,
        taken: Vec<Vec<QueuedItem>>,
        inputs: Option<Inputs>,
    ) -> Result<(), EngineError> {
        let mut open = BTreeMap::new();
        for (shard, items) in (0..).zip(taken).filter(|(_, items)| !items.is_empty()) {
            let ticket = self.tasks.ticket();
            let waited = items.iter().map(|queued| (queued.key, queued.item.id.clone()));
            open.insert(shard, OpenShard::new(ticket, waited.collect()));
            if let Some(stage) = self.board[id].items_mut() {
                stage.running += items.len();
            }
            self.tasks.begin(ticket, id, Arc::new(items), Vec::new());
        }
        if open.is_empty() {
            return Ok(());
        }
        self.start_batch_thread(spec.clone(), remote.clone(), batch, open, inputs)
    }

    fn start_batch_thread(
        &mut self,
        spec: ExecutorSpec,
        remote: Arc<Remote>,
        batch: Batch,
        open: BTreeMap<u32, OpenShard>,
        inputs: Option<Inputs>,
    ) -> Result<(), EngineError> {
        let id = batch.id();
        let pipeline = self.run.pipeline.name.clone();
        let logs = absolute(&state::folder(self.run.cache.dir(), &id));
        let program = self.run.options.program.as_ref().map(|program| program.to_string());
        let program = spec.program.clone().or(program).unwrap_or_else(|| "throstle".to_owned());
        let (batch_text, url) = (id.to_string(), remote.address().to_string());
        let mut worker = vec![program, "work".to_owned(), "--batch".to_owned(), batch_text];
        worker.extend(["--remote".to_owned(), url]);
        worker.extend(spec.cache.iter().flat_map(|dir| ["--cache".to_owned(), dir.clone()]));
        let order = Order { batch: id, shards: batch.shards(), worker, logs: logs.clone() };
        let batch_thread = BatchThread {
            store: self.store().clone(),
            messages: self.threads.messages(),
            stops: [self.run.options.stop.clone(), self.jobs.stop().clone()],
            jobs: jobs::start(&spec, order, self.jobs.queue()),
            run: self.run.number,
            known: BTreeSet::new(),
            remote,
            spec,
            pipeline,
            batch,
            id,
            logs,
            open,
            inputs,
            told: BTreeSet::new(),
        };
        self.jobs.start(batch_thread).map_err(EngineError::Thread)
    }

    /// Notes that nothing waits for a batch any more. Its outcomes were recorded before.
    pub(super) fn close_batch(&mut self, id: &Digest) -> Result<(), EngineError> {
        close(self.run.cache, id)?;
        self.committer.mark();
        Ok(())
    }

    /// Closes the batches of earlier runs for stages that are done: their results have arrived
    /// without them, from the remote.
    pub(super) fn close_batches(&self) -> Result<(), EngineError> {
        if self.run.pipeline.executors.is_empty() {
            return Ok(());
        }
        let is_done = |stage: &str| {
            self.run.pipeline.find(stage).is_some_and(|spec| {
                self.board.is(spec.id, StageState::Done)
                    && self.board[spec.id].known.keyed.is_some()
            })
        };
        let own = own(self.run.cache)?.into_iter();
        let of_this = own.filter(|(_, batch)| batch.pipeline == self.run.pipeline.name);
        for (id, _) in of_this.filter(|(_, it)| !it.is_closed && is_done(&it.stage)) {
            close(self.run.cache, &id)?;
        }
        Ok(())
    }

    fn batch(&self, id: StageId, key: Digest, work: BatchWork) -> Batch {
        let stage = self.run.stage(id);
        let value = |planned: &PlannedValue| match planned {
            PlannedValue::Root { root, items } => {
                Some(PortValue::Dataset { root: *root, items: *items })
            }
            PlannedValue::Artifact(fields) => Some(PortValue::Artifact(fields.clone())),
            PlannedValue::Partial(_) | PlannedValue::Unknown => None,
        };
        let upstream = stage.upstream().map(|above| {
            let known = &self.board[above].known;
            let outputs = known.outputs.iter();
            let outputs = outputs.filter_map(|(port, of)| Some(((*port).to_owned(), value(of)?)));
            let given = Upstream { outputs: outputs.collect(), rejects: known.rejects.clone() };
            (self.name(above), given)
        });
        Batch {
            begun: self.run.cache.fs().now(),
            manifest: self.run.pipeline.written.text.clone(),
            set: self.run.pipeline.written.set.clone(),
            file: absolute(&self.run.pipeline.file).into(),
            stage: stage.name.clone(),
            kind: stage.kind.name.to_owned(),
            version: stage.kind.version,
            upstream: upstream.collect(),
            assets: self.planner.assets.clone(),
            files: self.planner.files[id.0].clone(),
            ..Batch::new(key, work)
        }
    }

    /// The tables and artifacts that every worker of a stage reads.
    fn inputs(&self, id: StageId) -> Inputs {
        let stage = self.run.stage(id);
        let outputs = stage.upstream().flat_map(|above| self.board[above].known.outputs.values());
        let roots = outputs.filter_map(|output| match output {
            PlannedValue::Root { root, .. } => Some(*root),
            _ => None,
        });
        let (board, assets) = (&self.board, &self.planner.assets);
        let artifacts = artifacts(self.run.pipeline, board.runs(), assets, stage);
        let blobs = artifacts.values().flatten().flat_map(|fields| fields.blobs());
        let mut objects: Vec<Digest> = blobs.map(|blob| blob.digest).collect();
        objects.extend(self.planner.files[id.0].values().map(|blob| blob.digest));
        Inputs { roots: roots.collect(), objects, ports: None }
    }
}

fn absolute(path: &Utf8Path) -> Utf8PathBuf {
    let absolute = std::path::absolute(path).ok().and_then(|p| Utf8PathBuf::from_path_buf(p).ok());
    absolute.unwrap_or_else(|| path.to_owned())
}
