//! Bytes to samples, in bulk, for every sample-by-sample encoding.

use super::clip::Samples;

/// The order of the bytes of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }
}

/// One sample's encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    U8,
    I8,
    I16,
    I24,
    I32,
    F32,
    F64,
    Alaw,
    Mulaw,
}

impl Encoding {
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Alaw | Self::Mulaw => 1,
            Self::I16 => 2,
            Self::I24 => 3,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Decodes `bytes`. Samples of at most 16 bits stay integers.
    pub fn read(self, bytes: &[u8], order: Order) -> Samples {
        match order {
            Order::Little => self.read_little(bytes),
            Order::Big => {
                let mut swapped = bytes.to_vec();
                swapped.chunks_exact_mut(self.bytes()).for_each(<[u8]>::reverse);
                self.read_little(&swapped)
            }
        }
    }

    fn read_little(self, bytes: &[u8]) -> Samples {
        match self {
            Self::I8 => Samples::Pcm(map(bytes, |[byte]| i16::from(byte as i8) << 8)),
            Self::I16 => Samples::Pcm(map(bytes, i16::from_le_bytes)),
            Self::U8 => Samples::Pcm(map(bytes, |[byte]| (i16::from(byte) - 128) << 8)),
            Self::Alaw => Samples::Pcm(map(bytes, |[byte]| from_alaw(byte))),
            Self::Mulaw => Samples::Pcm(map(bytes, |[byte]| from_mulaw(byte))),
            Self::I24 => Samples::Wide(map(bytes, |[low, middle, high]| {
                from_i32(i32::from_le_bytes([0, low, middle, high]))
            })),
            Self::I32 => Samples::Wide(map(bytes, |bytes| from_i32(i32::from_le_bytes(bytes)))),
            Self::F32 => Samples::Wide(map(bytes, f32::from_le_bytes)),
            Self::F64 => Samples::Wide(map(bytes, |bytes| from_f64(f64::from_le_bytes(bytes)))),
        }
    }
}

fn map<const N: usize, T>(bytes: &[u8], sample: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (samples, _) = bytes.as_chunks::<N>();
    samples.iter().map(|&bytes| sample(bytes)).collect()
}

fn from_i32(sample: i32) -> f32 {
    (f64::from(sample) / 2_147_483_648.0) as f32
}

/// A finite number stays finite, so that huge values are not reported as infinite.
fn from_f64(sample: f64) -> f32 {
    if sample.is_finite() {
        sample.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    } else {
        sample as f32
    }
}

/// ITU-T G.711 A-law to 16 bits: sign, three bits of exponent, four of mantissa, with every second
/// bit inverted.
fn from_alaw(byte: u8) -> i16 {
    let code = byte ^ 0x55;
    let exponent = (code >> 4) & 0x07;
    let mantissa = i16::from(code & 0x0F) << 4;
    let magnitude = match exponent {
        0 => mantissa + 8,
        exponent => (mantissa + 0x108) << (exponent - 1),
    };
    if code & 0x80 != 0 { magnitude } else { -magnitude }
}

/// ITU-T G.711 mu-law to 16 bits: all bits inverted, bias of 33 at 14 bits.
fn from_mulaw(byte: u8) -> i16 {
    let code = !byte;
    let exponent = (code >> 4) & 0x07;
    let magnitude = (((i16::from(code & 0x0F) << 3) + 0x84) << exponent) - 0x84;
    if code & 0x80 != 0 { -magnitude } else { magnitude }
}
