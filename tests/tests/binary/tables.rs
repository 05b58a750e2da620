//! Tables of other tools, as people have them.

use std::io::Cursor;
use std::process::Output;

use throstle_tests::Project;

const RATE: u32 = 16_000;

/// Two seconds; each sample of a channel is its number, behind the number of the channel.
fn recording(channels: u16) -> Vec<u8> {
    let spec = hound::WavSpec {
        channels,
        sample_rate: RATE,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
    for frame in 0..2 * RATE as i32 {
        for channel in 0..channels {
            writer.write_sample(level(frame, channel)).unwrap();
        }
    }
    writer.finalize().unwrap();
    bytes.into_inner()
}

fn level(frame: i32, channel: u16) -> i16 {
    (frame % 10_000 + i32::from(channel) * 10_000) as i16
}

fn samples(wav: &[u8]) -> Vec<i16> {
    hound::WavReader::new(wav).unwrap().samples::<i16>().map(Result::unwrap).collect()
}

fn part(from: i32, to: i32, channel: u16) -> Vec<i16> {
    (from..to).map(|frame| level(frame, channel)).collect()
}

fn manifest(source: &str) -> String {
    format!(
        "[pipeline]\nname = \"tables\"\n\n[stage.clips]\n{source}\n\n[stage.wav]\nuse = \"audio.decode\"\n\
         input = \"clips\"\nexport = \"out/{{id}}.wav\"\n"
    )
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The message of a run that fails.
fn refused(project: &Project) -> String {
    let output = project.output(&["run"]);
    assert!(!output.status.success(), "{}", said(&output));
    said(&output)
}

const JSONL: &str = "use = \"corpus.jsonl\"\nfile = \"m.jsonl\"";
const TABLE: &str = "use = \"corpus.table\"\ntable = \"m.csv\"";

#[test]
fn parts_of_recordings_are_cut_once_and_again_after_a_change() {
    let project = Project::new(&manifest(JSONL));
    project.write("a.wav", recording(1));
    project.write("b.wav", recording(2));
    let lines = "{\"audio_filepath\": \"a.wav\", \"offset\": 0.5, \"duration\": 0.25, \"text\": \"x\"}\n\
                 {\"audio_filepath\": \"a.wav\", \"offset\": 1.5, \"duration\": 0.5, \"text\": \"y\"}\n\
                 {\"audio_filepath\": \"b.wav\", \"id\": \"left\", \"channel\": 0, \"text\": \"z\"}\n\
                 {\"audio_filepath\": \"b.wav\", \"id\": \"right\", \"channel\": 1, \"text\": \"w\"}\n";
    project.write("m.jsonl", lines);
    project.run();
    let names = ["a-0000500-0000750.wav", "a-0001500-0002000.wav", "left.wav", "right.wav"];
    assert_eq!(project.names("out"), names);
    let exported = |name: &str| samples(&project.read(&format!("out/{name}")));
    assert_eq!(exported(names[0]), part(8_000, 12_000, 0));
    assert_eq!(exported(names[1]), part(24_000, 32_000, 0));
    assert_eq!(exported(names[2]), part(0, 32_000, 0));
    assert_eq!(exported(names[3]), part(0, 32_000, 1));
    project.run().assert_nothing_done();
    // A further line costs one clip.
    let more =
        "{\"audio_filepath\": \"a.wav\", \"offset\": 0, \"duration\": 0.1, \"text\": \"v\"}\n";
    project.write("m.jsonl", format!("{lines}{more}"));
    assert_eq!(project.run().executed()["wav"], 1);
    // A recording with other samples gives other parts.
    let mut other = recording(1);
    other.iter_mut().skip(44).step_by(2).for_each(|byte| *byte ^= 1);
    project.write("a.wav", other);
    assert_eq!(project.run().executed()["wav"], 3);
    assert_ne!(exported(names[0]), part(8_000, 12_000, 0));
}

#[test]
fn a_part_behind_the_end_of_its_recording_is_quarantined() {
    let project = Project::new(&manifest(JSONL));
    project.write("a.wav", recording(1));
    project.write(
        "m.jsonl",
        "{\"audio_filepath\": \"a.wav\", \"offset\": 1.5, \"duration\": 5, \"text\": \"x\"}\n",
    );
    let told = refused(&project);
    assert!(told.contains("its part ends at 6.500 s, but the recording has 2.000 s"), "{told}");
}

#[test]
fn names_in_another_unicode_form_or_case_are_found_with_a_note() {
    let project = Project::new(&manifest(TABLE));
    project.write("a\u{308}iti.wav", recording(1));
    project.write("B.WAV", recording(1));
    project.write("m.csv", "\u{e4}iti.wav|Lause on.\nb.wav|Toinen on.\n");
    let output = project.output(&["run"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(project.names("out"), ["b.wav", "\u{e4}iti.wav"]);
    let told = said(&output);
    assert!(told.contains("files whose names differ in letter case or Unicode form"), "{told}");
}

#[test]
fn a_table_whose_paths_lead_nowhere_is_told_once_with_the_line_to_change() {
    let project = Project::new(&manifest(&format!("{TABLE}\naudio = \"wavs\"")));
    for name in ["a", "b", "c"] {
        project.write(&format!("wavs/{name}.wav"), recording(1));
    }
    project.write("m.csv", "wavs/a.wav|Yksi on.\nwavs/b.wav|Kaksi on.\nwavs/c.wav|Kolme on.\n");
    let told = refused(&project);
    assert!(told.contains("remove `audio = \"wavs\"`"), "{told}");
    assert_eq!(told.matches("wavs/wavs").count(), 1, "{told}");
    project.write("m.csv", "/home/x/a.wav|Yksi on.\n/home/x/b.wav|Kaksi on.\n");
    let told = refused(&project);
    assert!(told.contains("audio = \"/home/x\""), "{told}");
    assert_eq!(told.matches("/home/x/a.wav").count(), 1, "{told}");
}

#[test]
fn speakers_in_folders_of_folders_are_the_first_ones_or_asked_about() {
    let project = Project::new(&manifest("use = \"corpus.folder\"\nfolder = \"data\""));
    for clip in ["aino/take1/a", "eero/take1/e"] {
        project.write(&format!("data/{clip}.wav"), recording(1));
        project.write(&format!("data/{clip}.lab"), "Lause.");
    }
    project.run();
    let listed = project.printed(&["items", "clips", "--format", "csv", "--fields", "speaker"]);
    assert_eq!(listed, "id,speaker\naino/take1/a,aino\neero/take1/e,eero\n");
    project.remove("data/eero/take1/e.wav");
    project.remove("data/eero/take1/e.lab");
    project.write("data/aino/take2/b.wav", recording(1));
    project.write("data/aino/take2/b.lab", "Lause.");
    let told = refused(&project);
    assert!(told.contains("may be of `aino` or `take1`"), "{told}");
    project.edit("pipeline.toml", |text| text.replace("\"data\"", "\"data\"\nspeaker = \"first\""));
    project.run();
}

#[test]
fn a_table_of_corrections_may_come_later_and_go() {
    let stage = "\n[stage.corrected]\nuse = \"corpus.corrections\"\ninput = \"clips\"\n\
                 table = \"corrections.csv\"\n";
    let project = Project::of_clips(&["a", "b"], stage);
    project.printed(&["check", "."]);
    assert_eq!(project.run().executed(), [("clips", 1), ("corrected", 1)].into());
    project.run().assert_nothing_done();
    project.write("corrections.csv", "segment,action,text,at,with\n");
    assert_eq!(project.run().executed(), [("corrected", 1)].into());
    project.remove("corrections.csv");
    project.run().assert_nothing_done();
}
