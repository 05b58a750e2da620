//! The edge of the stages: a failure of libtorch inside of it is a panic, and outside an error.

use bytes::Bytes;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, ItemJob, Job, Kind, Output, Reject, Setup,
    Stage, StageError,
};

use crate::error::guarded;

/// A stage or a job, with panics as errors.
pub struct PanicBoundary<T: ?Sized>(pub Box<T>);

impl Stage for PanicBoundary<dyn Stage> {
    fn kind(&self) -> &'static Kind {
        self.0.kind()
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        Ok(match guarded(|| self.0.open(setup, context))? {
            Job::Item(job) => Job::Item(Box::new(PanicBoundary(job))),
            Job::Gather(job) => Job::Gather(Box::new(PanicBoundary(job))),
            source => source,
        })
    }
}

impl ItemJob for PanicBoundary<dyn ItemJob> {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        guarded(|| self.0.process(items, context))
    }
}

impl GatherJob for PanicBoundary<dyn GatherJob> {
    fn sum(&self, items: &[Item]) -> Option<Bytes> {
        self.0.sum(items)
    }

    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        guarded(|| self.0.run(input, context))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_families::kinds::vq;
    use tch::Tensor;

    use super::*;
    use crate::testing::Bench;

    /// Fails when it is opened, or in its job.
    struct Failing {
        opens: bool,
    }

    fn fail() {
        let _ = Tensor::from_slice(&[1f32; 2]) + Tensor::from_slice(&[1f32; 3]);
    }

    impl Stage for Failing {
        fn kind(&self) -> &'static Kind {
            &vq::FIT
        }

        fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
            if !self.opens {
                fail();
            }
            Ok(Job::Gather(Box::new(FailingJob)))
        }
    }

    struct FailingJob;

    impl GatherJob for FailingJob {
        fn run(&mut self, _: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
            fail();
            Ok(GatherOutput::default())
        }
    }

    #[test]
    fn a_failure_of_libtorch_in_a_stage_is_an_error_with_its_words_alone() {
        let mut bench = Bench::default();
        let stage =
            |opens| -> PanicBoundary<dyn Stage> { PanicBoundary(Box::new(Failing { opens })) };
        let opened = stage(false).open(Setup::default(), &mut bench).map(drop);
        let Ok(Job::Gather(mut job)) = stage(true).open(Setup::default(), &mut bench) else {
            panic!("the stage opens");
        };
        let run = job.run(GatherInput::default(), &mut bench).map(drop);
        for error in [opened.unwrap_err().to_string(), run.unwrap_err().to_string()] {
            assert!(error.starts_with("libtorch: The size of tensor a (2) must match"), "{error}");
            assert!(!error.contains("unwrap") && !error.contains("frame #"), "{error}");
        }
    }
}
