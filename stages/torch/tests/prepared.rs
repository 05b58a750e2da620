//! The settings of a worker's process: they are those of libtorch itself, so this test has its own
//! process.
#![allow(clippy::unwrap_used)]

use stage_core::device::DeviceId;
use stage_torch::device::Machine;
use stage_torch::{AttentionKernels, Tf32};

#[test]
fn a_prepared_worker_computes_without_tf32_and_with_kernels_that_repeat_their_bits_and_plan_nothing()
 {
    // libtorch itself allows TF32 in convolutions.
    assert!(stage_torch::tf32().convolutions && !stage_torch::is_deterministic());
    assert!(stage_torch::attention().cudnn);
    Machine::default().prepare(DeviceId::Cpu, 1).unwrap();
    assert_eq!(stage_torch::tf32(), Tf32::default());
    assert!(stage_torch::is_deterministic());
    // The attention kernel of cuDNN makes a new plan for each shape.
    let expected = AttentionKernels { flash: true, efficient: true, math: true, cudnn: false };
    assert_eq!(stage_torch::attention(), expected);
}
