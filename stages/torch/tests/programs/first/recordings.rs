//! A few recordings of the demo, in the layout of the recipes.

use throstle_tests::Project;
use throstle_tests::guide::root;

const CLIPS: [&str; 6] = ["aino_01", "aino_07", "aino_13", "aino_16", "eero_01", "eero_08"];

/// `data/SPEAKER/CLIP.wav` with a transcript beside each.
pub fn write_folders(project: &Project, folder: &str) {
    for clip in CLIPS {
        let (speaker, _) = clip.split_once('_').unwrap();
        let path = format!("{folder}/data/{speaker}/{clip}");
        project.write(&format!("{path}.wav"), recording(clip));
        project.write(&format!("{path}.lab"), "Kello löi 8.");
    }
}

/// `data` with a table in which every clip has this text.
pub fn write_table(project: &Project, folder: &str, text: &str) {
    write_rows(project, folder, text, &|clip| &clip[..clip.len() - 3]);
}

/// The same with one speaker.
pub fn write_table_of_one(project: &Project, folder: &str, text: &str) {
    write_rows(project, folder, text, &|_| "meera");
}

fn write_rows<'a>(
    project: &Project,
    folder: &str,
    text: &str,
    speaker: &dyn Fn(&'a str) -> &'a str,
) {
    let line = |clip: &'a str| format!("wavs/{clip}.wav|{text}|{}\n", speaker(clip));
    for clip in CLIPS {
        project.write(&format!("{folder}/data/wavs/{clip}.wav"), recording(clip));
    }
    let rows: String = CLIPS.iter().map(|clip| line(clip)).collect();
    // Without names, one text that many read could be the speaker.
    project.write(&format!("{folder}/data/metadata.csv"), format!("file|text|speaker\n{rows}"));
}

fn recording(clip: &str) -> Vec<u8> {
    std::fs::read(root().join(format!("pipelines/demo/data/wavs/{clip}.wav"))).unwrap()
}
