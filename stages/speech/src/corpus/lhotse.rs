//! Cuts of lhotse: each supervision of a cut is a clip, which is a part of a recording.

use serde_json::{Map, Value as Json, json};

use super::RowProblem;
use super::part::Times;

type Line = Map<String, Json>;

/// A clip in a line.
pub struct View {
    /// The line, in which the supervision and the source of this clip are the first ones.
    pub line: Line,
    pub times: Times,
    /// The id of the cut, where the line has several clips: they are numbered.
    pub id: Option<String>,
}

/// A supervision may reach this far outside of its cut, by rounding.
const TOLERANCE_SECONDS: f64 = 0.01;

/// Tests if a line is a cut or a supervision.
pub fn is_lhotse(line: &Line) -> bool {
    let has_sources = line.get("recording").and_then(|recording| recording.get("sources"));
    let is_cut = matches!(kind(line), Some("MonoCut" | "MultiCut" | "MixedCut" | "PaddingCut"));
    let is_supervision = line.contains_key("recording_id") && !line.contains_key("supervisions");
    is_cut || has_sources.is_some() || (is_supervision && line.contains_key("start"))
}

fn kind(line: &Line) -> Option<&str> {
    line.get("type").and_then(Json::as_str)
}

/// The clips of a line: one for each supervision.
pub fn views(mut line: Line) -> Result<Vec<View>, RowProblem> {
    if let Some(found @ ("MixedCut" | "PaddingCut")) = kind(&line) {
        return Err(RowProblem::MixedCut { found: found.to_owned() });
    }
    if line.contains_key("recording_id") && !line.contains_key("recording") {
        return Err(RowProblem::SupervisionAlone);
    }
    if let Some(name) = line.get("recording").and_then(transform) {
        return Err(RowProblem::Transform { name });
    }
    let supervisions = match line.get_mut("supervisions") {
        Some(Json::Array(list)) => std::mem::take(list),
        _ => Vec::new(),
    };
    let count = supervisions.len();
    if count <= 1 {
        return Ok(vec![view(&line, supervisions.into_iter().next(), None)?]);
    }
    let cut = line.get("id").and_then(Json::as_str).unwrap_or_default().to_owned();
    let numbered = supervisions.into_iter().enumerate();
    numbered.map(|(at, one)| view(&line, Some(one), Some(format!("{cut}-{at}")))).collect()
}

/// The first transform that changes the sound beyond its sample rate.
fn transform(recording: &Json) -> Option<String> {
    let transforms = recording.get("transforms")?.as_array()?;
    let name = |transform: &Json| {
        let name = transform.get("name").or(transform.get("type")).and_then(Json::as_str);
        name.unwrap_or("unknown").to_owned()
    };
    transforms.iter().map(name).find(|name| name != "Resample")
}

fn view(line: &Line, supervision: Option<Json>, id: Option<String>) -> Result<View, RowProblem> {
    let mut line = line.clone();
    let number = |of: Option<&Json>, key: &str| of.and_then(|json| json.get(key)?.as_f64());
    let own = Json::Object(Map::new());
    let place = supervision.as_ref().unwrap_or(&own);
    let start = line.get("start").and_then(Json::as_f64);
    let seconds = line.get("duration").and_then(Json::as_f64);
    let wanted = match place.get("channel") {
        Some(channel) => channel_of(channel, "supervisions.channel")?,
        None => None,
    };
    let wanted = match (wanted, line.get("channel")) {
        (None, Some(channel)) => channel_of(channel, "channel")?,
        (wanted, _) => wanted,
    };
    let (mut times, from) = (Times::default(), start.unwrap_or(0.0));
    let within = (number(Some(place), "start"), number(Some(place), "duration"));
    match (seconds, within) {
        (Some(seconds), (Some(begin), Some(length))) => {
            let end = begin + length;
            if begin < -TOLERANCE_SECONDS || end > seconds + TOLERANCE_SECONDS {
                return Err(RowProblem::OutsideCut { start: begin, end, seconds });
            }
            let begin = begin.max(0.0);
            times.start = Some(from + begin);
            times.duration = Some(end.min(seconds) - begin);
        }
        // A line without the place of a cut is a whole recording.
        (Some(seconds), _) if start.is_some() => {
            times.start = start;
            times.duration = Some(seconds);
        }
        _ => {}
    }
    times.channel = select_source(&mut line, wanted)?;
    let list = supervision.map_or_else(Vec::new, |one| vec![one]);
    line.insert("supervisions".to_owned(), json!(list));
    Ok(View { line, times, id })
}

/// The only channel of a number or a list.
fn channel_of(value: &Json, key: &'static str) -> Result<Option<u16>, RowProblem> {
    let one = |value: &Json| value.as_u64().and_then(|channel| u16::try_from(channel).ok());
    match value {
        Json::Array(list) if list.len() > 1 => Err(RowProblem::SeveralChannels { key }),
        Json::Array(list) => Ok(list.first().and_then(one)),
        value => Ok(one(value)),
    }
}

/// Keeps the source with the channel, and returns the number of the channel in its file.
fn select_source(line: &mut Line, channel: Option<u16>) -> Result<Option<u16>, RowProblem> {
    let sources = line.get_mut("recording").and_then(|recording| recording.get_mut("sources"));
    let Some(Json::Array(sources)) = sources else { return Ok(channel) };
    let channels = |source: &Json| -> Vec<u16> {
        let list = source.get("channels").and_then(Json::as_array);
        let one = |value: &Json| value.as_u64().and_then(|channel| u16::try_from(channel).ok());
        list.into_iter().flatten().filter_map(one).collect()
    };
    let mut within = channel;
    if let Some(channel) = channel {
        let place = |source: &Json| channels(source).iter().position(|own| *own == channel);
        let found = sources.iter().enumerate().find_map(|(at, one)| Some((at, place(one)?)));
        if let Some((at, place)) = found {
            sources.swap(0, at);
            within = u16::try_from(place).ok();
        } else if sources.len() > 1 {
            let found = u16::try_from(sources.len()).unwrap_or(u16::MAX);
            return Err(RowProblem::NoChannel { channel, found });
        }
    } else if sources.len() > 1 {
        return Err(RowProblem::SeveralChannels { key: "recording.sources" });
    }
    let kind = sources.first().and_then(|source| source.get("type")?.as_str());
    match kind {
        Some(found) if found != "file" => {
            Err(RowProblem::SourceType { found: found.chars().take(40).collect() })
        }
        _ => Ok(within),
    }
}
