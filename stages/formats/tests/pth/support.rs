//! Archives and pickles made by hand.

/// A zip archive of stored entries.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let size = (content.len() as u32).to_le_bytes();
        let lengths = (name.len() as u16).to_le_bytes();
        let at = (bytes.len() as u32).to_le_bytes();
        let common =
            [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &size, &size, &lengths, &[0; 2]]
                .concat();
        bytes.extend([b"PK\x03\x04", &common[..], name.as_bytes(), content].concat());
        directory
            .extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10], &at, name.as_bytes()].concat());
    }
    let count = (entries.len() as u16).to_le_bytes();
    let start = (bytes.len() as u32).to_le_bytes();
    let size = (directory.len() as u32).to_le_bytes();
    bytes.extend(directory);
    bytes.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &size, &start, &[0; 2]].concat());
    bytes
}

/// A weight file with this pickle and one storage of sixteen bytes.
pub fn pth(pickle: &[u8]) -> Vec<u8> {
    zip(&[("a/data.pkl", pickle), ("a/byteorder", b"little"), ("a/data/0", &[7; 16])])
}

/// The description of an f32 tensor of the storage `0`.
pub struct Description {
    pub count: i32,
    pub offset: i32,
    pub shape: Vec<i32>,
    pub strides: Vec<i32>,
    pub class: &'static str,
    pub key: &'static str,
}

impl Default for Description {
    fn default() -> Description {
        Description {
            count: 4,
            offset: 0,
            shape: vec![4],
            strides: vec![1],
            class: "torch\nFloatStorage",
            key: "0",
        }
    }
}

pub fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

pub fn int(number: i32) -> Vec<u8> {
    [b"J", &number.to_le_bytes()[..]].concat()
}

fn ints(numbers: &[i32]) -> Vec<u8> {
    let numbers: Vec<u8> = numbers.iter().flat_map(|number| int(*number)).collect();
    [b"(", &numbers[..], b"t"].concat()
}

impl Description {
    /// The opcodes that leave the tensor on the stack.
    pub fn opcodes(&self) -> Vec<u8> {
        [
            b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
            text("storage"),
            format!("c{}\n", self.class).into_bytes(),
            text(self.key),
            text("cpu"),
            int(self.count),
            b"tQ".to_vec(),
            int(self.offset),
            ints(&self.shape),
            ints(&self.strides),
            b"\x89N".to_vec(),
            b"tR".to_vec(),
        ]
        .concat()
    }

    /// A file with this tensor under the name `x`.
    pub fn file(&self) -> Vec<u8> {
        pth(&dictionary(&[(text("x"), self.opcodes())]))
    }
}

/// A pickle of a dictionary, from the opcodes of its keys and values.
pub fn dictionary(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let pairs: Vec<u8> = pairs.iter().flat_map(|(key, value)| [&key[..], value].concat()).collect();
    [b"\x80\x02}(", &pairs[..], b"u."].concat()
}
