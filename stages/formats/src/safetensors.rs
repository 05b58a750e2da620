//! Files in the safetensors format: a reader for the header and then one tensor at a time, as a
//! view if the file is in memory, and a writer for one tensor at a time.

mod header;

use std::collections::BTreeMap;
use std::io::Write;

use cache::fs::Fs;
use camino::Utf8Path;
use serde_json::{Map, Value, json};

use crate::announced::AnnouncedTensors;
use crate::error::FormatError;
use crate::parts::Parts;
use crate::tensor::{Dtype, Tensor, TensorInfo};

const FORMAT: &str = "safetensors";
/// The alignment of the data.
const ALIGNMENT: usize = 8;
/// The key of the header that is not a tensor.
const METADATA: &str = "__metadata__";

/// A file; only its header has been read.
#[derive(Clone, Debug)]
pub struct SafetensorsFile {
    parts: Parts,
    tensors: BTreeMap<String, (TensorInfo, usize)>,
    metadata: BTreeMap<String, String>,
}

impl SafetensorsFile {
    /// Maps a file, which must not change meanwhile.
    pub fn open(fs: &dyn Fs, path: &Utf8Path) -> Result<SafetensorsFile, FormatError> {
        SafetensorsFile::read(fs.map(path)?)
    }

    pub fn read(parts: impl Into<Parts>) -> Result<SafetensorsFile, FormatError> {
        let parts = parts.into();
        let header::Header { tensors, metadata } = header::read(&parts)?;
        Ok(SafetensorsFile { parts, tensors, metadata })
    }

    /// Names with types and shapes, sorted by name.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = (&str, &TensorInfo)> {
        self.tensors.iter().map(|(name, (info, _))| (name.as_str(), info))
    }

    /// The metadata of the file.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// A view of the file if it is in memory.
    pub fn tensor(&self, name: &str) -> Result<Tensor, FormatError> {
        let (info, start) = self.tensors.get(name).ok_or_else(|| FormatError::Missing {
            name: name.to_owned(),
            hint: " in the safetensors file".to_owned(),
        })?;
        // The header has been checked: the bytes are there.
        let bytes = self.parts.up_to(FORMAT, *start, info.bytes().unwrap_or_default())?;
        Tensor::new(info.clone(), bytes)
    }
}

/// A complete file of a few tensors, in memory. The same tensors give the same bytes.
pub fn write<'a>(
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<Vec<u8>, FormatError> {
    let tensors: BTreeMap<&str, &Tensor> = tensors.into_iter().collect();
    let infos = tensors.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.info().clone()));
    let mut writer = SafetensorsWriter::new(Vec::new(), infos.collect(), &BTreeMap::new())?;
    for name in writer.order() {
        writer.write(tensors[name.as_str()])?;
    }
    writer.finish()
}

/// A file with one tensor of zeros, to be filled from the returned place on.
pub fn room(name: &str, info: TensorInfo) -> Result<(Vec<u8>, usize), FormatError> {
    let length = info.bytes().ok_or_else(|| FormatError::tensor(name, "it is too large"))?;
    let tensors = BTreeMap::from([(name.to_owned(), info)]);
    let header = SafetensorsWriter::new(Vec::new(), tensors, &BTreeMap::new())?.sink;
    let mut file = vec![0; header.len() + length];
    file[..header.len()].copy_from_slice(&header);
    Ok((file, header.len()))
}

/// Writes a file tensor by tensor, in the order of [`Self::order`].
#[derive(Debug)]
pub struct SafetensorsWriter<W> {
    sink: W,
    tensors: AnnouncedTensors,
}

impl<W: Write> SafetensorsWriter<W> {
    /// Writes the header. Larger elements come first, so that all are aligned.
    pub fn new(
        mut sink: W,
        tensors: BTreeMap<String, TensorInfo>,
        metadata: &BTreeMap<String, String>,
    ) -> Result<SafetensorsWriter<W>, FormatError> {
        let mut tensors: Vec<(String, TensorInfo)> = tensors.into_iter().collect();
        tensors.sort_by_key(|(_, info)| std::cmp::Reverse(info.dtype.size()));
        let header = header_of(&tensors, metadata)?;
        put(&mut sink, &(header.len() as u64).to_le_bytes())?;
        put(&mut sink, &header)?;
        Ok(SafetensorsWriter { sink, tensors: AnnouncedTensors::new(FORMAT, tensors) })
    }

    pub fn order(&self) -> Vec<String> {
        self.tensors.names()
    }

    /// Writes the next tensor of the order.
    pub fn write(&mut self, tensor: &Tensor) -> Result<(), FormatError> {
        self.tensors.expect(tensor)?;
        put(&mut self.sink, tensor.data())
    }

    /// Returns the sink; an error if tensors are missing.
    pub fn finish(self) -> Result<W, FormatError> {
        self.tensors.finish()?;
        Ok(self.sink)
    }
}

fn put(sink: &mut impl Write, bytes: &[u8]) -> Result<(), FormatError> {
    sink.write_all(bytes).map_err(|source| FormatError::Write { format: FORMAT, source })
}

fn header_of(
    tensors: &[(String, TensorInfo)],
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, FormatError> {
    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert(METADATA.to_owned(), json!(metadata));
    }
    let mut start = 0usize;
    for (name, info) in tensors {
        let end = info.bytes().and_then(|length| start.checked_add(length));
        let end = end.ok_or_else(|| FormatError::tensor(name, "it is too large"))?;
        if name == METADATA {
            return Err(FormatError::tensor(name, "this name is reserved by the format"));
        }
        let entry: Value = json!({
            "dtype": stored_name(info.dtype),
            "shape": info.shape,
            "data_offsets": [start, end],
        });
        header.insert(name.clone(), entry);
        start = end;
    }
    // Texts and numbers can always be written as JSON.
    let mut header = serde_json::to_vec(&header).unwrap_or_default();
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    Ok(header)
}

fn stored_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F64 => "F64",
        Dtype::F32 => "F32",
        Dtype::F16 => "F16",
        Dtype::Bf16 => "BF16",
        Dtype::I64 => "I64",
        Dtype::I32 => "I32",
        Dtype::I16 => "I16",
        Dtype::I8 => "I8",
        Dtype::U16 => "U16",
        Dtype::U8 => "U8",
        Dtype::Bool => "BOOL",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use proptest::prelude::*;
    use safetensors::tensor::SafeTensors;

    use super::*;

    fn tensor(dtype: Dtype, shape: &[usize], fill: u8) -> Tensor {
        let info = TensorInfo::new(dtype, shape);
        let data = vec![fill; info.bytes().unwrap()];
        Tensor::new(info, data).unwrap()
    }

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn tensors_of_every_type_come_back_and_lie_aligned() {
        let tensors: Vec<(String, Tensor)> = Dtype::ALL
            .into_iter()
            .enumerate()
            .map(|(at, dtype)| (format!("a.{dtype}"), tensor(dtype, &[3, 1, at], at as u8)))
            .collect();
        let bytes = write(tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
        let file = SafetensorsFile::read(bytes).unwrap();
        assert_eq!(file.tensors().len(), tensors.len());
        for (name, tensor) in &tensors {
            assert_eq!(&file.tensor(name).unwrap(), tensor);
            assert_eq!(file.tensors[name].1 % tensor.dtype().size(), 0, "{name}");
        }
    }

    #[test]
    fn the_library_of_the_format_reads_what_is_written() {
        let one = tensor(Dtype::Bf16, &[2, 2], 7);
        let bytes = write([("one", &one)]).unwrap();
        let read = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(read.tensor("one").unwrap().data(), &one.data()[..]);
    }

    #[test]
    fn the_same_tensors_give_the_same_bytes_in_any_order() {
        let (a, b) = (tensor(Dtype::F32, &[2], 1), tensor(Dtype::I64, &[1], 2));
        assert_eq!(write([("a", &a), ("b", &b)]).unwrap(), write([("b", &b), ("a", &a)]).unwrap());
    }

    #[test]
    fn a_tensor_of_a_mapped_file_is_a_view() {
        let bytes = Bytes::from(write([("a", &tensor(Dtype::U8, &[64], 9))]).unwrap());
        let range = bytes.as_ptr_range();
        let file = SafetensorsFile::read(bytes.clone()).unwrap();
        assert!(range.contains(&file.tensor("a").unwrap().data().as_ptr()));
    }

    #[test]
    fn what_was_not_announced_is_not_written() {
        let infos = [("a".to_owned(), TensorInfo::new(Dtype::F32, [2]))];
        let new = || SafetensorsWriter::new(Vec::new(), infos.clone().into(), &BTreeMap::new());
        let mut writer = new().unwrap();
        assert!(writer.write(&tensor(Dtype::F32, &[3], 0)).is_err());
        writer.write(&tensor(Dtype::F32, &[2], 0)).unwrap();
        assert!(writer.write(&tensor(Dtype::F32, &[2], 0)).is_err());
        assert_eq!(
            new().unwrap().finish().unwrap_err().to_string(),
            "the safetensors file cannot be written: `a` was declared but not written"
        );
    }

    #[test]
    fn headers_that_lie_are_refused() {
        for header in [
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#,
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#,
            r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} x"#,
            &format!("{}{}", r#"{"a":"#.repeat(5000), "}".repeat(5000)),
            "[]",
            "",
        ] {
            assert!(SafetensorsFile::read(file(header, &[0; 8])).is_err(), "{header:.60}");
        }
        let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
        assert!(SafetensorsFile::read(huge).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_give_tensors_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..64), place in 0usize..120, byte: u8,
        ) {
            let _ = SafetensorsFile::read(bytes);
            let (a, b) = (tensor(Dtype::F32, &[2, 3], 1), tensor(Dtype::Bool, &[5], 1));
            let mut damaged = write([("a", &a), ("b", &b)]).unwrap();
            damaged[place] = byte;
            let known = SafeTensors::deserialize(&damaged).ok();
            if let Ok(file) = SafetensorsFile::read(damaged.clone()) {
                // Everything that the reference library refuses is refused here.
                let known = known.unwrap();
                for (name, _) in file.tensors() {
                    let tensor = file.tensor(name).unwrap();
                    prop_assert_eq!(&tensor.data()[..], known.tensor(name).unwrap().data());
                }
            }
        }
    }
}
