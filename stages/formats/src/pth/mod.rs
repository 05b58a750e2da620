//! Weight files of PyTorch (`.pth`, `.pt`, `.ckpt`, `.bin`): zip archives with one pickle that
//! describes tensors, and further entries with their storages.

mod read;
mod settings;
mod view;
mod write;

pub use read::PthFile;
pub use write::PthWriter;

const FORMAT: &str = "PyTorch";
