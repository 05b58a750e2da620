//! Writes one file of each format into a folder, for `fixtures/check_samples.py` to read with
//! the libraries of the original projects.
// An example is no library: it may touch files as it likes.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::Path;

use stage_formats::pth::PthWriter;
use stage_formats::safetensors::SafetensorsWriter;
use stage_formats::{Dtype, Tensor, TensorInfo};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).ok_or("name a folder")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    weights(folder)
}

/// Element `n` of every tensor is `n % 3`, whatever its type.
fn tensors() -> Outcome<BTreeMap<String, Tensor>> {
    let mut tensors = BTreeMap::new();
    let shapes: [&[usize]; 5] = [&[], &[0, 3], &[5], &[2, 3], &[2, 1, 300]];
    for dtype in Dtype::ALL {
        for shape in shapes {
            let info = TensorInfo::new(dtype, shape);
            let count = info.elements().unwrap_or_default();
            let numbers =
                (0..count).map(|number| if dtype == Dtype::Bool { number % 2 } else { number % 3 });
            let data: Vec<u8> = if dtype.is_float() {
                let values: Vec<f32> = numbers.map(|number| number as f32).collect();
                Tensor::from_f32(shape, &values)?.to_float(dtype)?.data().to_vec()
            } else {
                numbers.flat_map(|number| number.to_le_bytes()[..dtype.size()].to_vec()).collect()
            };
            tensors.insert(format!("{dtype}.{}", shape.len() + count), Tensor::new(info, data)?);
        }
    }
    Ok(tensors)
}

fn weights(folder: &Path) -> Outcome<()> {
    let tensors = tensors()?;
    let infos = || tensors.iter().map(|(name, tensor)| (name.clone(), tensor.info().clone()));
    let mut pth = PthWriter::new(File::create(folder.join("model.pth"))?, infos().collect())?;
    for name in pth.order() {
        pth.write(&tensors[&name])?;
    }
    pth.finish()?;
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    let file = File::create(folder.join("model.safetensors"))?;
    let mut safetensors = SafetensorsWriter::new(file, infos().collect(), &metadata)?;
    for name in safetensors.order() {
        safetensors.write(&tensors[&name])?;
    }
    safetensors.finish()?;
    Ok(())
}
