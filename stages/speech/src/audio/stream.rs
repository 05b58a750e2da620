//! The decoder of recordings: from the bytes to samples, part by part, whatever the length. Decoding
//! as a whole is collecting what a stream gives.

use std::sync::Arc;

use stage_core::{Blob, Context, FileParts, Item, Reject, StageError};

use super::block::Block;
use super::codec::shielded;
use super::container;
use super::decode::DecodeOptions;
use super::fault::{Fault, ReadError};
use super::input::Input;
use super::note::Note;
use super::part::AudioFile;
use super::sniff::{self, AudioContainer};
use super::sound::Census;

/// A recording from its start to its end.
pub struct Stream<'a> {
    pub format: AudioContainer,
    pub rate: u32,
    pub channels: u16,
    /// The frames read so far.
    pub frames: u64,
    input: Input<'a>,
    options: DecodeOptions,
    part: Box<dyn AudioFile + 'a>,
    /// A block that was read to learn the shape.
    first: Option<Block>,
    files: u64,
    census: Census,
    notes: Vec<Note>,
    is_finished: bool,
}

impl<'a> Stream<'a> {
    pub fn open(
        parts: Arc<dyn FileParts>,
        options: &DecodeOptions,
    ) -> Result<Stream<'a>, ReadError> {
        Stream::of(Input::file(parts), options)
    }

    pub fn of(mut input: Input<'a>, options: &DecodeOptions) -> Result<Stream<'a>, ReadError> {
        let format = sniff::sniff_at(&mut input, 0)?;
        let part =
            shielded(format, || container::open(&mut input, 0, format, options.allow_truncated))?;
        let mut stream = Stream {
            format,
            rate: 0,
            channels: 0,
            frames: 0,
            input,
            options: options.clone(),
            part,
            first: None,
            files: 1,
            census: Census::default(),
            notes: Vec::new(),
            is_finished: false,
        };
        let shape = match stream.part.shape() {
            Some(shape) => Some(shape),
            None => stream.first_block()?,
        };
        let Some((rate, channels)) = shape else { return Err(Fault::Empty { behind: 0 }.into()) };
        options.check_shape(rate, channels)?;
        (stream.rate, stream.channels) = (rate, channels);
        Ok(stream)
    }

    /// Reads up to the first samples, to learn their shape.
    fn first_block(&mut self) -> Result<Option<(u32, u16)>, ReadError> {
        while let Some(block) = self.next_block()? {
            if !block.samples.is_empty() {
                let shape = (block.rate, block.channels);
                self.first = Some(block);
                return Ok(Some(shape));
            }
        }
        Ok(None)
    }

    /// The next samples; None at the end of the recording.
    pub fn read(&mut self) -> Result<Option<Block>, ReadError> {
        if self.is_finished {
            return Ok(None);
        }
        let block = match self.first.take() {
            Some(block) => Some(block),
            None => self.next_block()?,
        };
        let Some(block) = block else {
            self.is_finished = true;
            self.census.verdict()?;
            return match self.frames {
                0 => Err(Fault::Empty { behind: 0 }.into()),
                _ => Ok(None),
            };
        };
        self.compare(&block)?;
        self.census.count(&block.samples);
        self.frames += block.frames();
        Ok(Some(block))
    }

    /// Appends the next samples as 16-bit integers. False at the end of the recording.
    pub fn read_pcm(&mut self, samples: &mut Vec<i16>) -> Result<bool, ReadError> {
        let Some(block) = self.read()? else { return Ok(false) };
        samples.extend(block.samples.into_pcm().0);
        Ok(true)
    }

    /// At the end, the notes on the recording.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    fn next_block(&mut self) -> Result<Option<Block>, ReadError> {
        loop {
            let (part, input) = (&mut self.part, &mut self.input);
            if let Some(block) = shielded(self.format, || part.read(input))? {
                return Ok(Some(block));
            }
            if !self.next_file()? {
                return Ok(None);
            }
        }
    }

    fn compare(&self, block: &Block) -> Result<(), Fault> {
        let seconds = self.frames as f64 / f64::from(self.rate.max(1));
        let change = |what, from, to| Err(Fault::Changes { what, from, to, seconds });
        if block.rate != self.rate {
            return change("sample rate", self.rate, block.rate);
        }
        if block.channels != self.channels {
            return change("number of channels", self.channels.into(), block.channels.into());
        }
        Ok(())
    }

    /// Opens the file behind the one that ended. Bytes that are none are noted.
    fn next_file(&mut self) -> Result<bool, ReadError> {
        self.notes.append(&mut self.part.notes());
        let at = sniff::behind_tags(&mut self.input, self.part.end())?;
        let size = self.input.size();
        if at >= size {
            self.note_joined();
            return Ok(false);
        }
        let found = sniff::sniff_at(&mut self.input, at).ok();
        let (input, allow_truncated) = (&mut self.input, self.options.allow_truncated);
        let opened = found
            .map(|format| shielded(format, || container::open(input, at, format, allow_truncated)));
        match opened {
            Some(Ok(part)) => {
                self.part = part;
                self.files += 1;
                Ok(true)
            }
            Some(Err(ReadError::Fault(Fault::Unsupported { what })))
                if sniff::begins_file(&mut self.input, at)? =>
            {
                let what = format!("several files or streams in a row, one of them {what}");
                Err(Fault::Unsupported { what }.into())
            }
            Some(Err(ReadError::Io(error))) => Err(ReadError::Io(error)),
            Some(Err(ReadError::Fault(_))) | None => {
                self.note_joined();
                let bytes = size - at;
                let frames = self.part.frame_bytes().map(|frame| bytes / frame.max(1));
                self.notes.push(Note::LeftOut { bytes, frames });
                Ok(false)
            }
        }
    }

    fn note_joined(&mut self) {
        if self.files > 1 {
            self.notes.push(Note::Joined { files: self.files });
        }
    }
}

/// The file of the recording of an item. Its bytes are verified before this returns.
pub fn file_of(
    item: &Item,
    context: &mut dyn Context,
) -> Result<Result<Arc<dyn FileParts>, Reject>, StageError> {
    let Some(blob) = item.fields.blob("audio") else {
        let reason = "the item has no field `audio` that holds a recording";
        return Ok(Err(Reject::new("no-audio", reason)));
    };
    let parts = context.open(&Blob::clone(blob))?;
    let verified = parts.verify();
    verified.map_err(|error| StageError::Transient { message: error.to_string() })?;
    Ok(Ok(parts))
}
