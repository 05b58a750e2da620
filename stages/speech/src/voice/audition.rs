//! `voice.audition`: pairs each sentence with each speaker.

use std::collections::BTreeSet;

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue, PortOutput, Setup,
    StageError,
};

struct VoiceAudition {
    speakers: Vec<String>,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let speakers = setup.parameters.texts("speakers")?;
    let speakers = speakers.into_iter().map(str::to_owned).collect();
    Ok(Job::Gather(Box::new(VoiceAudition { speakers })))
}

impl GatherJob for VoiceAudition {
    fn run(&mut self, input: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let clips: &[Item] =
            if input.ports.contains_key("clips") { input.items("clips")? } else { &[] };
        let of_clips = clips.iter().filter_map(|clip| clip.fields.text("speaker"));
        let speakers: BTreeSet<&str> = if self.speakers.is_empty() {
            of_clips.collect()
        } else {
            self.speakers.iter().map(String::as_str).collect()
        };
        if speakers.is_empty() {
            return Err(StageError::with_help(
                "there are no speakers",
                "name them in `speakers`, or set `clips` to clips with a `speaker`",
            ));
        }
        let text = |text: &str| NewValue::Text(text.to_owned());
        let pair = |sentence: &Item, speaker: &str| {
            let pair = NewItem::kept(sentence)
                .with("sentence", text(&sentence.id))
                .with("speaker", text(speaker));
            NewItem { id: format!("{}@{speaker}", sentence.id), ..pair }
        };
        let sentences = input.items("input")?.iter();
        let pairs = sentences
            .flat_map(|sentence| speakers.iter().map(|speaker| pair(sentence, speaker)))
            .collect();
        Ok(GatherOutput::default().with("output", PortOutput::Dataset(pairs)))
    }
}
