//! The functions of libtorch that its bindings lack: see the folder `shim`.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use tch::Tensor;
use torch_sys::C_tensor;

use crate::error::TorchError;

unsafe extern "C" {
    fn throstle_free(message: *mut c_char);
    fn throstle_set_tf32(allowed: bool) -> *mut c_char;
    fn throstle_tf32() -> c_int;
    fn throstle_set_deterministic() -> *mut c_char;
    fn throstle_deterministic() -> bool;
    fn throstle_peak(device: c_int, bytes: *mut c_ulonglong) -> *mut c_char;
    fn throstle_reset_peak(device: c_int) -> *mut c_char;
    fn throstle_empty_cache() -> *mut c_char;
    fn throstle_pinned(from: *const C_tensor, to: *mut *mut C_tensor) -> *mut c_char;
    fn throstle_to_gpu(from: *const C_tensor, device: c_int, to: *mut *mut C_tensor)
    -> *mut c_char;
    fn throstle_to_gpu_aside(
        from: *const C_tensor,
        device: c_int,
        to: *mut *mut C_tensor,
    ) -> *mut c_char;
    fn throstle_watch(
        names: *const *const c_char,
        count: usize,
        handle: *mut c_ulonglong,
    ) -> *mut c_char;
    fn throstle_seen(handle: c_ulonglong) -> c_ulonglong;
    fn throstle_norms(
        count: usize,
        tensors: *const *const C_tensor,
        to: *mut *mut C_tensor,
    ) -> *mut c_char;
    fn throstle_copy_all(
        count: usize,
        to: *const *const C_tensor,
        from: *const *const C_tensor,
    ) -> *mut c_char;
    fn throstle_sum_in_f32(parameter: *const C_tensor) -> *mut c_char;
    fn throstle_drop_gradient(parameter: *const C_tensor);
    fn throstle_set_attention(flash: bool, efficient: bool, math: bool, cudnn: bool)
    -> *mut c_char;
    fn throstle_attention() -> c_int;
    fn throstle_attend_spans(
        queries: *const C_tensor,
        keys: *const C_tensor,
        values: *const C_tensor,
        bounds: *const C_tensor,
        longest: i64,
        to: *mut *mut C_tensor,
    ) -> *mut c_char;
    fn throstle_fused_adamw(
        count: usize,
        parameters: *const *const C_tensor,
        gradients: *const *const C_tensor,
        first: *const *const C_tensor,
        second: *const *const C_tensor,
        steps: *const *const C_tensor,
        rate: f64,
        beta1: f64,
        beta2: f64,
        decay: f64,
        epsilon: f64,
        scale: *const C_tensor,
    ) -> *mut c_char;
    fn throstle_dropped(
        x: *const C_tensor,
        rows: c_ulonglong,
        columns: c_ulonglong,
        threshold: c_int,
        rest: f64,
        to: *mut *mut C_tensor,
    ) -> *mut c_char;
    fn throstle_border(x: *const C_tensor, to: *mut *mut C_tensor) -> *mut c_char;
    fn throstle_backward(output: *const C_tensor, gradient: *const C_tensor) -> *mut c_char;
    fn throstle_on_threads(count: c_uint, work: extern "C" fn(*const c_void), data: *const c_void);
}

/// The kernels that scaled dot product attention may select from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionKernels {
    pub flash: bool,
    pub efficient: bool,
    pub math: bool,
    pub cudnn: bool,
}

/// The operations that may use TF32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tf32 {
    pub products: bool,
    pub convolutions: bool,
}

/// The numbers of one update.
#[derive(Clone, Copy, Debug)]
pub struct FusedAdamW {
    pub rate: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub decay: f64,
    pub epsilon: f64,
}

/// The tensors of an update, in the same order in each list: f32, contiguous, on one device.
#[derive(Debug, Default)]
pub struct FusedTensors<'a> {
    pub parameters: Vec<&'a Tensor>,
    pub gradients: Vec<&'a Tensor>,
    pub first: Vec<&'a Tensor>,
    pub second: Vec<&'a Tensor>,
}

/// Allows or forbids TF32 in the matrix products and convolutions of this process.
pub fn set_tf32(allowed: bool) -> Result<(), TorchError> {
    // SAFETY: the function takes a plain value and catches all exceptions.
    outcome(unsafe { throstle_set_tf32(allowed) })
}

/// Tests if matrix products and convolutions of this process may use TF32.
pub fn tf32() -> Tf32 {
    // SAFETY: the function reads two flags.
    let bits = unsafe { throstle_tf32() };
    Tf32 { products: bits & 1 != 0, convolutions: bits & 2 != 0 }
}

/// Selects kernels that give the same bits each time, in backward passes too.
pub fn set_deterministic() -> Result<(), TorchError> {
    // SAFETY: the function catches all exceptions.
    outcome(unsafe { throstle_set_deterministic() })
}

pub fn is_deterministic() -> bool {
    // SAFETY: the function reads flags.
    unsafe { throstle_deterministic() }
}

/// The peak of the memory that libtorch has reserved on a GPU since the last reset.
pub fn peak(gpu: usize) -> Result<u64, TorchError> {
    let mut bytes = 0;
    // SAFETY: the pointer is to a number that outlives the call, which catches all exceptions.
    outcome(unsafe { throstle_peak(gpu as c_int, &raw mut bytes) })?;
    Ok(bytes)
}

pub fn reset_peak(gpu: usize) -> Result<(), TorchError> {
    // SAFETY: the function takes a plain value and catches all exceptions.
    outcome(unsafe { throstle_reset_peak(gpu as c_int) })
}

/// Returns the memory that libtorch keeps for later use.
pub fn empty_cache() -> Result<(), TorchError> {
    // SAFETY: the function catches all exceptions.
    outcome(unsafe { throstle_empty_cache() })
}

/// A copy in pinned memory; the tensor itself if it is pinned already.
pub fn pinned(tensor: &Tensor) -> Result<Tensor, TorchError> {
    // SAFETY: the pointer is to a tensor that outlives the call, which catches all exceptions.
    made(|to| unsafe { throstle_pinned(tensor.as_ptr(), to) })
}

/// A copy on a GPU, in the order of the current stream; the host does not wait.
pub fn to_gpu(tensor: &Tensor, gpu: usize) -> Result<Tensor, TorchError> {
    // SAFETY: the pointer is to a tensor that outlives the call, which catches all exceptions.
    made(|to| unsafe { throstle_to_gpu(tensor.as_ptr(), gpu as c_int, to) })
}

/// The same on another stream, while the GPU goes on with its work; computations with the copy wait
/// for it.
pub fn to_gpu_aside(tensor: &Tensor, gpu: usize) -> Result<Tensor, TorchError> {
    // SAFETY: the pointer is to a tensor that outlives the call, which catches all exceptions.
    made(|to| unsafe { throstle_to_gpu_aside(tensor.as_ptr(), gpu as c_int, to) })
}

/// A dropout mask. The number of an entry is mixed from those of its row and its column, which are
/// the scrambled sums of a seed and an index.
#[derive(Clone, Copy, Debug)]
pub struct Mask {
    /// The seed of the rows.
    pub rows: u64,
    /// The seed of the columns.
    pub columns: u64,
    /// The smallest number of an entry that stays.
    pub threshold: i32,
    /// Divides the entries that stay.
    pub rest: f64,
}

/// Zeroes entries and divides the others. The backward pass computes the mask again instead of
/// keeping it. The last axis has the columns.
pub fn dropped(x: &Tensor, mask: Mask) -> Result<Tensor, TorchError> {
    let Mask { rows, columns, threshold, rest } = mask;
    // SAFETY: the pointer is to a tensor that outlives the call, which catches all exceptions.
    made(|to| unsafe { throstle_dropped(x.as_ptr(), rows, columns, threshold, rest, to) })
}

/// The same tensor; its gradient gets the layout that the gradient of a leaf would have.
pub fn border(x: &Tensor) -> Result<Tensor, TorchError> {
    // SAFETY: the pointer is to a tensor that outlives the call, which catches all exceptions.
    made(|to| unsafe { throstle_border(x.as_ptr(), to) })
}

/// The backward pass from an output with its gradient.
pub fn backward(output: &Tensor, gradient: &Tensor) -> Result<(), TorchError> {
    // SAFETY: the pointers are to tensors that outlive the call, which catches all exceptions.
    outcome(unsafe { throstle_backward(output.as_ptr(), gradient.as_ptr()) })
}

fn made(make: impl FnOnce(*mut *mut C_tensor) -> *mut c_char) -> Result<Tensor, TorchError> {
    let mut to: *mut C_tensor = std::ptr::null_mut();
    outcome(make(&raw mut to))?;
    if to.is_null() {
        return Err(TorchError::from_library("a copy without a tensor"));
    }
    // SAFETY: without a message there is a new tensor, owned by nobody else.
    Ok(unsafe { Tensor::from_ptr(to) })
}

/// Copies tensors to others of the same shapes, in one call for those of a device and a type.
pub fn copy_all(to: &[&Tensor], from: &[&Tensor]) -> Result<(), TorchError> {
    if to.len() != from.len() {
        return Err(TorchError::Input("the lists of a copy differ in length".into()));
    }
    if to.is_empty() {
        return Ok(());
    }
    let [to, from] = [to, from].map(pointers);
    // SAFETY: each list has this many pointers to tensors that outlive the call; the function
    // copies the handles and catches all exceptions.
    outcome(unsafe { throstle_copy_all(to.len(), to.as_ptr(), from.as_ptr()) })
}

fn pointers(list: &[&Tensor]) -> Vec<*const C_tensor> {
    list.iter().map(|tensor| tensor.as_ptr()).collect()
}

/// The L2 norms of tensors on one device, in f32, in few calls for all of them: `[tensors]`.
pub fn norms(tensors: &[&Tensor]) -> Result<Tensor, TorchError> {
    let tensors = pointers(tensors);
    // SAFETY: the list has this many pointers to tensors that outlive the call, which catches all
    // exceptions.
    made(|to| unsafe { throstle_norms(tensors.len(), tensors.as_ptr(), to) })
}

/// Operations that wait for a GPU, because the host needs their numbers, or a size that follows
/// from them. Copies count in [`crate::copies`].
const WAITING: [&CStr; 8] = [
    c"aten::_local_scalar_dense",
    c"aten::nonzero",
    c"aten::masked_select",
    c"aten::equal",
    c"aten::is_nonzero",
    c"aten::_unique2",
    c"aten::unique_dim",
    c"aten::bincount",
];

/// The number of operations of this thread during `work` that would wait for a GPU.
pub fn waits<T>(work: impl FnOnce() -> T) -> Result<(T, u64), TorchError> {
    operations(&WAITING, work)
}

/// The number of operations of this thread during `work` that have one of these names.
pub fn operations<T>(names: &[&CStr], work: impl FnOnce() -> T) -> Result<(T, u64), TorchError> {
    let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let mut handle = 0;
    // SAFETY: the pointers are to texts and to a number that outlive the call, which copies the
    // texts and catches all exceptions.
    outcome(unsafe { throstle_watch(names.as_ptr(), names.len(), &raw mut handle) })?;
    let result = catch_unwind(AssertUnwindSafe(work));
    // SAFETY: the handle is from the call above, on the same thread.
    let count = unsafe { throstle_seen(handle) };
    Ok((result.unwrap_or_else(|panic| resume_unwind(panic)), count))
}

/// Sums the gradient of a leaf up in f32, whatever its type.
pub fn sum_in_f32(parameter: &Tensor) -> Result<(), TorchError> {
    // SAFETY: the pointer is to a tensor that outlives the call, which catches all exceptions.
    outcome(unsafe { throstle_sum_in_f32(parameter.as_ptr()) })
}

/// Frees the gradient of a leaf.
pub fn drop_gradient(parameter: &Tensor) {
    // SAFETY: the pointer is to a tensor that outlives the call; the function throws no exception.
    unsafe { throstle_drop_gradient(parameter.as_ptr()) }
}

/// Sets the kernels of this process.
pub fn set_attention(kernels: AttentionKernels) -> Result<(), TorchError> {
    let AttentionKernels { flash, efficient, math, cudnn } = kernels;
    // SAFETY: the function takes plain values and catches all exceptions.
    outcome(unsafe { throstle_set_attention(flash, efficient, math, cudnn) })
}

/// The kernels that attention may select from in this process.
pub fn attention() -> AttentionKernels {
    // SAFETY: the function reads flags.
    let bits = unsafe { throstle_attention() };
    let has = |bit: c_int| bits & bit != 0;
    AttentionKernels { flash: has(1), efficient: has(2), math: has(4), cudnn: has(8) }
}

/// Causal attention within spans of one long row, with the flash kernel, which only GPUs have:
/// [columns, heads, width] each. `bounds` are the first columns of the spans, and the end, in i32.
pub fn attend_spans(
    [queries, keys, values]: [&Tensor; 3],
    bounds: &Tensor,
    longest: i64,
) -> Result<Tensor, TorchError> {
    let [queries, keys, values, bounds] = [queries, keys, values, bounds].map(Tensor::as_ptr);
    // SAFETY: the pointers are to tensors that outlive the call, which catches all exceptions.
    made(|to| unsafe { throstle_attend_spans(queries, keys, values, bounds, longest, to) })
}

/// One AdamW update in one pass over memory. `steps` is the number of this update, the same for all
/// parameters. Gradients are divided by `scale` in place, if there is one.
pub fn fused_adamw(
    tensors: &FusedTensors<'_>,
    steps: &Tensor,
    numbers: FusedAdamW,
    scale: Option<&Tensor>,
) -> Result<(), TorchError> {
    let count = tensors.parameters.len();
    let lists = [&tensors.parameters, &tensors.gradients, &tensors.first, &tensors.second];
    if lists.iter().any(|list| list.len() != count) {
        return Err(TorchError::Input("the lists of an update differ in length".into()));
    }
    let [parameters, gradients, first, second] = lists.map(|list| pointers(list));
    let steps = vec![steps.as_ptr(); count];
    let FusedAdamW { rate, beta1, beta2, decay, epsilon } = numbers;
    // SAFETY: each list has `count` pointers to tensors that outlive the call; the function copies
    // the handles and catches all exceptions.
    outcome(unsafe {
        throstle_fused_adamw(
            count,
            parameters.as_ptr(),
            gradients.as_ptr(),
            first.as_ptr(),
            second.as_ptr(),
            steps.as_ptr(),
            rate,
            beta1,
            beta2,
            decay,
            epsilon,
            scale.map_or(std::ptr::null(), Tensor::as_ptr),
        )
    })
}

/// Calls `work` on `count` threads of libtorch's pool, including the calling thread; only on the
/// calling thread if libtorch has no OpenMP.
pub fn on_threads(count: usize, work: impl Fn() + Sync) {
    struct ThreadCall<'a> {
        work: &'a (dyn Fn() + Sync),
        panic: Mutex<Option<Box<dyn Any + Send>>>,
    }
    extern "C" fn call(data: *const c_void) {
        // SAFETY: the data is the call below, which waits for all threads.
        let call = unsafe { &*data.cast::<ThreadCall>() };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call.work)) {
            *call.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
    }
    let data = ThreadCall { work: &work, panic: Mutex::new(None) };
    // SAFETY: the function gives the data to `call` and returns when all calls have.
    unsafe { throstle_on_threads(count as c_uint, call, (&raw const data).cast()) };
    let panic = data.panic.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

fn outcome(message: *mut c_char) -> Result<(), TorchError> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: a message that is not null ends in NUL and must be released once, here.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        throstle_free(message);
        text
    };
    Err(TorchError::from_library(&text))
}
