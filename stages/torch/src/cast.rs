//! What convolutions compute in while a net is trained in half precision.
//!
//! Weights stay in f32, and so does all that is no convolution: where the numbers meet a mask or
//! a weight of f32 they become f32 again. libtorch's own way to do this (autocast) can be switched
//! on from here for fp16 on a GPU only.

use std::cell::Cell;

use tch::{Kind, Tensor};

thread_local! {
    static KIND: Cell<Kind> = const { Cell::new(Kind::Float) };
}

/// Takes back what was set, also where the work panics.
struct Before(Kind);

impl Drop for Before {
    fn drop(&mut self) {
        KIND.set(self.0);
    }
}

/// Does work of this thread whose convolutions compute in a kind.
pub fn computed_in<T>(kind: Kind, work: impl FnOnce() -> T) -> T {
    let _before = Before(KIND.replace(kind));
    work()
}

/// As convolutions take it now; the tensor itself where it is so already.
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
