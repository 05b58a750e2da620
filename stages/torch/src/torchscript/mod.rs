//! TorchScript modules of the user: loading, calling, and their results.

mod fault;
mod fbank;
mod input;
mod module;
mod returned;

pub use self::fault::Fault;
pub use self::fbank::{fbank, frame};
pub use self::input::{array, sound};
pub use self::module::{Call, Module};
pub use self::returned::{Form, Returned, Unfit, number, one, vector};
