//! One decoder of Symphonia: packets to samples. Its errors become situations here; none of its
//! texts goes further.

use super::block::Block;
use super::clip::Samples;
use super::fault::{Fault, ReadError};
use super::sniff::AudioContainer;
use std::panic::{AssertUnwindSafe, catch_unwind};
use symphonia::core::audio::{Channels, GenericAudioBufferRef};
use symphonia::core::codecs::audio::well_known as codec;
use symphonia::core::codecs::audio::{
    AudioCodecId, AudioCodecParameters, AudioDecoder, AudioDecoderOptions,
};
use symphonia::core::errors::Error;
use symphonia::core::packet::PacketRef;
use symphonia::core::units::{Duration, Timestamp};

pub struct PacketDecoder {
    /// For messages.
    name: &'static str,
    format: AudioContainer,
    decoder: Box<dyn AudioDecoder>,
    /// Samples of at most 16 bits without loss stay integers.
    is_integer: bool,
}

/// The reason why a packet cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// The packet ends before its last sample.
    Short,
    Inconsistent,
    Unsupported,
}

impl PacketDecoder {
    pub fn new(
        name: &'static str,
        format: AudioContainer,
        parameters: &AudioCodecParameters,
    ) -> Result<PacketDecoder, Fault> {
        // FLAC has a digest of its samples; the other codecs ignore this option.
        let options = AudioDecoderOptions::default().verify(true);
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(parameters, &options)
            .map_err(|error| match defect(&error) {
                Defect::Unsupported => unsupported(name, format),
                _ => Fault::Undecodable {
                    format,
                    problem: format!("the description of its {name} is inconsistent"),
                },
            })?;
        Ok(PacketDecoder { name, format, decoder, is_integer: is_integer(parameters) })
    }

    /// The samples of a packet with this number of frames; 0 if the packet itself tells it.
    pub fn decode(&mut self, packet: &[u8], frames: u64) -> Result<Block, Defect> {
        let packet = PacketRef::new(0, Timestamp::ZERO, Duration::from(frames), packet);
        match self.decoder.decode_ref(&packet) {
            Ok(buffer) => Ok(unpack(&buffer, self.is_integer)),
            Err(error) => Err(defect(&error)),
        }
    }

    /// True if the digest of all samples is right; None if there is none.
    pub fn digest_fits(&mut self) -> Option<bool> {
        self.decoder.finalize().verify_ok
    }

    /// The fault for a packet that cannot be decoded, after `frames` frames of the recording.
    pub fn fault(&self, defect: Defect, frames: u64) -> Fault {
        match defect {
            Defect::Unsupported => unsupported(self.name, self.format),
            Defect::Short | Defect::Inconsistent => Fault::Undecodable {
                format: self.format,
                problem: format!("a part is damaged after {frames} frames"),
            },
        }
    }
}

/// Parameters of a codec with channels in the order of the file.
pub fn parameters(codec: AudioCodecId, rate: u32, channels: u16) -> AudioCodecParameters {
    let mut parameters = AudioCodecParameters::new();
    parameters.for_codec(codec).with_sample_rate(rate).with_channels(Channels::Discrete(channels));
    parameters
}

/// A hostile file must only affect its own item: the decoders have no unsafe code, but assertions.
pub fn shielded<T>(
    format: AudioContainer,
    work: impl FnOnce() -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let problem = "the decoder failed on inconsistent data".to_owned();
        Err(Fault::Undecodable { format, problem }.into())
    })
}

fn unsupported(name: &str, format: AudioContainer) -> Fault {
    const READ: [&str; 7] = ["AAC", "ADPCM", "ALAC", "FLAC", "MP3", "PCM", "Vorbis"];
    let kind = if READ.contains(&name) { "this variant of " } else { "" };
    let container =
        if name == format.to_string() { String::new() } else { format!(" in {format}") };
    Fault::Unsupported { what: format!("{kind}{name}{container}") }
}

pub fn defect(error: &Error) -> Defect {
    match error {
        Error::Unsupported(_) => Defect::Unsupported,
        Error::IoError(_) => Defect::Short,
        _ => Defect::Inconsistent,
    }
}

fn unpack(buffer: &GenericAudioBufferRef<'_>, is_integer: bool) -> Block {
    let count = buffer.samples_interleaved();
    let samples = if is_integer {
        let mut samples = vec![0; count];
        buffer.copy_to_slice_interleaved(&mut samples);
        Samples::Pcm(samples)
    } else {
        let mut samples = vec![0.0; count];
        buffer.copy_to_slice_interleaved(&mut samples);
        Samples::Wide(samples)
    };
    let spec = buffer.spec();
    let channels = u16::try_from(spec.channels().count()).unwrap_or(u16::MAX);
    Block { rate: spec.rate(), channels, samples }
}

fn is_integer(parameters: &AudioCodecParameters) -> bool {
    let lossy = [
        codec::CODEC_ID_MP1,
        codec::CODEC_ID_MP2,
        codec::CODEC_ID_MP3,
        codec::CODEC_ID_AAC,
        codec::CODEC_ID_VORBIS,
        codec::CODEC_ID_PCM_F32BE,
        codec::CODEC_ID_PCM_F32LE,
        codec::CODEC_ID_PCM_F64BE,
        codec::CODEC_ID_PCM_F64LE,
    ];
    let bits = match parameters.codec {
        // The sixth byte of the codec's own header; the container may repeat it with another value.
        codec::CODEC_ID_ALAC => {
            let cookie = parameters.extra_data.as_deref().unwrap_or_default();
            cookie.get(5).map(|bits| u32::from(*bits))
        }
        _ => parameters.bits_per_sample,
    };
    matches!(bits, Some(1..=16)) && !lossy.contains(&parameters.codec)
}
