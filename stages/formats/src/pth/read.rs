//! The reader. Nothing in a pickle is run: calls that PyTorch would make for a tensor are
//! recognised by name and arguments, and everything else is ignored.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};

use bytes::Bytes;
use cache::fs::Fs;
use camino::Utf8Path;
use serde_json::Value;

use super::FORMAT;
use super::settings::settings;
use super::view::{MAX_DIMENSIONS, View};
use crate::error::FormatError;
use crate::parts::{Parts, WINDOW};
use crate::pickle::{Node, NodeId, Pickle};
use crate::tensor::{Dtype, Tensor, TensorInfo};
use crate::zip::Archive;

/// The largest size of the pickle itself; that of a model with thousands of tensors has a few
/// megabytes.
const MAX_PICKLE: usize = 32 << 20;
/// The largest nesting of dictionaries and lists.
const MAX_DEPTH: usize = 32;
const MAX_TENSORS: usize = 1 << 18;
/// The largest number of visited values, counting repeated references.
const MAX_VISITS: usize = 1 << 20;
/// The largest size of all names together, in bytes.
const MAX_NAMES: usize = 64 << 20;
/// The largest ratio of all tensors together to the file, if entries are compressed or shared.
const MAX_GROWTH: usize = 16;
/// The folder of the archive, and the name of a storage.
const MAX_ENTRY_NAME: usize = 256;
const ALWAYS_ALLOWED: usize = 64 << 20;

/// Enough bytes to recognise all forms.
const HEAD: usize = 512;
/// The first bytes of files that `torch.save` wrote before it made zip archives.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";

/// A file; only the descriptions of its tensors have been read.
#[derive(Clone, Debug)]
pub struct PthFile {
    archive: Archive,
    tensors: BTreeMap<String, View>,
    settings: Value,
}

impl PthFile {
    /// Maps a file, which must not change meanwhile.
    pub fn open(fs: &dyn Fs, path: &Utf8Path) -> Result<PthFile, FormatError> {
        PthFile::read(fs.map(path)?)
    }

    /// Reads the directory and the pickle. No more of a file in parts is read, and of an invalid
    /// file only its ends.
    pub fn read(parts: impl Into<Parts>) -> Result<PthFile, FormatError> {
        let parts = parts.into();
        refuse_other_forms(&parts.up_to(FORMAT, 0, HEAD)?)?;
        let archive = Archive::read(parts)?;
        let folder = folder(&archive)?;
        refuse_other_orders(&archive, &folder)?;
        let pickle = pickle(&archive, &format!("{folder}data.pkl"))?;
        let mut walk = TensorWalk::new(&archive, &folder, &pickle);
        walk.value(pickle.root_id(), &mut String::new(), 0)?;
        if walk.tensors.is_empty() {
            Err(FormatError::damaged(FORMAT, "it has no dictionary with tensors"))
        } else {
            Ok(PthFile { settings: settings(&pickle), tensors: walk.tensors, archive })
        }
    }

    /// Names with types and shapes, sorted by name. Names of nested dictionaries are joined by
    /// dots.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = (&str, &TensorInfo)> {
        self.tensors.iter().map(|(name, view)| (name.as_str(), &view.info))
    }

    /// The settings that Lightning saved in a checkpoint, as JSON; null without any.
    pub fn settings(&self) -> &Value {
        &self.settings
    }

    /// One tensor; a view of the file if the file is in memory and the tensor's storage is neither
    /// compressed nor out of order.
    pub fn tensor(&self, name: &str) -> Result<Tensor, FormatError> {
        let view = self.tensors.get(name).ok_or_else(|| FormatError::Missing {
            name: name.to_owned(),
            hint: " in the PyTorch file".to_owned(),
        })?;
        view.check(name, self.archive.size(&view.entry).unwrap_or(0))?;
        let extent = view.extent();
        let elements = if extent.is_empty() {
            Bytes::new()
        } else {
            self.archive.part(&view.entry, extent.start, extent.len())?
        };
        view.tensor(&elements)
    }
}

fn limit(archive: &Archive) -> usize {
    archive.file_size().saturating_mul(MAX_GROWTH).saturating_add(ALWAYS_ALLOWED)
}

/// Memory use follows from the content of the pickle, not from its length.
fn pickle(archive: &Archive, entry: &str) -> Result<Pickle, FormatError> {
    let mut reader = BufReader::with_capacity(WINDOW, archive.reader(entry, MAX_PICKLE)?);
    let pickle = Pickle::read_from(&mut reader)?;
    if archive.is_packed(entry) {
        // Reads to the end, which verifies the size in the directory.
        let failed = |source| FormatError::Read { format: FORMAT, source };
        io::copy(&mut reader, &mut io::sink()).map_err(failed)?;
    }
    Ok(pickle)
}

fn refuse_other_orders(archive: &Archive, folder: &str) -> Result<(), FormatError> {
    const ORDERS: usize = 16;
    let Ok(reader) = archive.reader(&format!("{folder}byteorder"), ORDERS) else { return Ok(()) };
    let mut order = Vec::new();
    let failed = |source| FormatError::Read { format: FORMAT, source };
    reader.take(ORDERS as u64).read_to_end(&mut order).map_err(failed)?;
    if order == b"little" {
        return Ok(());
    }
    let order = String::from_utf8_lossy(&order).into_owned();
    let message = format!("its numbers are stored in the byte order `{order}`");
    Err(FormatError::damaged(FORMAT, message))
}

fn refuse_other_forms(bytes: &[u8]) -> Result<(), FormatError> {
    let form = if bytes.starts_with(LEGACY) {
        "the form that PyTorch wrote before version 1.6"
    } else if bytes.get(257..262) == Some(b"ustar") {
        "the tar form of the first PyTorch versions"
    } else if bytes.starts_with(&[0x80]) {
        "a bare pickle"
    } else {
        return Ok(());
    };
    let message = format!(
        "the file is {form}, which is not supported; if you trust it, load it in Python and save \
         it again with a current `torch.save`"
    );
    Err(FormatError::Unsupported { message })
}

/// The folder of all entries, with its slash.
fn folder(archive: &Archive) -> Result<String, FormatError> {
    let mut pickles = archive.names().filter_map(|name| {
        let folder = name.strip_suffix("data.pkl")?;
        let is_top = folder.is_empty() || folder.find('/') == Some(folder.len() - 1);
        (is_top && folder.len() <= MAX_ENTRY_NAME).then(|| folder.to_owned())
    });
    match (pickles.next(), pickles.next()) {
        (Some(folder), None) => Ok(folder),
        (None, _) => Err(FormatError::damaged(FORMAT, "the archive has no `data.pkl`")),
        _ => Err(FormatError::damaged(FORMAT, "the archive has several `data.pkl`")),
    }
}

/// Walks dictionaries and lists and collects the tensors, within bounds: the graph may refer to one
/// dictionary many times, and to itself.
struct TensorWalk<'a> {
    archive: &'a Archive,
    folder: &'a str,
    pickle: &'a Pickle,
    tensors: BTreeMap<String, View>,
    visits: usize,
    names: usize,
    bytes: usize,
}

impl<'a> TensorWalk<'a> {
    fn new(archive: &'a Archive, folder: &'a str, pickle: &'a Pickle) -> TensorWalk<'a> {
        let (visits, names, bytes) = (0, 0, 0);
        TensorWalk { archive, folder, pickle, tensors: BTreeMap::new(), visits, names, bytes }
    }

    fn value(&mut self, id: NodeId, name: &mut String, depth: usize) -> Result<(), FormatError> {
        self.visits += 1;
        if depth > MAX_DEPTH || self.visits > MAX_VISITS {
            let message = "its dictionaries are nested too deeply or too often";
            return Err(FormatError::too_much(FORMAT, message));
        }
        match self.pickle.node(id) {
            Node::Dict(pairs) => {
                for (key, value) in pairs {
                    let key = match self.pickle.node(*key) {
                        Node::Text(key) => key.clone(),
                        Node::Int(key) => key.to_string(),
                        _ => continue,
                    };
                    self.member(&key, *value, name, depth)?;
                }
                Ok(())
            }
            Node::List(items) | Node::Tuple(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.member(&at.to_string(), *item, name, depth)?;
                }
                Ok(())
            }
            Node::Call { callee, arguments, .. } => match tensor_call(self.pickle, *callee) {
                Some(call) => self.tensor_of(call, *arguments, name, depth),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn member(
        &mut self,
        key: &str,
        value: NodeId,
        name: &mut String,
        depth: usize,
    ) -> Result<(), FormatError> {
        self.names = self.names.saturating_add(name.len() + key.len());
        if self.names > MAX_NAMES {
            return Err(FormatError::too_much(FORMAT, "its names are too long"));
        }
        let before = name.len();
        if before > 0 {
            name.push('.');
        }
        name.push_str(key);
        let result = self.value(value, name, depth + 1);
        name.truncate(before);
        result
    }

    fn tensor_of(
        &mut self,
        call: TensorCall,
        arguments: NodeId,
        name: &mut String,
        depth: usize,
    ) -> Result<(), FormatError> {
        let pickle = self.pickle;
        let arguments = pickle.tuple(arguments).unwrap_or_default();
        if let (TensorCall::Parameter, [data, ..]) = (call, arguments) {
            return self.value(*data, name, depth + 1);
        }
        let wrong = || FormatError::tensor(name, "its description is not from PyTorch");
        let (view, storage) = view(pickle, self.folder, call, arguments).ok_or_else(wrong)??;
        let stored = self.archive.size(&view.entry).unwrap_or(0);
        let bytes = view.check(name, storage.min(stored))?;
        let cost = if self.archive.is_packed(&view.entry) { stored.max(bytes) } else { bytes };
        self.bytes = self.bytes.saturating_add(cost);
        if self.bytes > limit(self.archive) || self.tensors.len() >= MAX_TENSORS {
            return Err(FormatError::too_much(FORMAT, "its tensors are far larger than the file"));
        }
        // Of repeated keys the last one counts, as in Python.
        self.tensors.insert(name.clone(), view);
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum TensorCall {
    /// Storage, offset, shape, strides.
    Typed,
    /// The same; the element type is the seventh argument.
    Untyped,
    /// A tensor as the first argument.
    Parameter,
}

fn tensor_call(pickle: &Pickle, callee: NodeId) -> Option<TensorCall> {
    match pickle.global(callee)? {
        ("torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor") => Some(TensorCall::Typed),
        ("torch._utils", "_rebuild_tensor_v3") => Some(TensorCall::Untyped),
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
            Some(TensorCall::Parameter)
        }
        _ => None,
    }
}

/// The view that a call describes, and the expected size of its storage in bytes; None if the
/// arguments have another form.
fn view(
    pickle: &Pickle,
    folder: &str,
    call: TensorCall,
    arguments: &[NodeId],
) -> Option<Result<(View, usize), FormatError>> {
    let [storage, offset, shape, strides, ..] = *arguments else { return None };
    let Node::Persistent(storage) = pickle.node(storage) else { return None };
    let [tag, class, key, _location, count, ..] = *pickle.tuple(*storage)? else { return None };
    if pickle.text(tag) != Some("storage") {
        return None;
    }
    let type_name = match call {
        TensorCall::Untyped => pickle.global(*arguments.get(6)?)?.1,
        _ => pickle.global(class)?.1,
    };
    let Some(dtype) = dtype_of(type_name) else {
        let message = format!("elements of `{type_name}` are not supported");
        return Some(Err(FormatError::Unsupported { message }));
    };
    let width = match call {
        TensorCall::Untyped => 1,
        _ => dtype.size(),
    };
    let key = pickle.text(key).filter(|key| key.len() <= MAX_ENTRY_NAME)?;
    let entry = format!("{folder}data/{key}");
    let (shape, strides) = (pickle.sizes(shape)?, pickle.sizes(strides)?);
    if shape.len() > MAX_DIMENSIONS {
        return None;
    }
    let info = TensorInfo::new(dtype, shape);
    let view = View { info, entry, offset: pickle.size(offset)?, strides };
    Some(Ok((view, pickle.size(count)?.checked_mul(width)?)))
}

/// By the name of the storage class, or of the type itself.
fn dtype_of(name: &str) -> Option<Dtype> {
    Some(match name {
        "DoubleStorage" | "float64" => Dtype::F64,
        "FloatStorage" | "float32" => Dtype::F32,
        "HalfStorage" | "float16" => Dtype::F16,
        "BFloat16Storage" | "bfloat16" => Dtype::Bf16,
        "LongStorage" | "int64" => Dtype::I64,
        "IntStorage" | "int32" => Dtype::I32,
        "ShortStorage" | "int16" => Dtype::I16,
        "CharStorage" | "int8" => Dtype::I8,
        "ByteStorage" | "uint8" => Dtype::U8,
        "BoolStorage" | "bool" => Dtype::Bool,
        "uint16" => Dtype::U16,
        _ => return None,
    })
}
