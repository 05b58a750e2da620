//! Matrices as greyscale pictures: rows that grow upwards in a plot are flipped, since a file
//! begins with its top line.

use png::{BitDepth, ColorType, Encoder, EncodingError};

use crate::error::FormatError;
use crate::tensorboard::Image;

const FORMAT: &str = "PNG";

/// A greyscale picture as a complete `.png` file. The same values give the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    png: Vec<u8>,
}

impl Picture {
    /// Lines of `width` values each, from 0 (black) to 255 (white); the first one is at the bottom.
    pub fn draw(width: usize, values: &[u8]) -> Result<Picture, FormatError> {
        let lines = values.chunks_exact(width.max(1));
        let size = (u32::try_from(width), u32::try_from(lines.len()));
        let (Ok(width), Ok(height), true) = (size.0, size.1, lines.remainder().is_empty()) else {
            let message = format!("{} values do not fill lines of {width}", values.len());
            return Err(FormatError::unwritable(FORMAT, message));
        };
        let upright: Vec<u8> = lines.rev().flatten().copied().collect();
        let png = encode(width, height, &upright).map_err(|error| match error {
            EncodingError::IoError(source) => FormatError::Write { format: FORMAT, source },
            other => FormatError::unwritable(FORMAT, other.to_string()),
        })?;
        Ok(Picture { width, height, png })
    }

    /// The picture for an event file.
    pub fn image(&self) -> Image<'_> {
        Image { width: self.width, height: self.height, channels: 1, png: &self.png }
    }
}

fn encode(width: u32, height: u32, lines: &[u8]) -> Result<Vec<u8>, EncodingError> {
    let mut png = Vec::new();
    let mut encoder = Encoder::new(&mut png, width, height);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(lines)?;
    writer.finish()?;
    Ok(png)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_first_line_lies_at_the_bottom() {
        let picture = Picture::draw(3, &[0, 1, 2, 253, 254, 255]).unwrap();
        let Image { width, height, channels, png } = picture.image();
        assert_eq!((width, height, channels), (3, 2, 1));
        let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
        let mut lines = [0; 6];
        let info = reader.next_frame(&mut lines).unwrap();
        assert_eq!((info.width, info.height, info.color_type), (3, 2, ColorType::Grayscale));
        assert_eq!(lines, [253, 254, 255, 0, 1, 2]);
    }

    #[test]
    fn what_makes_no_picture_is_refused() {
        for (width, values) in [(3, &[1u8, 2][..]), (0, &[1]), (4, &[])] {
            assert!(Picture::draw(width, values).is_err(), "{width} {values:?}");
        }
    }
}
