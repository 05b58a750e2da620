//! Malicious and broken files: each gives an error, or is read without running anything and without
//! using more memory than it has bytes.

use proptest::prelude::*;
use stage_formats::FormatError;
use stage_formats::pickle::{Node, Pickle};
use stage_formats::pth::PthFile;

use super::support::{Description, dictionary, int, pth, text, zip};

const TENSOR: &[u8] = include_bytes!("../fixtures/pth/types.pth");
const PACKED: &[u8] = include_bytes!("../fixtures/pth/packed.pth");
const LIGHTNING: &[u8] = include_bytes!("../fixtures/pth/lightning_2.pth");

fn message(bytes: Vec<u8>) -> String {
    PthFile::read(bytes).unwrap_err().to_string()
}

#[test]
fn the_plain_description_is_read() {
    let file = PthFile::read(Description::default().file()).unwrap();
    assert_eq!(file.tensor("x").unwrap().data()[..], [7; 16]);
}

#[test]
fn calls_are_written_down_and_not_made() {
    let canary = std::env::temp_dir().join(format!("throstle-canary-{}", std::process::id()));
    let command = format!("touch {}", canary.display());
    let tensor = Description::default().opcodes();
    for call in [
        [b"cos\nsystem\n".to_vec(), text(&command), b"\x85R".to_vec()].concat(),
        [b"cposix\nsystem\n".to_vec(), text(&command), b"\x85R".to_vec()].concat(),
        [b"cbuiltins\neval\n".to_vec(), text("1/0"), b"\x85R".to_vec()].concat(),
        [b"cbuiltins\nexec\n".to_vec(), text(&command), b"\x85R}b".to_vec()].concat(),
        [b"csubprocess\nPopen\n".to_vec(), text(&command), b"\x85\x81".to_vec()].concat(),
        [b"csubprocess\nPopen\n".to_vec(), text(&command), b"\x85}\x92".to_vec()].concat(),
        [text("os"), text("system"), b"\x93".to_vec(), text(&command), b"\x85R".to_vec()].concat(),
        [b"ctorch\nload\n".to_vec(), text(&command), b"\x85R".to_vec()].concat(),
        [b"ccollections\nOrderedDict\n".to_vec(), text(&command), b"\x85R".to_vec()].concat(),
    ] {
        let pickle = dictionary(&[(text("evil"), call), (text("x"), tensor.clone())]);
        let file = PthFile::read(pth(&pickle)).unwrap();
        assert_eq!(file.tensors().map(|(name, _)| name).collect::<Vec<_>>(), ["x"]);
    }
    assert!(!canary.exists());
}

#[test]
fn a_call_keeps_its_name_and_arguments() {
    let pickle = Pickle::read(b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.").unwrap();
    let Node::Call { callee, arguments, state } = pickle.root() else { panic!("no call") };
    assert_eq!(pickle.global(*callee), Some(("os", "system")));
    let arguments = pickle.tuple(*arguments).unwrap();
    assert_eq!((pickle.text(arguments[0]), state.len()), (Some("ls"), 0));
}

#[test]
fn imitations_of_tensor_calls_are_errors() {
    for opcodes in [
        &b"ctorch._utils\n_rebuild_tensor_v2\n)R"[..],
        b"ctorch._utils\n_rebuild_tensor_v2\n((tK\x01K\x02K\x03tR",
        b"ctorch._utils\n_rebuild_tensor_v2\nNR",
        b"ctorch._utils\n_rebuild_tensor_v3\n(NNNNNNNtR",
        b"ctorch._utils\n_rebuild_parameter\n)R",
    ] {
        assert!(PthFile::read(pth(&dictionary(&[(text("x"), opcodes.to_vec())]))).is_err());
    }
}

#[test]
fn views_outside_of_their_storage_are_refused() {
    let (offset, shape, strides) = (0, vec![4], vec![1]);
    let base = || Description {
        offset,
        shape: shape.clone(),
        strides: strides.clone(),
        ..Description::default()
    };
    for description in [
        Description { offset: 1, ..base() },
        Description { offset: -1, ..base() },
        Description { strides: vec![-1], ..base() },
        Description { strides: vec![2], ..base() },
        Description { strides: vec![i32::MAX], ..base() },
        Description { shape: vec![5], ..base() },
        Description { shape: vec![-4], ..base() },
        Description { shape: vec![2, 2], ..base() },
        Description { shape: vec![i32::MAX; 4], strides: vec![0; 4], ..base() },
        Description { shape: vec![i32::MAX; 2], strides: vec![0; 2], ..base() },
        Description { shape: vec![1; 4000], strides: vec![0; 4000], ..base() },
        // The pickle promises more than the entry has, or less than the view wants.
        Description { count: 1000, shape: vec![1000], ..base() },
        Description { count: 3, ..base() },
        Description { count: -1, ..base() },
        Description { class: "torch\nDoubleStorage", ..base() },
        Description { class: "torch\nComplexFloatStorage", ..base() },
        Description { key: "1", ..base() },
        Description { key: "../../etc/passwd", ..base() },
    ] {
        let strides = description.strides.first().copied();
        assert!(PthFile::read(description.file()).is_err(), "{strides:?} {}", description.key);
    }
}

#[test]
fn a_view_that_repeats_one_element_without_end_is_refused() {
    let description =
        Description { shape: vec![i32::MAX], strides: vec![0], ..Description::default() };
    let error = message(description.file());
    assert!(error.contains("it expands a storage of 16 bytes"), "{error}");
}

#[test]
fn many_names_for_one_view_that_repeats_are_too_much() {
    let description =
        Description { shape: vec![4 << 20], strides: vec![0], ..Description::default() };
    let pairs: Vec<_> =
        (0..100).map(|number| (text(&format!("x{number}")), description.opcodes())).collect();
    let error = PthFile::read(pth(&dictionary(&pairs))).unwrap_err();
    assert!(matches!(error, FormatError::TooMuch { .. }), "{error}");
}

/// Dictionaries that each hold the one before twice: two to the power of their number of names.
#[test]
fn doubling_dictionaries_are_too_much() {
    let mut pickle = b"\x80\x02}q\0".to_vec();
    for level in 0..30u8 {
        pickle.extend([b"}(", &text("a")[..], &[b'h', level], &text("b"), &[b'h', level]].concat());
        pickle.extend([b'u', b'q', level + 1]);
    }
    pickle.push(b'.');
    let error = PthFile::read(pth(&pickle)).unwrap_err();
    assert!(matches!(error, FormatError::TooMuch { .. }), "{error}");
}

#[test]
fn values_that_hold_themselves_are_too_much() {
    let own = [b"\x80\x02}q\0", &text("a")[..], b"h\0s."].concat();
    let list = b"\x80\x02]q\0h\0a.";
    for pickle in [&own[..], list] {
        let error = PthFile::read(pth(pickle)).unwrap_err();
        assert!(matches!(error, FormatError::TooMuch { .. }), "{error}");
    }
}

#[test]
fn nesting_without_end_is_too_much() {
    let deep = [b"\x80\x02".to_vec(), b"]".repeat(100_000), b"a".repeat(99_999), b".".to_vec()];
    assert!(PthFile::read(pth(&deep.concat())).is_err());
    let marks = [b"\x80\x02".to_vec(), b"(".repeat(1_000_000), b".".to_vec()].concat();
    assert!(matches!(Pickle::read(&marks), Err(FormatError::TooMuch { .. })));
    let values = [b"\x80\x02".to_vec(), b"]".repeat(5 << 20), b".".to_vec()].concat();
    assert!(matches!(Pickle::read(&values), Err(FormatError::TooMuch { .. })));
}

#[test]
fn lengths_beyond_the_file_are_errors() {
    for opcodes in [
        &b"X\xff\xff\xff\xff"[..],
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"B\xff\xff\xff\xff",
        b"\x8b\xff\xff\xff\xff",
        b"T\xff\xff\xff\xff",
        b"\x95\xff",
    ] {
        assert!(Pickle::read(&[b"\x80\x02", opcodes, b"."].concat()).is_err());
    }
}

#[test]
fn broken_programs_are_errors() {
    for program in [
        &b""[..],
        b".",
        b"\x80\x02.",
        b"\x80\x01N.",
        b"\x80\x09N.",
        b"\x80\x02N",
        b"\x80\x020.",
        b"\x80\x02t.",
        b"\x80\x02e.",
        b"\x80\x02h\0.",
        b"\x80\x02j\xff\xff\xff\xff.",
        b"\x80\x02q\0.",
        b"\x80\x02R.",
        b"\x80\x02NR.",
        b"\x80\x02b.",
        b"\x80\x02Q.",
        b"\x80\x02\x93.",
        b"\x80\x02NN\x93.",
        b"\x80\x02cos\n",
        b"\x80\x02c\xff\nx\n.",
        b"\x80\x02}Ns.",
        b"\x80\x02}(NNNu.",
        b"\x80\x02NNNs.",
        b"\x80\x02NNa.",
        // A mark protects the values below it.
        b"\x80\x02NN(\x86.",
        b"\x80\x02](0.",
        // Extension codes, buffers, and opcodes of protocols 0 and 1 only.
        b"\x80\x02\x82\x01.",
        b"\x80\x05\x97.",
        b"\x80\x02I5\n.",
        b"\x80\x02(ios\nsystem\n.",
        b"\x80\x02Pname\n.",
    ] {
        assert!(Pickle::read(program).is_err(), "{program:?}");
    }
}

#[test]
fn integers_of_any_width_are_right() {
    for (opcodes, expected) in [
        (&b"\x8a\x00"[..], Node::Int(0)),
        (b"\x8a\x01\xff", Node::Int(-1)),
        (b"\x8a\x02\xff\x00", Node::Int(255)),
        (b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\x00", Node::Int(i64::MAX)),
        (b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", Node::Huge),
        (b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01", Node::Huge),
        (b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\xff", Node::Int(i64::MIN)),
        (b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff", Node::Huge),
    ] {
        let pickle = Pickle::read(&[b"\x80\x02", opcodes, b"."].concat()).unwrap();
        assert_eq!(pickle.root(), &expected, "{opcodes:?}");
    }
}

#[test]
fn entries_given_twice_are_refused() {
    let pickle = dictionary(&[(text("x"), Description::default().opcodes())]);
    let (entry, other) = (("a/data.pkl", &pickle[..]), ("a/data/0", &[7; 16][..]));
    assert!(message(zip(&[entry, other, other])).contains("two entries `a/data/0`"));
    assert!(message(zip(&[entry, other, ("b/data.pkl", &pickle)])).contains("several `data.pkl`"));
}

#[test]
fn another_byte_order_is_named() {
    let pickle = dictionary(&[(text("x"), Description::default().opcodes())]);
    let file = zip(&[("a/data.pkl", &pickle), ("a/byteorder", b"big"), ("a/data/0", &[7; 16])]);
    assert!(message(file).ends_with("its numbers are stored in the byte order `big`"));
}

#[test]
fn a_file_without_tensors_is_named() {
    assert!(
        message(pth(&dictionary(&[(text("x"), int(3))]))).contains("no dictionary with tensors")
    );
}

#[test]
fn a_key_given_twice_has_its_last_value() {
    let (one, two) =
        (Description::default(), Description { shape: vec![2], ..Description::default() });
    let pickle = dictionary(&[(text("x"), one.opcodes()), (text("x"), two.opcodes())]);
    let file = PthFile::read(pth(&pickle)).unwrap();
    assert_eq!(file.tensor("x").unwrap().shape(), [2]);
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for length in 0..TENSOR.len() {
        assert!(PthFile::read(TENSOR[..length].to_vec()).is_err(), "{length}");
    }
}

/// An entry that claims to unpack to far more than the file could hold.
#[test]
fn an_entry_that_unpacks_without_end_is_too_much() {
    let mut bytes = zip(&[("a/data.pkl", b"\x80\x02}.")]);
    let central = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bytes[central + 10] = 8;
    bytes[central + 24..central + 28].copy_from_slice(&0xfff0_0000u32.to_le_bytes());
    assert!(matches!(PthFile::read(bytes), Err(FormatError::TooMuch { .. })));
}

#[test]
fn an_entry_that_unpacks_to_another_size_is_an_error() {
    for difference in [-1i32, 1, 1000] {
        let mut bytes = PACKED.to_vec();
        let central = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
        let size = i32::from_le_bytes(bytes[central + 24..central + 28].try_into().unwrap());
        bytes[central + 24..central + 28].copy_from_slice(&(size + difference).to_le_bytes());
        assert!(message(bytes).contains("decompresses to the wrong size"));
    }
}

/// Reads all there is.
fn exhaust(bytes: Vec<u8>) {
    if let Ok(file) = PthFile::read(bytes) {
        for (name, info) in file.tensors() {
            if let Ok(tensor) = file.tensor(name) {
                assert_eq!(tensor.info(), info);
            }
        }
    }
}

proptest! {
    #[test]
    fn damaged_files_give_tensors_or_an_error_and_never_panic(
        which in 0usize..3,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let mut bytes = [TENSOR, PACKED, LIGHTNING][which].to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        exhaust(bytes);
    }

    #[test]
    fn any_program_gives_tensors_or_an_error_and_never_panics(
        program in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(&b"(012NtQRaebsuqhX]})\x85\x86\x87\x93\x94\x8f\x90\x91\x81\x92."[..])
                    .prop_map(|opcode| vec![opcode]),
                any::<u8>().prop_map(|byte| vec![byte]),
                Just(Description::default().opcodes()),
                Just(text("a")),
                any::<i32>().prop_map(int),
                Just(b"ctorch._utils\n_rebuild_parameter\n".to_vec()),
            ],
            0..40,
        ),
    ) {
        exhaust(pth(&[b"\x80\x02".to_vec(), program.concat(), b".".to_vec()].concat()));
    }
}
