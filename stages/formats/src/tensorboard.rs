//! Event files for TensorBoard: records of one message each, with checksums.
//!
//! Times come from the caller. A file that ends within a record, because its writer was killed, is
//! read up to there.

use std::collections::BTreeMap;
use std::io::Write;

use prost::Message;

use crate::error::FormatError;

/// The kind of blobs with such a file.
pub const KIND: &str = "tensorboard/events";

const FORMAT: &str = "TensorBoard event";

/// The number of the string type among tensor types.
const STRING: i32 = 7;

/// The content of the first record of every file.
const VERSION: &str = "brain.Event:2";

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<SummaryValue>,
}

#[derive(Clone, PartialEq, Message)]
struct SummaryValue {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
    #[prost(message, optional, tag = "4")]
    image: Option<ImageMessage>,
    #[prost(message, optional, tag = "6")]
    audio: Option<AudioMessage>,
    #[prost(message, optional, tag = "8")]
    tensor: Option<TensorMessage>,
    #[prost(message, optional, tag = "9")]
    metadata: Option<Metadata>,
}

/// Texts are stored as tensors of strings.
#[derive(Clone, PartialEq, Message)]
struct TensorMessage {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<ShapeMessage>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    string_val: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct ShapeMessage {
    #[prost(message, repeated, tag = "2")]
    dim: Vec<Dim>,
}

#[derive(Clone, PartialEq, Message)]
struct Dim {
    #[prost(int64, tag = "1")]
    size: i64,
}

/// The TensorBoard plugin that shows the value.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(message, optional, tag = "1")]
    plugin_data: Option<PluginData>,
}

#[derive(Clone, PartialEq, Message)]
struct PluginData {
    #[prost(string, tag = "1")]
    plugin_name: String,
    #[prost(bytes = "vec", tag = "2")]
    content: Vec<u8>,
}

/// The plugin of hyperparameters, and the tags of its records.
const HPARAMS: &str = "hparams";
const SESSION_START: &str = "_hparams_/session_start_info";
const SESSION_END: &str = "_hparams_/session_end_info";
const SUCCESS: i32 = 1;
const FAILURE: i32 = 2;

/// One of its two messages.
#[derive(Clone, PartialEq, Message)]
struct HParamsMessage {
    #[prost(message, optional, tag = "3")]
    start: Option<SessionStart>,
    #[prost(message, optional, tag = "4")]
    end: Option<SessionEnd>,
}

#[derive(Clone, PartialEq, Message)]
struct SessionStart {
    #[prost(btree_map = "string, message", tag = "1")]
    hparams: BTreeMap<String, ParameterMessage>,
    #[prost(string, tag = "4")]
    group_name: String,
    #[prost(double, tag = "5")]
    start_time_secs: f64,
}

#[derive(Clone, PartialEq, Message)]
struct SessionEnd {
    #[prost(int32, tag = "1")]
    status: i32,
    #[prost(double, tag = "2")]
    end_time_secs: f64,
}

/// `google.protobuf.Value`, with one field set.
#[derive(Clone, PartialEq, Message)]
struct ParameterMessage {
    #[prost(double, optional, tag = "2")]
    number: Option<f64>,
    #[prost(string, optional, tag = "3")]
    text: Option<String>,
    #[prost(bool, optional, tag = "4")]
    flag: Option<bool>,
}

/// The value of a hyperparameter.
#[derive(Clone, Debug, PartialEq)]
pub enum HyperParameter {
    Number(f64),
    Text(String),
    Flag(bool),
}

impl HyperParameter {
    fn message(&self) -> ParameterMessage {
        let mut message = ParameterMessage::default();
        match self {
            HyperParameter::Number(number) => message.number = Some(*number),
            HyperParameter::Text(text) => message.text = Some(text.clone()),
            HyperParameter::Flag(flag) => message.flag = Some(*flag),
        }
        message
    }
}

#[derive(Clone, PartialEq, Message)]
struct ImageMessage {
    #[prost(int32, tag = "1")]
    height: i32,
    #[prost(int32, tag = "2")]
    width: i32,
    #[prost(int32, tag = "3")]
    colorspace: i32,
    #[prost(bytes = "vec", tag = "4")]
    encoded_image_string: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct AudioMessage {
    #[prost(float, tag = "1")]
    sample_rate: f32,
    #[prost(int64, tag = "2")]
    num_channels: i64,
    #[prost(int64, tag = "3")]
    length_frames: i64,
    #[prost(bytes = "vec", tag = "4")]
    encoded_audio_string: Vec<u8>,
    #[prost(string, tag = "5")]
    content_type: String,
}

/// A clip, as a complete `.wav` file with its description.
#[derive(Clone, Copy, Debug)]
pub struct Audio<'a> {
    pub rate: u32,
    pub channels: u16,
    pub frames: u64,
    pub wav: &'a [u8],
}

/// A picture as a complete `.png` file, and its size.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    pub width: u32,
    pub height: u32,
    /// Values per pixel: 1 greyscale, 3 colours, 4 colours and opacity.
    pub channels: u8,
    pub png: &'a [u8],
}

/// A moment of a training run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    pub step: u64,
    /// Seconds since 1970.
    pub seconds: f64,
}

/// The file name that TensorBoard expects in a folder.
pub fn file_name(seconds: u64, suffix: &str) -> String {
    format!("events.out.tfevents.{seconds}.{suffix}")
}

/// Writes an event file. Nothing is buffered: each call writes complete records.
#[derive(Debug)]
pub struct EventWriter<W> {
    sink: W,
}

impl<W: Write> EventWriter<W> {
    /// Begins a file.
    pub fn new(sink: W, seconds: f64) -> Result<EventWriter<W>, FormatError> {
        let mut writer = EventWriter::resume(sink);
        let file_version = Some(VERSION.to_owned());
        writer.event(&Event { wall_time: seconds, step: 0, file_version, summary: None })?;
        Ok(writer)
    }

    /// Continues after the complete records of an existing file.
    pub fn resume(sink: W) -> EventWriter<W> {
        EventWriter { sink }
    }

    /// The figures of one moment, in one record.
    pub fn scalars<'a>(
        &mut self,
        at: Moment,
        scalars: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<(), FormatError> {
        let value = |(tag, value): (&str, f64)| SummaryValue {
            tag: tag.to_owned(),
            simple_value: Some(value as f32),
            ..SummaryValue::default()
        };
        self.summary(at, scalars.into_iter().map(value).collect())
    }

    pub fn audio(&mut self, at: Moment, tag: &str, audio: Audio) -> Result<(), FormatError> {
        let audio = AudioMessage {
            sample_rate: audio.rate as f32,
            num_channels: i64::from(audio.channels),
            length_frames: i64::try_from(audio.frames).unwrap_or(i64::MAX),
            encoded_audio_string: audio.wav.to_vec(),
            content_type: "audio/wav".to_owned(),
        };
        let tag = tag.to_owned();
        self.summary(at, vec![SummaryValue { tag, audio: Some(audio), ..SummaryValue::default() }])
    }

    pub fn image(&mut self, at: Moment, tag: &str, image: Image) -> Result<(), FormatError> {
        let pixels = |size: u32| i32::try_from(size).unwrap_or(i32::MAX);
        let image = ImageMessage {
            height: pixels(image.height),
            width: pixels(image.width),
            colorspace: i32::from(image.channels),
            encoded_image_string: image.png.to_vec(),
        };
        let tag = tag.to_owned();
        self.summary(at, vec![SummaryValue { tag, image: Some(image), ..SummaryValue::default() }])
    }

    /// A text, which is shown as Markdown.
    pub fn text(&mut self, at: Moment, tag: &str, text: &str) -> Result<(), FormatError> {
        let value = SummaryValue {
            // In the same way as other writers of texts.
            tag: format!("{tag}/text_summary"),
            tensor: Some(TensorMessage {
                dtype: STRING,
                shape: Some(ShapeMessage { dim: vec![Dim { size: 1 }] }),
                string_val: vec![text.as_bytes().to_vec()],
            }),
            metadata: Some(Metadata {
                plugin_data: Some(PluginData {
                    plugin_name: "text".to_owned(),
                    ..PluginData::default()
                }),
            }),
            ..SummaryValue::default()
        };
        self.summary(at, vec![value])
    }

    /// The hyperparameters of this run, for the view of all runs together. Runs of one group have
    /// the same ones, and are shown as their mean.
    pub fn session(
        &mut self,
        at: Moment,
        parameters: impl IntoIterator<Item = (String, HyperParameter)>,
        group: &str,
    ) -> Result<(), FormatError> {
        let hparams = parameters.into_iter().map(|(name, value)| (name, value.message()));
        let start = SessionStart {
            hparams: hparams.collect(),
            group_name: group.to_owned(),
            start_time_secs: at.seconds,
        };
        self.hparams(at, SESSION_START, HParamsMessage { start: Some(start), end: None })
    }

    /// The end of the run.
    pub fn session_end(&mut self, at: Moment, has_failed: bool) -> Result<(), FormatError> {
        let status = if has_failed { FAILURE } else { SUCCESS };
        let end = SessionEnd { status, end_time_secs: at.seconds };
        self.hparams(at, SESSION_END, HParamsMessage { start: None, end: Some(end) })
    }

    fn hparams(
        &mut self,
        at: Moment,
        tag: &str,
        message: HParamsMessage,
    ) -> Result<(), FormatError> {
        let content = message.encode_to_vec();
        let plugin_data = Some(PluginData { plugin_name: HPARAMS.to_owned(), content });
        let metadata = Some(Metadata { plugin_data });
        let tag = tag.to_owned();
        self.summary(at, vec![SummaryValue { tag, metadata, ..SummaryValue::default() }])
    }

    pub fn flush(&mut self) -> Result<(), FormatError> {
        self.sink.flush().map_err(failed)
    }

    pub fn finish(mut self) -> Result<W, FormatError> {
        self.flush()?;
        Ok(self.sink)
    }

    fn summary(&mut self, at: Moment, value: Vec<SummaryValue>) -> Result<(), FormatError> {
        let step = i64::try_from(at.step).unwrap_or(i64::MAX);
        let summary = Some(Summary { value });
        self.event(&Event { wall_time: at.seconds, step, file_version: None, summary })
    }

    fn event(&mut self, event: &Event) -> Result<(), FormatError> {
        self.sink.write_all(&record(&event.encode_to_vec())).map_err(failed)
    }
}

fn failed(source: std::io::Error) -> FormatError {
    FormatError::Write { format: FORMAT, source }
}

/// Length, its checksum, the data, its checksum; all little-endian.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &checksum(&length).to_le_bytes(), data, &checksum(data).to_le_bytes()].concat()
}

/// A stored checksum is rotated and shifted by a constant, so that the checksum of data with
/// checksums in it stays good.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The length of the complete, undamaged records of a file, from which a stopped run continues.
pub fn whole_records(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(length) = whole_record(&bytes[end..]) {
        end += length;
    }
    end
}

fn whole_record(bytes: &[u8]) -> Option<usize> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let size = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let data = rest.get(..size)?;
    let data_sum = rest[size..].first_chunk::<4>()?;
    let is_whole = checksum(length) == u32::from_le_bytes(*sum)
        && checksum(data) == u32::from_le_bytes(*data_sum);
    is_whole.then_some(8 + 4 + size + 4)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file() -> Vec<u8> {
        let mut writer = EventWriter::new(Vec::new(), 10.5).unwrap();
        let at = Moment { step: 7, seconds: 11.0 };
        writer.scalars(at, [("loss", 0.5), ("rate", 1e-4)]).unwrap();
        writer.finish().unwrap()
    }

    /// The checks of RFC 3720, B.4, which is where this checksum comes from.
    #[test]
    fn the_checksum_is_that_of_the_standard() {
        let unmasked = |bytes: &[u8]| checksum(bytes).wrapping_sub(0xa282_ead8).rotate_left(15);
        assert_eq!(unmasked(&[0; 32]), 0x8a91_36aa);
        assert_eq!(unmasked(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn a_file_begins_with_its_version() {
        let file = file();
        assert_eq!(file[..8], 24u64.to_le_bytes());
        assert_eq!(&file[12..21], [&[0x09][..], &10.5f64.to_le_bytes()].concat());
        assert_eq!(&file[21..36], b"\x1a\x0dbrain.Event:2");
    }

    #[test]
    fn figures_come_back() {
        let file = file();
        let first = whole_record(&file).unwrap();
        let event = Event::decode(&file[first + 12..file.len() - 4]).unwrap();
        let values = event.summary.unwrap().value;
        assert_eq!((event.step, event.wall_time, values.len()), (7, 11.0, 2));
        assert_eq!((values[0].tag.as_str(), values[0].simple_value), ("loss", Some(0.5)));
    }

    #[test]
    fn hyperparameters_are_in_the_metadata_of_their_plugin() {
        let mut writer = EventWriter::resume(Vec::new());
        let parameters = [
            ("rate".to_owned(), HyperParameter::Number(1e-4)),
            ("packing".to_owned(), HyperParameter::Flag(true)),
            ("schedule".to_owned(), HyperParameter::Text("cosine".to_owned())),
        ];
        let at = Moment { step: 0, seconds: 0.0 };
        writer.session(at, parameters, "trial-3").unwrap();
        let record = writer.finish().unwrap();
        let event = Event::decode(&record[12..record.len() - 4]).unwrap();
        let value = event.summary.unwrap().value.remove(0);
        assert_eq!(value.tag, "_hparams_/session_start_info");
        let plugin = value.metadata.unwrap().plugin_data.unwrap();
        assert_eq!(plugin.plugin_name, "hparams");
        let start = HParamsMessage::decode(&plugin.content[..]).unwrap().start.unwrap();
        assert_eq!(start.group_name, "trial-3");
        assert_eq!(start.hparams["rate"].number, Some(1e-4));
        assert_eq!(start.hparams["packing"].flag, Some(true));
        assert_eq!(start.hparams["schedule"].text.as_deref(), Some("cosine"));
    }

    #[test]
    fn a_text_is_a_string_for_the_plugin_that_shows_texts() {
        let mut writer = EventWriter::resume(Vec::new());
        writer.text(Moment { step: 3, seconds: 3.0 }, "parameters", "a | b").unwrap();
        let record = writer.finish().unwrap();
        let event = Event::decode(&record[12..record.len() - 4]).unwrap();
        let value = event.summary.unwrap().value.remove(0);
        let plugin = value.metadata.unwrap().plugin_data.unwrap().plugin_name;
        assert_eq!((value.tag.as_str(), plugin.as_str()), ("parameters/text_summary", "text"));
        let tensor = value.tensor.unwrap();
        assert_eq!((tensor.dtype, tensor.string_val), (STRING, vec![b"a | b".to_vec()]));
    }

    #[test]
    fn a_file_that_was_cut_goes_on_behind_its_whole_records() {
        let file = file();
        let first = whole_record(&file).unwrap();
        for length in 0..file.len() {
            let expected = if length < first { 0 } else { first };
            assert_eq!(whole_records(&file[..length]), expected);
        }
        assert_eq!(whole_records(&file), file.len());
        let mut damaged = file.clone();
        damaged[first + 20] ^= 1;
        assert_eq!(whole_records(&damaged), first);
        assert_eq!(whole_records(&[0xff; 64]), 0);
    }
}
