//! TorchScript modules of the user: loading, calling, and their results.

mod fault;
mod fbank;
mod input;
mod module;
mod returned;

pub use self::fault::ModuleFault;
pub use self::fbank::{fbank, frame};
pub use self::input::{array, sound};
pub use self::module::{MethodCall, Module};
pub use self::returned::{ModuleOutputs, OutputForm, ReturnError, number, one, vector};
