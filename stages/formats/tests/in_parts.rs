//! Weight files that are read in parts: the bytes that are read, and the equality of results.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use stage_core::FileParts;
use stage_formats::pth::PthWriter;
use stage_formats::safetensors::{self, SafetensorsFile};
use stage_formats::{Dtype, Parts, Tensor, TensorInfo, WeightFile};

/// More than the end record of any zip file, and than a reader takes at once.
const KILOBYTES: u64 = 128 << 10;

/// A file of zeros with bytes in a few places, which counts the bytes read.
struct Sparse {
    size: u64,
    pieces: Vec<(u64, Vec<u8>)>,
    read: AtomicU64,
}

impl Sparse {
    fn new(size: u64, pieces: &[(u64, &[u8])]) -> Arc<Sparse> {
        let pieces = pieces.iter().map(|(at, bytes)| (*at, bytes.to_vec())).collect();
        Arc::new(Sparse { size, pieces, read: AtomicU64::new(0) })
    }

    fn whole(bytes: &[u8]) -> Arc<Sparse> {
        Sparse::new(bytes.len() as u64, &[(0, bytes)])
    }

    fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl FileParts for Sparse {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = (buffer.len() as u64).min(self.size.saturating_sub(offset)) as usize;
        buffer[..length].fill(0);
        for (at, bytes) in &self.pieces {
            let start = offset.max(*at);
            let end = (offset + length as u64).min(at + bytes.len() as u64);
            if start < end {
                let piece = &bytes[(start - at) as usize..(end - at) as usize];
                buffer[(start - offset) as usize..(end - offset) as usize].copy_from_slice(piece);
            }
        }
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

fn open(file: &Arc<Sparse>) -> Result<WeightFile, String> {
    let parts: Arc<dyn FileParts> = file.clone();
    WeightFile::read(Parts::from(parts)).map_err(|error| error.to_string())
}

fn header_length(length: u64) -> [u8; 9] {
    let mut bytes = [b'{'; 9];
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    bytes
}

#[test]
fn a_file_that_is_none_is_refused_within_kilobytes() {
    const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";
    // The end record of a zip file: this number of entries from an offset on.
    let end = |count: u16, start: u32| {
        let (count, start) = (count.to_le_bytes(), start.to_le_bytes());
        [b"PK\x05\x06\0\0\0\0", &count[..], &count, &[0; 4], &start, &[0; 2]].concat()
    };
    let size = 10u64 << 30;
    let (lying, large) = (header_length(100 << 20), header_length(30 << 20));
    let (zeros, entries) = (end(60_000, 4096), end(3, 4096));
    for pieces in [
        &[][..],
        &[(0, &b"PK\x03\x04"[..])],
        &[(0, LEGACY)],
        &[(0, b"\x80\x04")],
        &[(257, b"ustar")],
        &[(0, &lying)],
        &[(0, &large)],
        &[(0, &header_length(u64::MAX))],
        // Directories without entries, and with entries outside the file.
        &[(0, b"PK\x03\x04"), (size - 22, &zeros)],
        &[(0, b"PK\x03\x04"), (4096, b"PK\x01\x02"), (size - 22, &entries)],
    ] {
        let file = Sparse::new(size, pieces);
        let refused = open(&file).unwrap_err();
        assert!(file.read() <= KILOBYTES, "{} bytes were read: {refused}", file.read());
    }
}

/// A pickle of 30 MB that is invalid from its first byte.
#[test]
fn a_pickle_that_is_none_is_refused_at_its_start() {
    let size = 30u32 << 20;
    let lengths = [size.to_le_bytes(), size.to_le_bytes()].concat();
    let name = b"a/data.pkl";
    let common = [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &lengths, &[10, 0, 0, 0]];
    let local = [b"PK\x03\x04", &common.concat()[..], name].concat();
    let central = [b"PK\x01\x02\x14\0", &common.concat()[..], &[0; 14], name].concat();
    let start = (local.len() as u32 + size).to_le_bytes();
    let end = [b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &[0; 4][..], &start, &[0; 2]].concat();
    let at = u64::from(u32::from_le_bytes(start));
    let tail = [&central[..], &end].concat();
    let file = Sparse::new(at + tail.len() as u64, &[(0, &local), (at, &tail)]);
    let refused = open(&file).unwrap_err();
    assert!(refused.contains("opcode"), "{refused}");
    assert!(file.read() <= 2 * KILOBYTES, "{} bytes were read", file.read());
}

fn tensors() -> BTreeMap<String, Tensor> {
    let tensor = |(name, elements, fill): (&str, usize, u8)| {
        let info = TensorInfo::new(Dtype::U8, [elements]);
        (name.to_owned(), Tensor::new(info, vec![fill; elements]).unwrap())
    };
    [("large", 3 << 20, 1), ("larger", 5 << 20, 2), ("small", 3, 3)].map(tensor).into()
}

fn files() -> [Vec<u8>; 2] {
    let tensors = tensors();
    let infos = tensors.iter().map(|(name, tensor)| (name.clone(), tensor.info().clone()));
    let mut writer = PthWriter::new(Vec::new(), infos.collect()).unwrap();
    for name in writer.order() {
        writer.write(&tensors[&name]).unwrap();
    }
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    [writer.finish().unwrap(), safetensors::write(named).unwrap()]
}

#[test]
fn of_a_valid_file_the_directory_is_read_and_then_the_tensor_that_is_asked_for() {
    for bytes in files() {
        let sparse = Sparse::whole(&bytes);
        let file = open(&sparse).unwrap();
        assert_eq!(file.tensors().len(), 3);
        assert!(sparse.read() <= KILOBYTES, "{} bytes for the directory", sparse.read());
        for (name, tensor) in tensors() {
            let before = sparse.read();
            assert_eq!(file.tensor(&name).unwrap(), tensor);
            let read = sparse.read() - before;
            assert!(read <= tensor.data().len() as u64 + 1024, "`{name}`: {read} bytes");
        }
    }
}

#[test]
fn a_view_of_a_large_storage_reads_its_own_part() {
    // Two tensors of one storage of two megabytes, which PyTorch wrote as one entry.
    let description = |name: &str, offset: u32| {
        let text =
            |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
        [
            text(name),
            b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
            text("storage"),
            b"ctorch\nByteStorage\n".to_vec(),
            text("0"),
            text("cpu"),
            b"J\0\0\x20\0tQJ".to_vec(),
            offset.to_le_bytes().to_vec(),
            b"(K\x02t(J\0\x10\0\0t\x89NtR".to_vec(),
        ]
        .concat()
    };
    let pickle =
        [b"\x80\x02}(".to_vec(), description("a", 0), description("b", 1 << 20), b"u.".to_vec()];
    let pickle = pickle.concat();
    let storage: Vec<u8> = (0..2u32 << 20).map(|at| (at >> 12) as u8).collect();
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in [("a/data.pkl", &pickle), ("a/data/0", &storage)] {
        let (size, at) = ((content.len() as u32).to_le_bytes(), (bytes.len() as u32).to_le_bytes());
        let name_length = (name.len() as u16).to_le_bytes();
        let common =
            [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &size, &size, &name_length, &[0; 2]];
        bytes.extend([b"PK\x03\x04", &common.concat()[..], name.as_bytes(), content].concat());
        directory.extend(
            [b"PK\x01\x02\x14\0", &common.concat()[..], &[0; 10], &at, name.as_bytes()].concat(),
        );
    }
    let start = (bytes.len() as u32).to_le_bytes();
    bytes.extend(directory);
    bytes.extend([b"PK\x05\x06\0\0\0\0\x02\0\x02\0", &[0; 4][..], &start, &[0; 2]].concat());
    let sparse = Sparse::whole(&bytes);
    let file = open(&sparse).unwrap();
    let before = sparse.read();
    assert_eq!(file.tensor("a").unwrap().data()[..], [0, 1]);
    // From the 256th page on, the storage repeats.
    assert_eq!(file.tensor("b").unwrap().data()[..], [0, 1]);
    assert!(sparse.read() - before <= 2 * (4097 + 1024), "{}", sparse.read() - before);
}

#[test]
fn a_header_of_many_small_values_is_bounded() {
    let shape = format!("[{}1]", "1,".repeat(1 << 20));
    let entry = format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[0,4]}}}}"#);
    let mut bytes = (entry.len() as u64).to_le_bytes().to_vec();
    bytes.extend(entry.into_bytes());
    bytes.extend([0; 4]);
    let sparse = Sparse::whole(&bytes);
    let refused = open(&sparse).unwrap_err();
    assert!(refused.contains("too many dimensions"), "{refused}");
    assert!(sparse.read() <= KILOBYTES, "{}", sparse.read());
}

/// The tensors of a file, or None if it has none.
fn all(parts: Parts) -> Option<BTreeMap<String, Option<Tensor>>> {
    let file = WeightFile::read(parts).ok()?;
    let tensors = file.tensors().into_keys();
    Some(tensors.map(|name| (name.to_owned(), file.tensor(name).ok())).collect())
}

const KNOWN: [&[u8]; 4] = [
    include_bytes!("fixtures/pth/types.pth"),
    include_bytes!("fixtures/pth/packed.pth"),
    include_bytes!("fixtures/pth/lightning_2.pth"),
    include_bytes!("fixtures/pth/legacy.pth"),
];

proptest! {
    /// Whole or in parts, valid or damaged, a file gives the same result.
    #[test]
    fn a_file_in_parts_is_the_file_in_memory(
        which in 0usize..5,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let small = Tensor::from_f32([2], &[1.0, 2.0]).unwrap();
        let mut bytes = match KNOWN.get(which) {
            Some(known) => known.to_vec(),
            None => safetensors::write([("a", &small), ("b", &small)]).unwrap(),
        };
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let parts: Arc<dyn FileParts> = Sparse::whole(&bytes);
        prop_assert_eq!(all(parts.into()), all(bytes.into()));
    }

    /// Any header, in the grammar of headers: tensors inside the file, or an error.
    #[test]
    fn any_header_gives_tensors_of_the_file_or_an_error(
        entries in proptest::collection::vec(
            (
                proptest::sample::select(&["a", "b\\nc", "__metadata__", "d"][..]),
                proptest::sample::select(&["F32", "BF16", "BOOL", "F8_E4M3", "X"][..]),
                proptest::collection::vec(0usize..4, 0..4),
                0usize..20,
                0usize..20,
            ),
            0..4,
        ),
        data in 0usize..40,
    ) {
        let entry = |(name, dtype, shape, start, end): &(&str, &str, Vec<usize>, usize, usize)| {
            format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#)
        };
        let header = format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","));
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.into_bytes());
        bytes.extend(vec![7; data]);
        if let Ok(file) = SafetensorsFile::read(bytes) {
            let held: usize = file.tensors().map(|(name, _)| file.tensor(name).unwrap().data().len()).sum();
            prop_assert_eq!(held, data);
        }
    }
}
