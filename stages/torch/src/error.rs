//! Errors of this crate, and the classification of libtorch's own errors.
//!
//! What this crate refuses is a [`TorchError`] in a `Result`. A failure of libtorch is a panic, in
//! our functions as in those of tch, so that the code of models has no error paths of its own. It
//! becomes a [`TorchError`] where work is tried again ([`caught`]), and else at the edge of the
//! stages ([`guarded`]).

use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe, catch_unwind, panic_any};

use stage_core::StageError;
use stage_core::escape::clean;
use tch::TchError;

/// The longest text of libtorch that is passed on; the rest is a backtrace.
const LONGEST: usize = 400;

#[derive(Debug, thiserror::Error)]
pub enum TorchError {
    /// A smaller batch may succeed.
    #[error("{0}")]
    OutOfMemory(String),
    #[error("libtorch: {0}")]
    Library(String),
    /// The bytes of a model are invalid.
    #[error("the model cannot be used: {0}")]
    Model(String),
    /// The input cannot be processed.
    #[error("{0}")]
    Input(String),
}

impl TorchError {
    /// Classifies a text of libtorch, which has no other information about the type of an error.
    pub fn from_library(text: &str) -> TorchError {
        if is_out_of_memory(text) {
            TorchError::OutOfMemory(no_room(text))
        } else {
            TorchError::Library(shorten(text))
        }
    }

    /// A thread that cannot be started.
    pub fn no_thread(error: io::Error) -> TorchError {
        TorchError::Library(format!("failed to spawn thread: {error}"))
    }

    /// Methods of tch without `f_` panic with the text of libtorch.
    pub fn from_panic(panic: Box<dyn Any + Send>) -> TorchError {
        let text = match panic.downcast::<TorchError>() {
            Ok(error) => return *error,
            Err(panic) => text_of(&*panic).to_owned(),
        };
        TorchError::from_library(&of_libtorch(&text).unwrap_or(text))
    }
}

/// Unwraps results of libtorch, as tch does.
pub trait InTch<T> {
    /// The value; else panics like the methods of tch without `f_`. See [`caught`].
    fn in_tch(self) -> T;
}

impl<T, E: Into<TorchError>> InTch<T> for Result<T, E> {
    fn in_tch(self) -> T {
        self.unwrap_or_else(|error| panic_any(error.into()))
    }
}

/// Runs work that is tried again after some errors; failures of libtorch are errors like the
/// others.
pub fn caught<T>(work: impl FnOnce() -> Result<T, TorchError>) -> Result<T, TorchError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(TorchError::from_panic(panic)))
}

/// Runs a part of a stage; a panic in it becomes an error that may be out of memory.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, StageError>) -> Result<T, StageError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(panic)))
}

/// Keeps failures of libtorch off stderr, since each of them is caught. Other panics are printed.
pub fn print_only_defects() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !is_of_tch(info.payload()) {
            print(info);
        }
    }));
}

/// The start of the texts of tch, which unwraps the errors of libtorch.
const UNWRAPPED: &str = "called `Result::unwrap()` on an `Err` value: ";

fn is_of_tch(panic: &(dyn Any + Send)) -> bool {
    let text = text_of(panic);
    panic.is::<TorchError>() || text.starts_with(UNWRAPPED) || is_out_of_memory(text)
}

/// A panic of tch concerns the work at hand. Any other one is a defect, and no item is to blame.
fn of_panic(panic: Box<dyn Any + Send>) -> StageError {
    if is_of_tch(&*panic) {
        return TorchError::from_panic(panic).into();
    }
    StageError::of_panic(text_of(&*panic), |text| StageError::Unable {
        message: clean(&format!("a defect: {}", shorten(&text))).to_string(),
        help: Some("please report it".to_owned()),
    })
}

/// The text of libtorch in the message of a panic of tch, which has the `Debug` form of a
/// [`TchError`]: `… value: Torch("…")`.
fn of_libtorch(text: &str) -> Option<String> {
    let quoted = text.strip_prefix(UNWRAPPED)?.split_once("(\"")?.1;
    let mut characters = quoted.strip_suffix("\")").unwrap_or(quoted).chars();
    let mut text = String::with_capacity(quoted.len());
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                // Such as `u{1b}`: of no use to a person.
                'u' => _ = characters.by_ref().find(|one| *one == '}'),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
    Some(text)
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

impl From<TchError> for TorchError {
    fn from(error: TchError) -> TorchError {
        match error {
            TchError::Torch(text) => TorchError::from_library(&text),
            other => TorchError::from_library(&other.to_string()),
        }
    }
}

impl From<TorchError> for StageError {
    fn from(error: TorchError) -> StageError {
        match error {
            TorchError::OutOfMemory(message) => StageError::OutOfMemory { message },
            // No item is to blame for a model.
            model @ TorchError::Model(_) => {
                StageError::Unable { message: model.to_string(), help: None }
            }
            other => StageError::of_panic(&other.to_string(), StageError::failed),
        }
    }
}

fn is_out_of_memory(text: &str) -> bool {
    // CUDA's allocator, the CPU's allocator, cuBLAS, the C++ library, and cuDNN, which has kernels
    // for all our shapes: it finds none if none has room for its workspace.
    const SIGNS: [&str; 6] = [
        "out of memory",
        "not enough memory",
        "allocate memory",
        "_ALLOC_FAILED",
        "std::bad_alloc",
        "unable to find an engine",
    ];
    SIGNS.iter().any(|sign| text.contains(sign))
}

/// The memory that an allocation lacked, from the text of libtorch.
fn no_room(text: &str) -> String {
    let device = if text.contains("CPUAllocator") { "memory" } else { "memory of the device" };
    let requested = text.split("allocate ").find_map(|rest| {
        let (number, rest) = rest.split_once(' ')?;
        let unit = rest.split(|end: char| !end.is_ascii_alphabetic()).next()?;
        let factor: f64 = match unit {
            "bytes" | "B" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1_048_576.0,
            "GiB" => 1_073_741_824.0,
            _ => return None,
        };
        Some(number.parse::<f64>().ok()? * factor / 1e9)
    });
    match requested {
        Some(gigabytes) if gigabytes >= 0.01 => {
            format!("{gigabytes:.2} GB more do not fit into the {device}")
        }
        _ => format!("the {device} is full"),
    }
}

/// The message without the C++ backtrace that libtorch appends.
fn shorten(text: &str) -> String {
    let end = text.find("\nException raised from").unwrap_or(text.len());
    let end = text[..end].find("\nframe #").unwrap_or(end);
    let lines: Vec<&str> =
        text[..end].lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let message = lines.join(" ");
    match message.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} …", &message[..at]),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_our_own_calls_is_like_one_of_tch() {
        let failed = || -> Result<u8, TorchError> { Err(TorchError::from_library("no kernel")) };
        let error = guarded(|| Ok(failed().in_tch())).map_err(|error| error.to_string());
        assert_eq!(error, Err("libtorch: no kernel".to_owned()));
    }

    #[test]
    fn a_failure_of_libtorch_has_the_same_message_as_a_panic_and_as_an_error() {
        let (one, other) =
            (tch::Tensor::from_slice(&[1f32; 2]), tch::Tensor::from_slice(&[1f32; 3]));
        let error = one.f_add(&other).map_err(TorchError::from).map_err(|error| error.to_string());
        let panic = caught(|| Ok(&one + &other)).map_err(|error| error.to_string());
        assert_eq!(panic.err(), error.err());
    }

    #[test]
    fn the_backtrace_is_cut_off() {
        let text =
            "shape mismatch\n  at dim 1\nException raised from check at x.cpp:1\nframe #0: a";
        let error = TorchError::from_library(text);
        assert_eq!(error.to_string(), "libtorch: shape mismatch at dim 1");
    }

    #[test]
    fn every_way_to_say_out_of_memory_is_known() {
        for text in [
            "CUDA out of memory. Tried to allocate 2 GiB",
            "[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes",
            "CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "DefaultCPUAllocator: can't allocate memory: std::bad_alloc",
            "GET was unable to find an engine to execute this computation",
            "FIND was unable to find an engine to execute this computation",
        ] {
            let error = StageError::from(TorchError::from_library(text));
            assert!(matches!(error, StageError::OutOfMemory { .. }), "{text}");
        }
    }

    #[test]
    fn the_lack_of_memory_is_told_without_the_words_of_the_library() {
        for (text, expected) in [
            (
                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has",
                "out of memory: 2.15 GB more do not fit into the memory of the device",
            ),
            (
                "[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: not enough memory: you tried \
                 to allocate 80000000000 bytes. Error code 12",
                "out of memory: 80.00 GB more do not fit into the memory",
            ),
            ("CUBLAS_STATUS_ALLOC_FAILED", "out of memory: the memory of the device is full"),
        ] {
            assert_eq!(StageError::from(TorchError::from_library(text)).to_string(), expected);
        }
    }

    #[test]
    fn a_panic_of_tch_is_read_like_an_error() {
        let error =
            guarded(|| Ok(tch::Tensor::zeros([1 << 46], (tch::Kind::Float, tch::Device::Cpu))));
        assert!(matches!(error, Err(StageError::OutOfMemory { .. })), "{error:?}");
    }

    #[test]
    fn a_panic_of_another_library_is_no_verdict_on_an_item() {
        let error = guarded::<()>(|| panic!("start byte index 2 is out of bounds of `i`"));
        assert!(matches!(error, Err(StageError::Unable { .. })), "{error:?}");
        let error = guarded(|| {
            let (one, other) =
                (tch::Tensor::from_slice(&[1f32; 2]), tch::Tensor::from_slice(&[1f32; 3]));
            Ok(&one + &other)
        });
        assert!(matches!(error, Err(StageError::Failed { .. })), "{error:?}");
    }

    #[test]
    fn a_real_error_of_libtorch_is_short_and_not_taken_for_lack_of_memory() {
        let left = tch::Tensor::from_slice(&[1f32, 2.0]);
        let right = tch::Tensor::from_slice(&[1f32, 2.0, 3.0]);
        let error = left.f_add(&right).map_err(TorchError::from).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.starts_with("libtorch: The size of tensor a (2)"), "{text}");
        assert!(!text.contains("frame #"), "{text}");
    }

    #[test]
    fn an_impossible_allocation_is_out_of_memory() {
        let options = (tch::Kind::Float, tch::Device::Cpu);
        let error = tch::Tensor::f_zeros([1 << 46], options).map_err(TorchError::from).err();
        assert!(matches!(error, Some(TorchError::OutOfMemory(_))), "{error:?}");
    }
}
