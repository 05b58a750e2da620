//! Values of the data in lines for a shell: they are never run.

use throstle_tests::{Project, write_clips};

/// A shell runs this text in arithmetic, even from a variable.
const HOSTILE: &str = "a[$(touch PWNED)0]";

const MANIFEST: &str = r#"
[pipeline]
name = "values"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.note]
use = "command"
input = "clips"
fields = ["gain"]
command = "LINE"
outputs = { note = "note.txt" }
export = "out/{id}.txt"
"#;

fn project(line: &str, gain: &str) -> Project {
    let project = Project::new(&MANIFEST.replace("LINE", line));
    write_clips(&project, &["a"]);
    // A command can only make its file where it is told to, since its folder is emptied.
    let gain = gain.replace("PWNED", project.file("PWNED").to_str().unwrap());
    project.write("data/metadata.csv", format!("file|text|gain\na.wav|Sana.|{gain}\n"));
    project
}

#[test]
fn a_value_in_arithmetic_is_refused_with_the_line_to_write() {
    let project = project("echo $(({gain} + 1)) > {out.note}", HOSTILE);
    for command in ["check", "run"] {
        let output = project.output(&[command]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("`{gain}` in `command` is in arithmetic"), "{told}");
        assert!(told.contains("awk -v n={gain} 'BEGIN {{ print n + 1 }}'"), "{told}");
        assert!(told.contains("pipeline.toml:14"), "{told}");
        assert!(!project.file("PWNED").exists());
    }
    let advised = "awk -v n={gain} 'BEGIN {{ print n + 1 }}' > {out.note}";
    for (gain, printed) in [("2", "3\n"), (HOSTILE, "1\n")] {
        let project = self::project(advised, gain);
        project.run();
        assert_eq!(project.text("out/a.txt"), printed);
        assert!(!project.file("PWNED").exists());
    }
}

#[test]
fn a_value_arrives_as_it_is() {
    for line in [
        "printf '%s' {gain} > {out.note}",
        "sh -c 'printf %s \\\"$1\\\" > \\\"$2\\\"' sh {gain} {out.note}",
    ] {
        let project = project(line, HOSTILE);
        project.run();
        let value = HOSTILE.replace("PWNED", project.file("PWNED").to_str().unwrap());
        assert_eq!(project.text("out/a.txt"), value, "{line}");
        assert!(!project.file("PWNED").exists(), "{line}");
    }
}
