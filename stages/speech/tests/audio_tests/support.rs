//! WAV files built by hand, byte by byte, so that each test can break one thing.

/// A WAV file to write: every field may be wrong.
#[derive(Clone)]
pub struct Wav {
    pub id: &'static [u8; 4],
    pub tag: u16,
    pub channels: u16,
    pub rate: u32,
    pub byte_rate: Option<u32>,
    pub block: Option<u16>,
    pub bits: u16,
    /// Bytes after the 16 of every `fmt ` chunk.
    pub extra: Vec<u8>,
    /// Chunks between the header and `fmt `.
    pub before: Vec<u8>,
    /// Chunks between `fmt ` and `data`.
    pub between: Vec<u8>,
    pub data: Vec<u8>,
    pub data_length: Option<u32>,
}

impl Wav {
    pub fn of(bits: u16, data: Vec<u8>) -> Self {
        Self {
            id: b"RIFF",
            tag: 1,
            channels: 1,
            rate: 16_000,
            byte_rate: None,
            block: None,
            bits,
            extra: Vec::new(),
            before: Vec::new(),
            between: Vec::new(),
            data,
            data_length: None,
        }
    }

    pub fn pcm(samples: &[i16]) -> Self {
        Self::of(16, samples.iter().flat_map(|sample| sample.to_le_bytes()).collect())
    }

    pub fn floats(samples: &[f32]) -> Self {
        let data = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        Self { tag: 3, ..Self::of(32, data) }
    }

    pub fn doubles(samples: &[f64]) -> Self {
        let data = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        Self { tag: 3, ..Self::of(64, data) }
    }

    pub fn fmt(&self) -> Vec<u8> {
        let block = self.block.unwrap_or(self.channels.wrapping_mul(self.bits.div_ceil(8)));
        let byte_rate = self.byte_rate.unwrap_or(self.rate.wrapping_mul(u32::from(block)));
        let mut body = Vec::new();
        body.extend(self.tag.to_le_bytes());
        body.extend(self.channels.to_le_bytes());
        body.extend(self.rate.to_le_bytes());
        body.extend(byte_rate.to_le_bytes());
        body.extend(block.to_le_bytes());
        body.extend(self.bits.to_le_bytes());
        body.extend(&self.extra);
        chunk(b"fmt ", &body)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut body = b"WAVE".to_vec();
        body.extend(&self.before);
        body.extend(self.fmt());
        body.extend(&self.between);
        body.extend(b"data");
        body.extend(self.data_length.unwrap_or(self.data.len() as u32).to_le_bytes());
        body.extend(&self.data);
        let mut bytes = self.id.to_vec();
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes
    }
}

pub fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = name.to_vec();
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The extra bytes of an extensible format with this tag.
pub fn extensible(size: u16, tag: u16) -> Vec<u8> {
    let mut extra = size.to_le_bytes().to_vec();
    extra.extend(16_u16.to_le_bytes());
    extra.extend(4_u32.to_le_bytes());
    extra.extend(tag.to_le_bytes());
    extra.extend([0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71]);
    extra
}

pub fn sine(rate: u32, hertz: f64, seconds: f64, amplitude: f64) -> Vec<f64> {
    let count = (f64::from(rate) * seconds) as usize;
    let turn = std::f64::consts::TAU * hertz / f64::from(rate);
    (0..count).map(|at| amplitude * (turn * at as f64).sin()).collect()
}

pub fn to_pcm(samples: &[f64]) -> Vec<i16> {
    samples.iter().map(|sample| (sample * 32_767.0).round() as i16).collect()
}

/// Pseudo-random numbers that are the same in every run.
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Uniform from -1 to 1.
    pub fn uniform(&mut self) -> f64 {
        self.next() as f64 / f64::from(1_u32 << 30) - 1.0
    }

    /// Close enough to a normal distribution of variance 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() / 2.0
    }
}
