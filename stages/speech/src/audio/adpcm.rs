//! ADPCM inside WAV, block by block.

use super::block::Block;
use super::codec::{self, PacketDecoder};
use super::fault::{Fault, ReadError};
use super::input::Input;
use super::note::Note;
use super::part::AudioFile;
use super::riff::Blocks;
use super::sniff::AudioContainer;
use symphonia::core::codecs::audio::well_known::{CODEC_ID_ADPCM_IMA_WAV, CODEC_ID_ADPCM_MS};

pub struct Adpcm {
    header: Blocks,
    coding: Coding,
    codec: PacketDecoder,
    frames: u64,
}

#[derive(Clone, Copy)]
enum Coding {
    Microsoft,
    Ima,
}

impl Coding {
    fn of(tag: u16) -> Option<Coding> {
        match tag {
            0x02 => Some(Self::Microsoft),
            0x11 => Some(Self::Ima),
            _ => None,
        }
    }

    /// The frames in a block of this size in bytes.
    fn frames(self, bytes: u64, channels: u16) -> Option<u64> {
        let channels = u64::from(channels);
        match self {
            Self::Microsoft => Some(bytes.checked_sub(7 * channels)? * 2 / channels + 2),
            // Eight frames take four bytes for each channel.
            Self::Ima => Some(bytes.checked_sub(4 * channels)? / (4 * channels) * 8 + 1),
        }
    }
}

impl Adpcm {
    pub fn open(mut header: Blocks) -> Result<Adpcm, Fault> {
        let Some(coding) = Coding::of(header.tag) else {
            let what = format!("WAV with the codec tag {:#06x}", header.tag);
            return Err(Fault::Unsupported { what });
        };
        let Some(frames) = coding.frames(header.block.into(), header.channels) else {
            return Err(Fault::Undecodable {
                format: AudioContainer::Wav,
                problem: format!("blocks of {} bytes are too short", header.block),
            });
        };
        for note in &mut header.notes {
            if let Note::FalseLength { stated, present } = note {
                // Both are bytes until here.
                let block = u64::from(header.block);
                (*stated, *present) = (*stated / block * frames, *present / block * frames);
            }
        }
        let id = match coding {
            Coding::Microsoft => CODEC_ID_ADPCM_MS,
            Coding::Ima => CODEC_ID_ADPCM_IMA_WAV,
        };
        let mut parameters = codec::parameters(id, header.rate, header.channels);
        parameters
            .with_bits_per_sample(4)
            .with_frames_per_block(frames)
            .with_max_frames_per_packet(frames);
        let codec = PacketDecoder::new("ADPCM", AudioContainer::Wav, &parameters)?;
        Ok(Adpcm { header, coding, codec, frames: 0 })
    }

    /// The `fact` chunk tells the padding of the last block. A length that cuts off more than that
    /// is false.
    fn cut_padding(&mut self, block: &mut Block) {
        let Some(stated) = self.header.frames.filter(|stated| *stated > 0) else { return };
        let present = self.frames;
        match present.checked_sub(stated) {
            Some(0) => {}
            Some(padding) if padding < block.frames() => self.frames -= block.drop_end(padding),
            _ => self.header.notes.push(Note::FalseLength { stated, present }),
        }
    }
}

impl AudioFile for Adpcm {
    fn read(&mut self, input: &mut Input<'_>) -> Result<Option<Block>, ReadError> {
        let left = self.header.data.end - self.header.data.start;
        let size = u64::from(self.header.block);
        let bytes = left.min(size);
        let frames = self.coding.frames(bytes, self.header.channels).unwrap_or(0);
        if frames == 0 {
            if bytes > 0 {
                self.header.notes.push(Note::OddBytes { dropped: bytes });
                self.header.data.start = self.header.data.end;
            }
            return Ok(None);
        }
        let mut packet = input.part(self.header.data.start, bytes as usize)?.to_vec();
        packet.resize(size as usize, 0);
        let whole = self.coding.frames(size, self.header.channels).unwrap_or(frames);
        let decoded = self.codec.decode(&packet, whole);
        let mut block = decoded.map_err(|defect| self.codec.fault(defect, self.frames))?;
        block.drop_end(whole - frames);
        self.header.data.start += bytes;
        self.frames += frames;
        if self.header.data.is_empty() {
            self.cut_padding(&mut block);
        }
        Ok(Some(block))
    }

    fn end(&self) -> u64 {
        self.header.end
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.header.notes)
    }
}
