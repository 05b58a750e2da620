//! The states that a training keeps whatever their loss.

use stage_core::Parameters;
use stage_core::course;

/// The number of states that `keep_every` keeps.
pub fn kept_by_steps(parameters: &Parameters, steps: u64) -> f64 {
    // A wrong value is reported when it is used.
    let every = course::keep_every(parameters, steps).ok().flatten();
    every.map_or(0.0, |every| (steps / every) as f64)
}

#[cfg(test)]
mod tests {
    use stage_core::ParameterValue::{self, Integer, Share};

    use super::*;

    #[test]
    fn states_kept_by_steps_are_counted() {
        let kept = |every: Option<ParameterValue>| {
            let mut parameters = Parameters::default();
            parameters.0.extend(every.map(|every| ("keep_every".to_owned(), every)));
            kept_by_steps(&parameters, 1_000)
        };
        assert_eq!(kept(None), 0.0);
        assert_eq!(kept(Some(Share(0.25))), 4.0);
        assert_eq!(kept(Some(Integer(300))), 3.0);
        assert_eq!(kept(Some(Integer(0))), 0.0);
    }
}
