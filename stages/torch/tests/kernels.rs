//! libtorch uses the kernels that a training selects. They are settings of the whole process, so
//! this test has its own process.
#![allow(clippy::unwrap_used)]

use stage_torch::Tf32;
use stage_torch::train::kernels::{AttentionKernel, Kernels};
use tch::{Device, Kind, Tensor};

/// The number of the plain kernel in libtorch.
const MATH: i64 = 0;

fn chosen() -> i64 {
    let x = Tensor::ones([1, 2, 16, 8], (Kind::Float, Device::Cpu));
    Tensor::internal_fused_sdp_choice(&x, &x, &x, None::<&Tensor>, 0.0, true, None, false)
}

#[test]
fn chosen_kernels_are_used_until_the_training_ends() {
    let fastest = chosen();
    assert_ne!(fastest, MATH);
    let kernels = Kernels { attention: AttentionKernel::Math, tf32: true };
    let in_use = kernels.begin().unwrap();
    assert_eq!(chosen(), MATH);
    let both = |allowed| Tf32 { products: allowed, convolutions: allowed };
    assert_eq!(stage_torch::tf32(), both(true));
    drop(in_use);
    assert_eq!(chosen(), fastest);
    assert!(!stage_torch::attention().cudnn && stage_torch::attention().efficient);
    assert_eq!(stage_torch::tf32(), both(false));
    // The CPU itself would select flash attention.
    let _in_use = Kernels { attention: AttentionKernel::Flash, tf32: false }.begin().unwrap();
    assert_eq!(chosen(), fastest);
}
