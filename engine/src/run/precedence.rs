//! The precedence of stages: which of them gets a thread first, and how many threads a stage may
//! hold. Both depend on the open work downstream of a stage.

use stage_core::Place;
use stage_core::cost::Cost;

use crate::pipeline::{Pipeline, StageId, StageSpec, StageWork};

/// The most important work that waits for a stage, or is its own. Later variants come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behind {
    #[default]
    Nothing,
    /// A stage on a whole data set.
    Whole,
    /// A model that processes items: the worker must not idle.
    Model,
    Training,
}

/// The precedence of all stages in a pass.
#[derive(Debug)]
pub struct Precedence {
    /// All stages: those with more behind them first, and of equal ones those near the end, so that
    /// an item passes through its stages quickly.
    order: Vec<StageId>,
    behind: Vec<Behind>,
    /// By the position of a stage: it runs a model on items or depends on such a stage, and no training depends on it.
    only_compares: Vec<bool>,
}

impl Precedence {
    /// The precedence of stages; those that are not open have no work.
    pub fn of(pipeline: &Pipeline, is_open: impl Fn(StageId) -> bool) -> Precedence {
        let behind = behind(pipeline, is_open);
        let turn = |id: &StageId| {
            if is_short(pipeline.stage(*id)) {
                // It holds one thread once, and its failure may end the run before a training starts.
                Behind::Training
            } else {
                behind[id.0]
            }
        };
        let mut order: Vec<StageId> = pipeline.ids().rev().collect();
        order.sort_by_key(|id| std::cmp::Reverse(turn(id)));
        let only_compares = only_compares(pipeline, &behind);
        Precedence { order, behind, only_compares }
    }

    pub fn order(&self) -> &[StageId] {
        &self.order
    }

    pub fn behind(&self, id: StageId) -> Behind {
        self.behind[id.0]
    }

    /// Tests if the stage runs a model on items or depends on such a stage, and no training depends on it.
    pub fn only_compares(&self, id: StageId) -> bool {
        self.only_compares[id.0]
    }

    /// The number of threads that the long tasks of a stage may hold, and that those of all stages with
    /// less behind them may hold together with it. `waiting`: the other stages that have work for a
    /// thread, or are on one.
    pub fn limit(
        &self,
        id: StageId,
        waiting: impl Iterator<Item = StageId>,
        threads: usize,
    ) -> ThreadLimit {
        let most = waiting.map(|other| self.behind(other)).max();
        match most.filter(|most| *most >= self.behind(id)) {
            // One thread stays for the others.
            Some(most) => ThreadLimit { threads: threads.saturating_sub(1).max(1), below: most },
            None => ThreadLimit { threads, below: Behind::Nothing },
        }
    }
}

/// A limit on the threads of long tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLimit {
    pub threads: usize,
    /// Stages with less behind them share the limit.
    pub below: Behind,
}

/// A stage on a whole data set takes about as long as reading its input, unless it is a program of the user
/// or converts a model.
pub fn is_short(spec: &StageSpec) -> bool {
    let is_light = matches!(spec.kind.cost, Cost::Rates(_));
    spec.work == StageWork::Gather && spec.kind.place == Place::Here && is_light
}

fn own(spec: &StageSpec) -> Behind {
    let is_elsewhere = spec.kind.place == Place::Worker || spec.policy.executor.is_some();
    match spec.work {
        StageWork::Train => Behind::Training,
        _ if is_elsewhere => Behind::Model,
        StageWork::Gather => Behind::Whole,
        StageWork::Item | StageWork::Source => Behind::Nothing,
    }
}

fn behind(pipeline: &Pipeline, is_open: impl Fn(StageId) -> bool) -> Vec<Behind> {
    let mut behind = vec![Behind::default(); pipeline.stages.len()];
    // Downstream stages come after their upstream stages.
    for id in pipeline.ids().rev().filter(|id| is_open(*id)) {
        let spec = pipeline.stage(id);
        behind[id.0] = behind[id.0].max(own(spec));
        for above in spec.upstream() {
            behind[above.0] = behind[above.0].max(behind[id.0]);
        }
    }
    behind
}

fn only_compares(pipeline: &Pipeline, behind: &[Behind]) -> Vec<bool> {
    let mut compares = vec![false; behind.len()];
    for id in pipeline.ids().filter(|id| behind[id.0] < Behind::Training) {
        let spec = pipeline.stage(id);
        let is_model = spec.kind.place == Place::Worker && spec.work == StageWork::Item;
        compares[id.0] = is_model || spec.upstream().any(|above| compares[above.0]);
    }
    compares
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stage_core::{InputPort, Kind, OutputPort, Work};

    static TRAIN: Kind = Kind {
        name: "test.train",
        work: Work::Train,
        place: Place::Worker,
        inputs: &[InputPort::DATASET],
        outputs: &[OutputPort::ARTIFACT],
        ..Kind::BASE
    };
    static SPEAK: Kind = Kind {
        name: "test.speak",
        place: Place::Worker,
        inputs: &[InputPort::DATASET],
        outputs: &[OutputPort::DATASET],
        ..Kind::BASE
    };

    /// A voice with a training, a comparison with the untuned model, a check of the texts, and a
    /// program that nothing waits for.
    const VOICE: &str = r#"
        [pipeline]
        name = "voice"

        [stage.clips]
        use = "corpus.table"
        table = "data/metadata.csv"

        [stage.checked]
        use = "audio.check"
        input = "clips"

        [stage.resampled]
        use = "audio.resample"
        input = "checked"
        rate = "16kHz"

        [stage.speakers]
        use = "speaker.stats"
        input = "resampled"

        [stage.spoken]
        use = "text.normalize"
        input = "resampled"

        [stage.trained]
        use = "test.train"
        input = "spoken"

        [stage.untuned]
        use = "test.speak"
        input = "checked"

        [stage.measured]
        use = "quality.measure"
        input = "untuned"

        [stage.pictures]
        use = "command"
        input = "clips"
        fields = ["audio"]
        command = "sox {audio} -n spectrogram -o {out.picture}"
        outputs = { picture = "picture.png" }
    "#;

    fn pipeline(text: &str) -> Pipeline {
        crate::testing::pipeline_with(text, &[&TRAIN, &SPEAK])
    }

    fn names(pipeline: &Pipeline, order: &[StageId]) -> Vec<String> {
        order.iter().map(|id| pipeline.stage(*id).name.clone()).collect()
    }

    #[test]
    fn the_chain_of_a_training_and_checks_of_whole_data_sets_come_before_what_nothing_waits_for() {
        let pipeline = pipeline(VOICE);
        let precedence = Precedence::of(&pipeline, |_| true);
        let order = names(&pipeline, &precedence.order);
        let place = |name: &str| order.iter().position(|other| other == name).unwrap();
        for (first, second) in [
            ("trained", "spoken"),
            ("spoken", "resampled"),
            ("resampled", "checked"),
            ("checked", "untuned"),
            ("speakers", "untuned"),
            ("untuned", "pictures"),
            ("untuned", "measured"),
        ] {
            assert!(place(first) < place(second), "{first}, {second}: {order:?}");
        }
        let id = |name: &str| pipeline.find(name).unwrap().id;
        assert_eq!(precedence.behind(id("pictures")), Behind::Nothing);
        assert_eq!(precedence.behind(id("clips")), Behind::Training);
    }

    #[test]
    fn without_open_trainings_nothing_leads_to_one() {
        let pipeline = pipeline(VOICE);
        let trained = pipeline.find("trained").unwrap().id;
        let precedence = Precedence::of(&pipeline, |id| id != trained);
        assert!(pipeline.ids().all(|id| precedence.behind(id) < Behind::Training));
        let checked = pipeline.find("checked").unwrap().id;
        assert_eq!(precedence.behind(checked), Behind::Model);
    }

    #[test]
    fn a_stage_compares_if_it_plays_a_model_that_no_training_reads() {
        let pipeline = pipeline(VOICE);
        let precedence = Precedence::of(&pipeline, |_| true);
        let compares = pipeline.ids().filter(|id| precedence.only_compares(*id));
        let compares = names(&pipeline, &compares.collect::<Vec<_>>());
        assert_eq!(compares, ["untuned", "measured"]);
    }

    #[test]
    fn long_tasks_leave_a_thread_to_stages_with_as_much_behind_them() {
        let pipeline = pipeline(VOICE);
        let precedence = Precedence::of(&pipeline, |_| true);
        let id = |name: &str| pipeline.find(name).unwrap().id;
        let limit = |of: &str, waiting: &[&str], threads| {
            let waiting = waiting.iter().map(|name| id(name));
            precedence.limit(id(of), waiting, threads)
        };
        let all = ThreadLimit { threads: 4, below: Behind::Nothing };
        assert_eq!(limit("pictures", &[], 4), all);
        assert_eq!(limit("checked", &["pictures"], 4), all, "nothing waits for pictures");
        let shared = ThreadLimit { threads: 3, below: Behind::Training };
        assert_eq!(limit("pictures", &["checked"], 4), shared);
        assert_eq!(limit("checked", &["resampled"], 4), shared);
        assert_eq!(limit("pictures", &["checked"], 1).threads, 1);
    }
}
