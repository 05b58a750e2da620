//! The kernels that a training chooses are those that libtorch uses. They are settings of the whole
//! process, so this test has a process of its own.
#![allow(clippy::unwrap_used)]

use stage_torch::train::kernels::{Attention, Kernels};
use tch::{Device, Kind, Tensor};

/// The number that libtorch has for the plain kernel.
const MATH: i64 = 0;

fn chosen() -> i64 {
    let x = Tensor::ones([1, 2, 16, 8], (Kind::Float, Device::Cpu));
    Tensor::internal_fused_sdp_choice(&x, &x, &x, None::<&Tensor>, 0.0, true, None, false)
}

#[test]
fn chosen_kernels_are_used_until_the_training_ends() {
    let fastest = chosen();
    assert_ne!(fastest, MATH);
    let kernels = Kernels { attention: Attention::Math, tf32: true };
    let in_use = kernels.begin().unwrap();
    assert_eq!(chosen(), MATH);
    assert!(stage_torch::tf32());
    drop(in_use);
    assert_eq!(chosen(), fastest);
    assert!(!stage_torch::tf32());
    // Flash attention alone is what the CPU would choose by itself.
    let _in_use = Kernels { attention: Attention::Flash, tf32: false }.begin().unwrap();
    assert_eq!(chosen(), fastest);
}
