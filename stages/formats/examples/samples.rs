//! Writes one file of each format into a folder, for `fixtures/check_samples.py` to read with the
//! libraries of the original projects.
// An example may access files directly.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::Path;

use stage_formats::npy::{self, IntArray, Width};
use stage_formats::picture::Picture;
use stage_formats::pth::PthWriter;
use stage_formats::safetensors::SafetensorsWriter;
use stage_formats::tensorboard::{Audio, EventWriter, Moment, file_name};
use stage_formats::{Dtype, Tensor, TensorInfo};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).ok_or("name a folder")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    weights(folder)?;
    tokens(folder)?;
    events(folder)
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

/// Codebook `c` has the token `c * 1000 + t` at frame `t`.
fn tokens(folder: &Path) -> Outcome<()> {
    let values = (0..10).flat_map(|row| (0..7).map(move |frame| row * 1000 + frame)).collect();
    let array = IntArray { shape: vec![10, 7], values };
    for (name, width) in [("i64", Width::I64), ("i32", Width::I32), ("u16", Width::U16)] {
        std::fs::write(folder.join(format!("{name}.npy")), npy::write(&array, width)?)?;
    }
    Ok(())
}

/// A loss of `1 / (1 + step)`, one clip, one picture and one text.
fn events(folder: &Path) -> Outcome<()> {
    let folder = folder.join("events");
    std::fs::create_dir_all(&folder)?;
    let file = File::create(folder.join(file_name(1_700_000_000, "throstle")))?;
    let mut writer = EventWriter::new(file, 1_700_000_000.0)?;
    for step in 0..5u64 {
        let at = Moment { step, seconds: 1_700_000_000.0 + step as f64 };
        writer.scalars(at, [("train/loss", 1.0 / (1.0 + step as f64)), ("rate", 1e-4)])?;
    }
    let at = Moment { step: 4, seconds: 1_700_000_005.0 };
    let audio = Audio { rate: 44_100, channels: 1, frames: 0, wav: b"RIFF\x04\0\0\0WAVE" };
    writer.audio(at, "sample", audio)?;
    // A black line below a white one.
    writer.image(at, "picture", Picture::draw(2, &[0, 0, 255, 255])?.image())?;
    writer.text(Moment { step: 0, ..at }, "parameters", "| päivä |")?;
    writer.finish()?;
    Ok(())
}
