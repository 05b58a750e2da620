//! The spectrum of real samples.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

/// The transform of one size, with its buffers.
pub struct Transform {
    plan: Arc<dyn RealToComplex<f64>>,
    input: Vec<f64>,
    output: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl Transform {
    /// For this number of samples.
    pub fn new(size: usize) -> Transform {
        let plan = RealFftPlanner::new().plan_fft_forward(size);
        Transform {
            input: plan.make_input_vec(),
            output: plan.make_output_vec(),
            scratch: plan.make_scratch_vec(),
            plan,
        }
    }

    /// The samples to transform. A transform leaves other numbers in them.
    pub fn input(&mut self) -> &mut [f64] {
        &mut self.input
    }

    /// The bins of the spectrum of the input.
    pub fn run(&mut self) -> &[Complex<f64>] {
        // The plan makes the buffers itself, so their lengths cannot be wrong.
        let _ =
            self.plan.process_with_scratch(&mut self.input, &mut self.output, &mut self.scratch);
        &self.output
    }
}
