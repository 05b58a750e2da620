//! FLAC: lossless, and played by every browser.

use flacenc::bitsink::ByteSink;
use flacenc::component::BitRepr;
use flacenc::error::Verify;
use flacenc::source::MemSource;

/// A file with samples of 16 bits, channels interleaved.
///
/// # Errors
///
/// If the rate or the number of channels is none that FLAC can have.
pub fn encode(samples: &[i32], channels: usize, rate: u32) -> Result<Vec<u8>, String> {
    const BITS: usize = 16;
    let config =
        flacenc::config::Encoder::default().into_verified().map_err(|(_, e)| e.to_string())?;
    let source = MemSource::from_samples(samples, channels, BITS, rate as usize);
    let failed = |error: String| format!("encoding failed: {error}");
    let mut stream = flacenc::encode_with_fixed_block_size(&config, source, config.block_size)
        .map_err(|error| failed(error.to_string()))?;
    // The shorter last block does not count: otherwise the header would declare a variable block
    // size.
    let sized = stream.stream_info_mut().set_block_sizes(config.block_size, config.block_size);
    sized.map_err(|error| failed(error.to_string()))?;
    let mut sink = ByteSink::new();
    stream.write(&mut sink).map_err(|error| failed(error.to_string()))?;
    Ok(sink.as_slice().to_vec())
}
