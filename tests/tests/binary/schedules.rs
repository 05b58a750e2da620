//! Schedules of trainings with parts that can never take effect, and the output of `check` and
//! `plan` for the others.

use serde_json::Value;
use throstle_tests::{Project, command, write_clips};

const RECIPE: &str = include_str!("../../../pipelines/finnish-fish/pipeline.toml");
const VITS: &str = include_str!("../../../pipelines/gujarati-mms/pipeline.toml");

const SENTENCES: &str = include_str!("../../../pipelines/finnish-fish/sentences.txt");

/// A recipe with its sentences and nothing else.
fn bare(recipe: &str) -> Project {
    let project = Project::new(recipe);
    project.write("sentences.txt", SENTENCES);
    project
}

/// A recipe with empty files.
fn project(recipe: &str) -> Project {
    let project = bare(recipe);
    project.write("data/metadata.csv", "");
    for model in ["openaudio-s1-mini", "mms-tts-guj"] {
        project.write(&format!("models/{model}/config.json"), "{}");
    }
    project
}

/// Exit code, standard output and standard error.
fn said(project: &Project, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command("throstle", project.path(), arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn old() -> String {
    RECIPE
        .replace("epochs = 60.0", "epochs = 3.0")
        .replace("warm_up = \"5%\"", "warm_up = 100")
        .replacen("validate_every = \"4%\"", "validate_every = 200", 1)
        .replace("save_every = \"25%\"", "save_every = 500")
}

#[test]
fn a_gpu_that_is_not_there_is_told_by_check() {
    let project = project(VITS);
    let (_, _, errors) = said(&project, &["check", "."]);
    let has_gpu = ["/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/gpus"]
        .iter()
        .any(|path| std::path::Path::new(path).exists());
    assert_eq!(errors.contains("this machine has no NVIDIA GPU"), !has_gpu, "{errors}");
    let (_, _, errors) = said(&project, &["check", ".", "--set", "params.device=cpu"]);
    assert!(!errors.contains("NVIDIA"), "{errors}");
}

#[test]
fn a_table_that_changed_after_a_run_is_counted_by_its_lines() {
    let project = project(VITS);
    write_clips(&project, &["a", "b", "c"]);
    let table = |text: &str| {
        let rows = ["a", "b", "c"].map(|name| format!("wavs/{name}.wav|{text} {name}\n"));
        project.write("data/metadata.csv", format!("file|text\n{}", rows.concat()));
    };
    table("teksti");
    let (code, _, errors) = said(&project, &["run", ".", "clips"]);
    assert_eq!(code, Some(0), "{errors}");
    table("toinen");
    let (_, told, errors) = said(&project, &["check", "."]);
    assert!(
        told.contains("`clips` gives 3 clips of ") && told.contains("one per line"),
        "{told}{errors}"
    );
}

#[test]
fn check_and_plan_tell_what_trainings_will_do() {
    // A plan needs no files, and finds that empty ones have no clips.
    let bare = bare(RECIPE);
    for (command, project) in [("check", &project(RECIPE)), ("plan", &bare)] {
        let (code, told, errors) = said(project, &[command, "."]);
        assert_eq!(code, Some(0), "{errors}");
        let finnish = told.lines().find(|line| line.starts_with("finnish: ")).unwrap();
        assert!(
            finnish.starts_with("finnish: 1,620 steps (1,350 to 1,944) of 8 rows, 27 per pass")
        );
        assert!(finnish.contains("60 passes over 3,920 clips, 80 held out, 0 left out"));
        assert!(told.contains("\nadapters: 2,575 steps"), "{told}");
    }
    let (_, told, _) = said(&project(RECIPE), &["check", "."]);
    assert!(told.contains("\nassumed: `") && told.contains("from `[expect]`\n"), "{told}");
    let sentences = "assumed: `comparison` gives 100 clips of 7.2 s each, one per line of its file";
    assert!(told.contains(sentences), "{told}");
    let without = RECIPE.split("[expect]").next().unwrap().to_owned();
    let (_, told, errors) = said(&project(&without), &["check", "."]);
    assert!(
        told.contains(" gives 1000 clips of 6.0 s each, a guess until `[expect]` has numbers"),
        "{told}{errors}"
    );
    let (_, told, _) = said(&bare, &["plan", ".", "--json"]);
    let plan: Value = serde_json::from_str(&told).unwrap();
    let training = &plan["estimate"]["stages"]["finnish"]["training"];
    assert_eq!(training["steps"]["likely"].as_f64(), Some(1_620.0));
    assert_eq!(training["steps_of_pass"].as_f64(), Some(27.0));
    assert_eq!(training["course"]["clips"]["used"], 3_920);
}

#[test]
fn check_makes_no_cache() {
    let project = project(RECIPE);
    assert_eq!(said(&project, &["check", "."]).0, Some(0));
    assert!(!project.file(".throstle").exists());
}

#[test]
fn a_schedule_that_cannot_act_in_the_expected_clips_is_an_error_of_check_and_plan() {
    let (whole, bare) = (project(&old()), bare(&old()));
    let calls: [(&Project, &[&str]); 3] =
        [(&whole, &["check", "."]), (&bare, &["plan", "."]), (&bare, &["plan", ".", "--json"])];
    for (project, arguments) in calls {
        let (code, _, errors) = said(project, arguments);
        assert_eq!(code, Some(2), "{errors}");
        for part in [
            "stage `finnish`: `warm_up` takes 100 steps, but the training has 81 steps: the \
             learning rate never reaches `learning_rate`",
            "`validate_every` is 200 steps, but the training has 81 steps",
            "`patience` needs 5 validations of 200 steps each, but the training has 81 steps",
            "`save_every` is 500 steps, but the training has 81 steps",
            "help: set a share of the steps, such as `warm_up = \"5%\"`",
        ] {
            assert!(errors.contains(part), "{part} in {errors}");
        }
    }
}

#[test]
fn of_an_empty_folder_no_schedule_follows() {
    let project = project(&old());
    assert_eq!(said(&project, &["plan", "."]).0, Some(0));
    let (code, told, errors) = said(&project, &["check", "."]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(!told.contains("warning"), "{told}");
    assert!(errors.contains(" has no items: check its files and paths"), "{errors}");
}

#[test]
fn where_the_steps_are_given_each_mistake_has_its_place_in_the_manifest() {
    let vits = VITS
        .replace("epochs = 150.0", "steps = 100")
        .replace("validate_every = \"2%\"", "validate_every = 10");
    let project = project(&vits);
    for command in ["check", "run"] {
        let (code, _, errors) = said(&project, &[command, "."]);
        assert_eq!(code, Some(2), "{errors}");
        let message =
            "`patience` needs 20 validations of 10 steps each, but the training has 100 steps";
        assert!(errors.contains(message) && errors.contains("pipeline.toml:"), "{errors}");
        assert!(errors.contains("patience = 20 "), "{errors}");
    }
}

#[test]
fn a_share_is_a_share_of_the_steps_and_nothing_else() {
    for (written, message) in [
        ("\"101%\"", "`warm_up` must be a share from 0 % up to 100 %"),
        ("\"-1%\"", "`warm_up` must be a share from 0 % up to 100 %"),
        ("\"five\"", "`warm_up` should be an integer, or a share of all steps"),
        ("0.05", "`warm_up` should be an integer"),
        ("\"100%\"", "`warm_up` takes 50 steps, but the training has 50 steps"),
    ] {
        let recipe = RECIPE
            .replace("epochs = 60.0", "steps = 50")
            .replace("warm_up = \"5%\"", &format!("warm_up = {written}"));
        let (code, _, errors) = said(&project(&recipe), &["check", "."]);
        assert_eq!(code, Some(2), "{written}: {errors}");
        assert!(errors.contains(message), "{written}: {errors}");
    }
    let none = RECIPE.replacen("validate_every = \"4%\"", "validate_every = \"0%\"", 1);
    let (code, _, errors) = said(&project(&none), &["check", "."]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("`validate_every` must be a share above 0 % up to 100 %"), "{errors}");
}

#[test]
fn a_training_with_two_lengths_or_none_is_refused_where_it_is_written() {
    let both = RECIPE.replacen("epochs = 60.0", "epochs = 60.0\nsteps = 10", 1);
    let none = RECIPE.replacen("epochs = 60.0", "", 1);
    for (recipe, message) in [
        (both, "both `steps` and `epochs` are given"),
        (none, "the length of the training is missing"),
    ] {
        let (code, told, errors) = said(&project(&recipe), &["check", "."]);
        assert_eq!((code, told.as_str()), (Some(2), ""));
        assert!(errors.contains(message) && errors.contains("pipeline.toml"), "{errors}");
    }
}
