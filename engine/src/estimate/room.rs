//! Fits a plan into the rest of a session: its time, its budget and its GPU hours.

use std::collections::BTreeSet;

use crate::figure::Figure;
use serde::Serialize;

use super::Estimate;
use super::total::money;
use crate::pipeline::{Pipeline, StageId};

/// The rest of the session; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Room {
    pub seconds: Option<f64>,
    pub gpu_seconds: Option<f64>,
    pub price_per_hour: Option<f64>,
}

/// The stages that finish within the rest of the session, and those that do not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionFit {
    pub room: Room,
    pub fits: Vec<String>,
    /// The stages of `fits` that do not finish in time by the upper bounds. A stage of unknown time
    /// has no upper bound.
    pub may_not_fit: Vec<String>,
    pub left_out: Vec<String>,
    /// The time of the stages that do not fit.
    pub left_out_seconds: Figure,
    pub left_out_gpu_seconds: Figure,
    pub left_out_money: Option<Figure>,
}

/// The time of a stage that has no estimate: no limit is certain to be long enough for it.
const UNKNOWN: Figure = Figure { low: 0.0, likely: 0.0, high: f64::INFINITY };

impl Room {
    pub fn is_limited(&self) -> bool {
        self.seconds.is_some() || self.gpu_seconds.is_some()
    }

    /// The smaller of two bounds on the time.
    pub fn with_seconds(self, seconds: Option<f64>) -> Room {
        // A budget never ends if an hour costs nothing.
        let bounds =
            [self.seconds, seconds].into_iter().flatten().filter(|bound| bound.is_finite());
        Room { seconds: bounds.reduce(f64::min), ..self }
    }

    /// Schedules the stages one after another, stages without GPU first, as far as their inputs
    /// exist by then.
    pub fn fit(self, pipeline: &Pipeline, estimate: &Estimate) -> SessionFit {
        let mut fitted = SessionFit {
            room: self,
            fits: Vec::new(),
            may_not_fit: Vec::new(),
            left_out: Vec::new(),
            left_out_seconds: Figure::default(),
            left_out_gpu_seconds: Figure::default(),
            left_out_money: self.price_per_hour.map(|_| Figure::default()),
        };
        let (mut seconds, mut gpu_seconds) = (Figure::default(), Figure::default());
        let mut undone: BTreeSet<StageId> = BTreeSet::new();
        for id in thriftily(pipeline, estimate) {
            let spec = pipeline.stage(id);
            let Some(stage) = estimate.stages.get(&spec.name) else { continue };
            let all = seconds + stage.seconds.unwrap_or(UNKNOWN);
            let gpu = if estimate.is_on_gpu(id) {
                stage.gpu_seconds.unwrap_or(UNKNOWN)
            } else {
                Figure::default()
            };
            let all_gpu = gpu_seconds + gpu;
            let limits = (self.seconds, self.gpu_seconds.filter(|_| gpu.high > 0.0));
            let within = |used: f64, limit: Option<f64>| limit.is_none_or(|limit| used <= limit);
            let fits = |bound: fn(Figure) -> f64| {
                within(bound(all), limits.0) && within(bound(all_gpu), limits.1)
            };
            let has_inputs = spec.upstream().all(|above| !undone.contains(&above));
            if has_inputs && fits(|figure| figure.likely) {
                (seconds, gpu_seconds) = (all, all_gpu);
                fitted.fits.push(spec.name.clone());
                if !fits(|figure| figure.high) {
                    fitted.may_not_fit.push(spec.name.clone());
                }
                continue;
            }
            undone.insert(id);
            fitted.leave_out(&spec.name, stage);
        }
        fitted
    }
}

impl SessionFit {
    fn leave_out(&mut self, name: &str, stage: &crate::estimate::StageEstimate) {
        let seconds = stage.seconds.unwrap_or_default();
        self.left_out.push(name.to_owned());
        self.left_out_seconds = self.left_out_seconds + seconds;
        self.left_out_gpu_seconds =
            self.left_out_gpu_seconds + stage.gpu_seconds.unwrap_or_default();
        let price = self.room.price_per_hour;
        let cost = price.map(|price| money(seconds, price));
        self.left_out_money = self.left_out_money.zip(cost).map(|(sum, cost)| sum + cost);
    }
}

/// A topological order of the stages in which GPU stages come as late as possible.
fn thriftily(pipeline: &Pipeline, estimate: &Estimate) -> Vec<StageId> {
    let mut left: Vec<StageId> = pipeline.ids().collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let is_ready =
            |id: &StageId| pipeline.stage(*id).upstream().all(|above| !left.contains(&above));
        let ready: Vec<usize> = (0..left.len()).filter(|at| is_ready(&left[*at])).collect();
        // In pipeline order, the first stage is always ready.
        let next =
            ready.iter().find(|at| !estimate.is_on_gpu(left[**at])).or(ready.first()).copied();
        order.push(left.remove(next.unwrap_or(0)));
    }
    order
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::estimate::EstimateTotal;
    use crate::figure::{Basis, StageEstimate};
    use crate::machine::Device;
    use crate::testing::pipeline;

    const MANIFEST: &str = r#"
        [pipeline]
        name = "p"
        [assets.model]
        path = "model"
        [stage.clips]
        use = "corpus.folder"
        folder = "data"
        [stage.codec]
        use = "model.import"
        asset = "assets.model"
        [stage.tokens]
        use = "vq.encode"
        input = "clips"
        codec = "codec"
        device = "cuda:0"
        [stage.voice]
        use = "audio.resample"
        input = "clips"
        [stage.packed]
        use = "dataset.pack"
        input = "tokens"
    "#;

    fn fitted(room: Room) -> SessionFit {
        fitted_within(room, 1.0)
    }

    fn fitted_within(room: Room, factor: f64) -> SessionFit {
        let (pipeline, estimate) = minutes(factor);
        room.fit(&pipeline, &estimate)
    }

    /// A minute for each stage, with bounds at this factor.
    fn minutes(factor: f64) -> (Pipeline, Estimate) {
        let pipeline = pipeline(MANIFEST);
        let minute = Some(Figure::within(60.0, factor));
        let devices: Vec<Device> = pipeline
            .stages
            .iter()
            .map(|spec| if spec.name == "tokens" { Device::Gpu(None) } else { Device::Here })
            .collect();
        let stage = |name: &str| StageEstimate {
            basis: Basis::Measured,
            seconds: minute,
            gpu_seconds: minute.filter(|_| name == "tokens"),
            ..StageEstimate::unknown(1)
        };
        let stages = pipeline.stages.iter().map(|spec| (spec.name.clone(), stage(&spec.name)));
        let nothing = Figure::default();
        let total = EstimateTotal {
            seconds: nothing,
            gpu_seconds: nothing,
            disk_bytes: nothing,
            ram_bytes: nothing,
            vram_bytes: nothing,
            money: None,
            basis: Basis::Measured,
            unknown: Vec::new(),
        };
        let (gpus, assumptions) = (Vec::new(), Vec::new());
        let estimate = Estimate {
            stages: stages.collect(),
            total,
            gpus,
            assumptions,
            assumed_counts: Vec::new(),
            devices,
            fitted: None,
        };
        (pipeline, estimate)
    }

    #[test]
    fn what_needs_no_gpu_comes_first_and_what_is_left_out_has_its_price() {
        let room = Room { seconds: Some(200.0), gpu_seconds: None, price_per_hour: Some(60.0) };
        let fitted = fitted(room);
        assert_eq!(fitted.fits, ["clips", "codec", "voice"]);
        assert_eq!(fitted.left_out, ["tokens", "packed"]);
        assert_eq!(fitted.left_out_seconds.likely, 120.0);
        assert_eq!(fitted.left_out_money.map(|money| money.likely), Some(2.0));
    }

    #[test]
    fn stages_that_fit_only_by_the_expected_time_may_not_fit() {
        let room = |seconds| Room { seconds: Some(seconds), ..Room::default() };
        assert_eq!(fitted_within(room(300.0), 1.0).may_not_fit, [""; 0]);
        let fitted = fitted_within(room(400.0), 2.0);
        assert_eq!(fitted.left_out, [""; 0]);
        assert_eq!(fitted.may_not_fit, ["tokens", "packed"]);
        let hours = Room { gpu_seconds: Some(90.0), ..Room::default() };
        assert_eq!(fitted_within(hours, 2.0).may_not_fit, ["tokens"]);
    }

    #[test]
    fn nothing_behind_a_stage_of_unknown_time_fits_for_certain() {
        let (pipeline, mut estimate) = minutes(1.0);
        estimate.stages.get_mut("voice").unwrap().seconds = None;
        let room = Room { seconds: Some(1e6), ..Room::default() };
        let fitted = room.fit(&pipeline, &estimate);
        assert_eq!(fitted.fits, ["clips", "codec", "voice", "tokens", "packed"]);
        assert_eq!(fitted.may_not_fit, ["voice", "tokens", "packed"]);
        let hours = Room { gpu_seconds: Some(1e6), ..Room::default() };
        assert_eq!(hours.fit(&pipeline, &estimate).may_not_fit, [""; 0]);
        estimate.stages.get_mut("tokens").unwrap().gpu_seconds = None;
        assert_eq!(hours.fit(&pipeline, &estimate).may_not_fit, ["tokens"]);
    }

    #[test]
    fn without_hours_of_gpus_the_rest_goes_on() {
        let room = Room { gpu_seconds: Some(30.0), ..Room::default() };
        let fitted = fitted(room);
        assert_eq!(fitted.left_out, ["tokens", "packed"]);
        assert_eq!(fitted.fits.len(), 3);
    }

    #[test]
    fn without_a_limit_all_fits() {
        assert_eq!(fitted(Room::default()).left_out, [""; 0]);
        assert!(!Room::default().is_limited());
        let room = Room::default().with_seconds(Some(5.0)).with_seconds(Some(9.0));
        assert_eq!(room.seconds, Some(5.0));
    }
}
