//! The reasons why a call of a module fails.

use stage_core::StageError;
use stage_core::escape::clean;
use tch::TchError;

use crate::error::TorchError;

/// The text that libtorch puts before the message of an exception in a module.
const TRACEBACK: &str = "Traceback of TorchScript";
/// The start of the name of Python's own exceptions.
const BUILTIN: &str = "builtins.";
/// Faults of a GPU and its libraries: the item is not to blame.
const OF_GPU: [&str; 4] = ["CUDA error", "cuDNN error", "CUBLAS_STATUS", "CUFFT_"];

#[derive(Debug, PartialEq, Eq)]
pub enum ModuleFault {
    /// An exception in the module, with the last line of its message.
    Raised(String),
    /// Anything else: the item is not to blame.
    Other(StageError),
}

impl From<TchError> for ModuleFault {
    fn from(error: TchError) -> ModuleFault {
        match error {
            TchError::Torch(text) => of_library(&text),
            // A value that the bindings do not know.
            other => {
                ModuleFault::Other(unable(format!("the result of the module is unknown: {other}")))
            }
        }
    }
}

fn of_library(text: &str) -> ModuleFault {
    let (is_raised, message) = (text.contains(TRACEBACK), message(text));
    let error = TorchError::from_library(&message);
    let is_memory = matches!(error, TorchError::OutOfMemory(_));
    if is_memory || OF_GPU.iter().any(|sign| message.contains(sign)) {
        return ModuleFault::Other(error.into());
    }
    let TorchError::Library(short) = error else { return ModuleFault::Other(error.into()) };
    let short = short.strip_prefix(BUILTIN).unwrap_or(&short);
    if is_raised {
        ModuleFault::Raised(clean(short).into_owned())
    } else {
        // The call itself: no such method, or other arguments.
        ModuleFault::Other(unable(format!("the module cannot be called: {short}")))
    }
}

/// The lines after the traceback, which is indented.
fn message(text: &str) -> String {
    if !text.contains(TRACEBACK) {
        return text.to_owned();
    }
    let text = text.find("\nException raised from").map_or(text, |end| &text[..end]);
    let lines: Vec<&str> = text.lines().collect();
    let is_of_trace = |line: &&str| line.starts_with(' ') || line.starts_with(TRACEBACK);
    let start = lines.iter().rposition(is_of_trace).map_or(0, |at| at + 1);
    if lines[start..].concat().trim().is_empty() {
        lines.iter().rfind(|line| !line.trim().is_empty()).unwrap_or(&"").trim().to_owned()
    } else {
        lines[start..].join("\n").trim().to_owned()
    }
}

/// No item can be processed.
pub fn unable(message: String) -> StageError {
    StageError::Unable { message: clean(&message).into_owned(), help: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(message: &str) -> TchError {
        TchError::Torch(format!(
            "The following operation failed in the TorchScript interpreter.\n\
             Traceback of TorchScript (most recent call last):\n  File \"code/a.py\", line 5, in forward\n    \
             raise\n    ~~~~~ <--- HERE\n\n{message}\n"
        ))
    }

    #[test]
    fn an_exception_of_a_module_is_told_by_its_message_alone() {
        let fault = ModuleFault::from(raised("builtins.ValueError: too quiet"));
        assert_eq!(fault, ModuleFault::Raised("ValueError: too quiet".to_owned()));
        let fault = ModuleFault::from(raised(
            "RuntimeError: shapes\ndiffer\nException raised from x.cpp:1",
        ));
        assert_eq!(fault, ModuleFault::Raised("RuntimeError: shapes differ".to_owned()));
        let fault = ModuleFault::from(raised(""));
        assert_eq!(fault, ModuleFault::Raised("~~~~~ <--- HERE".to_owned()));
    }

    #[test]
    fn no_item_is_blamed_for_the_memory_or_the_gpu() {
        for (message, is_memory) in [
            (
                "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\nSee the documentation",
                true,
            ),
            ("RuntimeError: DefaultCPUAllocator: can't allocate memory", true),
            ("RuntimeError: CUDA error: an illegal memory access was encountered", false),
        ] {
            match ModuleFault::from(raised(message)) {
                ModuleFault::Other(StageError::OutOfMemory { .. }) => {
                    assert!(is_memory, "{message}")
                }
                ModuleFault::Other(StageError::Failed { .. }) => assert!(!is_memory, "{message}"),
                other => panic!("{message}: {other:?}"),
            }
        }
        // The source in a traceback is not the message.
        let text = raised("RuntimeError: wrong").to_string().replace("raise", "# out of memory");
        assert_eq!(of_library(&text), ModuleFault::Raised("RuntimeError: wrong".to_owned()));
    }

    #[test]
    fn a_call_that_the_module_does_not_have_ends_the_stage() {
        let error = TchError::Torch("Method 'rate' is not defined.".to_owned());
        let ModuleFault::Other(error) = ModuleFault::from(error) else {
            panic!("no item is to blame")
        };
        let expected = "the module cannot be called: Method 'rate' is not defined.";
        assert_eq!((error.to_string().as_str(), error.help()), (expected, None));
        assert!(matches!(error, StageError::Unable { .. }));
    }
}
