//! The writer: a flat dictionary of contiguous tensors that `torch.load(weights_only=True)` reads,
//! one tensor at a time. The dictionary may be nested in another one under a key, and a tensor
//! without a name is written without any dictionary. The same tensors give the same bytes.

use std::collections::BTreeMap;
use std::io::Write;

use super::FORMAT;
use crate::announced::AnnouncedTensors;
use crate::error::FormatError;
use crate::tensor::{Dtype, Tensor, TensorInfo};

/// The folder in the archive. PyTorch accepts any name.
const FOLDER: &str = "archive";
/// The alignment of storages, so that they can be mapped.
const ALIGNMENT: u64 = 64;
/// The extra field that PyTorch pads with.
const EXTRA_PADDING: [u8; 2] = *b"FB";
const EXTRA_64: [u8; 2] = [1, 0];
/// 1 January 1980: the time of writing is not part of a model.
const DATE: u16 = 0x0021;
const NARROW: u64 = u32::MAX as u64;

/// Writes a file tensor by tensor, in the order of [`Self::order`].
#[derive(Debug)]
pub struct PthWriter<W> {
    zip: ZipWriter<W>,
    tensors: AnnouncedTensors,
}

impl<W: Write> PthWriter<W> {
    /// Writes the pickle, which describes all tensors.
    pub fn new(
        sink: W,
        tensors: BTreeMap<String, TensorInfo>,
    ) -> Result<PthWriter<W>, FormatError> {
        PthWriter::under(sink, tensors, None)
    }

    /// The same with the dictionary under a key of another one.
    pub fn under(
        sink: W,
        tensors: BTreeMap<String, TensorInfo>,
        key: Option<&str>,
    ) -> Result<PthWriter<W>, FormatError> {
        let tensors: Vec<(String, TensorInfo)> = tensors.into_iter().collect();
        let mut zip = ZipWriter { sink, offset: 0, directory: Vec::new(), entries: 0 };
        zip.entry(&format!("{FOLDER}/data.pkl"), &pickle(&tensors, key)?)?;
        zip.entry(&format!("{FOLDER}/byteorder"), b"little")?;
        Ok(PthWriter { zip, tensors: AnnouncedTensors::new(FORMAT, tensors) })
    }

    pub fn order(&self) -> Vec<String> {
        self.tensors.names()
    }

    /// Writes the next tensor of the order.
    pub fn write(&mut self, tensor: &Tensor) -> Result<(), FormatError> {
        let number = self.tensors.expect(tensor)?;
        self.zip.entry(&format!("{FOLDER}/data/{number}"), tensor.data())
    }

    /// Returns the sink; an error if tensors are missing.
    pub fn finish(mut self) -> Result<W, FormatError> {
        self.tensors.finish()?;
        self.zip.entry(&format!("{FOLDER}/version"), b"3\n")?;
        self.zip.finish()
    }
}

/// A program for the stack machine that makes the dictionary, or the only tensor if it has no name.
fn pickle(tensors: &[(String, TensorInfo)], key: Option<&str>) -> Result<Vec<u8>, FormatError> {
    let mut program = vec![0x80, 2];
    if let [(name, info)] = tensors
        && name.is_empty()
    {
        tensor(&mut program, 0, name, info)?;
        program.push(b'.');
        return Ok(program);
    }
    if let Some(key) = key {
        program.extend(b"}(");
        text(&mut program, key)?;
    }
    program.extend(b"}(");
    for (number, (name, info)) in tensors.iter().enumerate() {
        text(&mut program, name)?;
        tensor(&mut program, number, name, info)?;
    }
    program.push(b'u');
    program.extend(if key.is_some() { &b"u."[..] } else { &b"."[..] });
    Ok(program)
}

/// The call that makes a tensor of the storage with this number.
fn tensor(
    program: &mut Vec<u8>,
    number: usize,
    name: &str,
    info: &TensorInfo,
) -> Result<(), FormatError> {
    let elements = info.bytes().and(info.elements());
    let elements = elements.ok_or_else(|| FormatError::tensor(name, "it is too large"))?;
    let (class, rebuild) = match info.dtype {
        // Types without a storage class of their own lie in untyped storages.
        Dtype::U16 => ("torch.storage\nUntypedStorage", "_rebuild_tensor_v3"),
        dtype => (storage_class(dtype), "_rebuild_tensor_v2"),
    };
    global(program, &format!("torch._utils\n{rebuild}"));
    program.extend(b"((");
    text(program, "storage")?;
    global(program, class);
    text(program, &number.to_string())?;
    text(program, "cpu")?;
    let count = if info.dtype == Dtype::U16 { elements * info.dtype.size() } else { elements };
    integer(program, count);
    program.extend(b"tQ");
    integer(program, 0);
    tuple(program, &info.shape);
    tuple(program, &strides(&info.shape));
    // No gradient required, and no hooks.
    program.push(0x89);
    global(program, "collections\nOrderedDict");
    program.extend(b")R");
    if info.dtype == Dtype::U16 {
        global(program, "torch\nuint16");
    }
    program.extend(b"tR");
    Ok(())
}

fn text(program: &mut Vec<u8>, text: &str) -> Result<(), FormatError> {
    let length = u32::try_from(text.len())
        .map_err(|_| FormatError::unwritable(FORMAT, "a name is too long"))?;
    program.push(b'X');
    program.extend(length.to_le_bytes());
    program.extend(text.as_bytes());
    Ok(())
}

/// Module and name, with a line end between them.
fn global(program: &mut Vec<u8>, name: &str) {
    program.push(b'c');
    program.extend(name.as_bytes());
    program.push(b'\n');
}

fn integer(program: &mut Vec<u8>, number: usize) {
    match i32::try_from(number) {
        Ok(number) => {
            program.push(b'J');
            program.extend(number.to_le_bytes());
        }
        // Eight bytes of a number below 2^63 have the right sign.
        Err(_) => {
            program.extend([0x8a, 8]);
            program.extend((number as u64).to_le_bytes());
        }
    }
}

fn tuple(program: &mut Vec<u8>, numbers: &[usize]) {
    program.push(b'(');
    numbers.iter().for_each(|number| integer(program, *number));
    program.push(b't');
}

/// The strides of C order. A dimension without elements counts as one, as in PyTorch.
fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at] * shape[at].max(1);
    }
    strides
}

fn storage_class(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F64 => "torch\nDoubleStorage",
        Dtype::F32 => "torch\nFloatStorage",
        Dtype::F16 => "torch\nHalfStorage",
        Dtype::Bf16 => "torch\nBFloat16Storage",
        Dtype::I64 => "torch\nLongStorage",
        Dtype::I32 => "torch\nIntStorage",
        Dtype::I16 => "torch\nShortStorage",
        Dtype::I8 => "torch\nCharStorage",
        Dtype::U8 => "torch\nByteStorage",
        Dtype::Bool => "torch\nBoolStorage",
        Dtype::U16 => "torch.storage\nUntypedStorage",
    }
}

/// Stored entries with aligned contents, followed by the directory.
#[derive(Debug)]
struct ZipWriter<W> {
    sink: W,
    offset: u64,
    directory: Vec<u8>,
    entries: u64,
}

impl<W: Write> ZipWriter<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        self.sink
            .write_all(bytes)
            .map_err(|source| FormatError::Write { format: FORMAT, source })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn entry(&mut self, name: &str, content: &[u8]) -> Result<(), FormatError> {
        let size = content.len() as u64;
        let header = ZipHeader { name, size, crc: crc32fast::hash(content), at: self.offset };
        self.directory.extend(header.central());
        self.entries += 1;
        self.put(&header.local())?;
        self.put(content)
    }

    fn finish(mut self) -> Result<W, FormatError> {
        let (start, directory) = (self.offset, std::mem::take(&mut self.directory));
        self.put(&directory)?;
        let size = directory.len() as u64;
        let narrow = |number: u64| (number.min(NARROW) as u32).to_le_bytes();
        if start >= NARROW || size >= NARROW || self.entries >= u64::from(u16::MAX) {
            let record = self.offset;
            // Required versions of the format, disks, counts, size and start.
            let mut end = b"PK\x06\x06".to_vec();
            end.extend(44u64.to_le_bytes());
            end.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            end.extend([self.entries, self.entries, size, start].map(u64::to_le_bytes).concat());
            end.extend(b"PK\x06\x07\0\0\0\0");
            end.extend(record.to_le_bytes());
            end.extend(1u32.to_le_bytes());
            self.put(&end)?;
        }
        let count = (self.entries.min(u64::from(u16::MAX)) as u16).to_le_bytes();
        let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
        end.extend([count, count].concat());
        end.extend([narrow(size), narrow(start)].concat());
        // No comment.
        end.extend([0; 2]);
        self.put(&end)?;
        Ok(self.sink)
    }
}

struct ZipHeader<'a> {
    name: &'a str,
    size: u64,
    crc: u32,
    /// The offset of the local header.
    at: u64,
}

impl ZipHeader<'_> {
    /// The common part of both headers, from the required version to the sizes.
    fn common(&self, is_wide: bool) -> Vec<u8> {
        let version: u16 = if is_wide { 45 } else { 20 };
        let size = if self.size >= NARROW { u32::MAX } else { self.size as u32 };
        let mut bytes = Vec::new();
        // No flags, stored, midnight.
        for number in [version, 0, 0, 0, DATE] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [self.crc, size, size] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend((self.name.len() as u16).to_le_bytes());
        bytes
    }

    /// The header, and padding so that the content begins at a multiple of the alignment.
    fn local(&self) -> Vec<u8> {
        let mut extra = Vec::new();
        if self.size >= NARROW {
            extra.extend(EXTRA_64);
            extra.extend(16u16.to_le_bytes());
            extra.extend([self.size, self.size].map(u64::to_le_bytes).concat());
        }
        let unpadded = self.at + 30 + self.name.len() as u64 + extra.len() as u64 + 4;
        let padding = (unpadded.next_multiple_of(ALIGNMENT) - unpadded) as usize;
        extra.extend(EXTRA_PADDING);
        extra.extend((padding as u16).to_le_bytes());
        extra.resize(extra.len() + padding, 0);
        let mut bytes = b"PK\x03\x04".to_vec();
        bytes.extend(self.common(self.size >= NARROW));
        bytes.extend((extra.len() as u16).to_le_bytes());
        bytes.extend(self.name.as_bytes());
        bytes.extend(extra);
        bytes
    }

    fn central(&self) -> Vec<u8> {
        let mut wide = Vec::new();
        if self.size >= NARROW {
            wide.extend([self.size, self.size].map(u64::to_le_bytes).concat());
        }
        if self.at >= NARROW {
            wide.extend(self.at.to_le_bytes());
        }
        let mut extra = Vec::new();
        if !wide.is_empty() {
            extra.extend(EXTRA_64);
            extra.extend((wide.len() as u16).to_le_bytes());
            extra.extend(&wide);
        }
        let mut bytes = b"PK\x01\x02\x2d\0".to_vec();
        bytes.extend(self.common(!wide.is_empty()));
        bytes.extend((extra.len() as u16).to_le_bytes());
        // No comment, the first disk, no attributes.
        bytes.extend([0; 10]);
        bytes.extend((self.at.min(NARROW) as u32).to_le_bytes());
        bytes.extend(self.name.as_bytes());
        bytes.extend(extra);
        bytes
    }
}
