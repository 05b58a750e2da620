//! The precision of convolutions in half-precision training.
//!
//! Weights stay in f32, and so does everything except convolutions: combined with a mask or a
//! weight in f32, a value becomes f32 again. The bindings can enable libtorch's own mechanism
//! (autocast) only for fp16 on a GPU.

use std::cell::Cell;

use tch::{Kind, Tensor};

thread_local! {
    static KIND: Cell<Kind> = const { Cell::new(Kind::Float) };
}

/// Restores the previous setting, even after a panic.
struct Before(Kind);

impl Drop for Before {
    fn drop(&mut self) {
        KIND.set(self.0);
    }
}

/// Runs work on this thread with convolutions in a precision.
pub fn computed_in<T>(kind: Kind, work: impl FnOnce() -> T) -> T {
    let _before = Before(KIND.replace(kind));
    work()
}

/// The tensor in the current precision of convolutions; the tensor itself if it has that already.
pub fn cast(x: &Tensor) -> Tensor {
    x.to_kind(KIND.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_set_for_the_work_only() {
        let kind = || cast(&Tensor::from(1f32)).kind();
        let inner = || computed_in(Kind::Float, kind);
        let kinds = computed_in(Kind::Half, || (kind(), inner(), kind()));
        assert_eq!(kinds, (Kind::Half, Kind::Float, Kind::Half));
        let caught = std::panic::catch_unwind(|| computed_in(Kind::Half, || panic!("by intent")));
        assert!(caught.is_err());
        assert_eq!(kind(), Kind::Float);
    }
}
