//! Any bytes as a weight file of PyTorch: tensors that fill their shapes, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stage_formats::pth::PthFile;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = PthFile::read(bytes.to_vec()) else { return };
    for (name, info) in file.tensors() {
        if let Ok(tensor) = file.tensor(name) {
            assert_eq!(tensor.info(), info);
            assert_eq!(Some(tensor.data().len()), info.bytes());
        }
    }
});
