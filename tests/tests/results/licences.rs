//! A licence applies to everything derived from an asset, and is written beside exports.

use throstle_tests::training::{MANIFEST, lab};
use throstle_tests::{Lab, Ran};

const ASSET: &str = "[assets.base]\npath = \"base.bin\"\nlicense = \"CC-BY-NC-SA-4.0\"\n";

fn write(lab: &Lab, asset: &str, export: &str) {
    let model = format!("base = \"assets.base\"\n{export}");
    lab.write("pipeline.toml", &format!("{asset}{}", MANIFEST.replace("retries = 2", &model)));
}

fn licensed() -> Lab {
    let lab = lab();
    lab.write("base.bin", "base");
    write(&lab, ASSET, "");
    lab
}

fn exported(ran: &Ran) -> usize {
    use engine::event::Event;
    ran.events.iter().filter(|event| matches!(event, Event::Exported { .. })).count()
}

#[test]
fn a_folder_of_files_has_the_licence_of_what_it_derives_from_in_it() {
    let lab = licensed();
    lab.run();
    let text = lab.read("out/model/LICENSE.txt").unwrap();
    assert_eq!(text, "Derived from works under these licences:\nCC-BY-NC-SA-4.0\n");
    assert_eq!(exported(&lab.run()), 0);
    lab.remove("out/model/LICENSE.txt");
    assert_eq!(exported(&lab.run()), 1);
    assert_eq!(lab.read("out/model/LICENSE.txt"), Some(text));
}

#[test]
fn another_licence_is_written_and_trains_nothing() {
    let lab = licensed();
    lab.run();
    write(&lab, &ASSET.replace("CC-BY-NC-SA-4.0", "Apache-2.0"), "");
    let ran = lab.run();
    assert!(ran.nothing_executed(), "{:?}", ran.events);
    assert!(lab.read("out/model/LICENSE.txt").unwrap().contains("Apache-2.0"));
    write(&lab, "[assets.base]\npath = \"base.bin\"\n", "");
    lab.run();
    assert_eq!(lab.read("out/model/LICENSE.txt"), None);
    assert!(lab.read("out/model/weights").is_some());
}

#[test]
fn a_file_alone_has_its_licence_beside_it() {
    let lab = licensed();
    let manifest = lab.read("pipeline.toml").unwrap();
    let export = "export = { weights = \"out/model.bin\" }";
    lab.write("pipeline.toml", &manifest.replace("export = \"out/model\"", export));
    lab.run();
    assert_eq!(lab.exports().into_keys().collect::<Vec<_>>(), ["model.bin", "model.bin.license"]);
}

#[test]
fn what_derives_from_no_licensed_asset_stands_alone() {
    let lab = lab();
    lab.run();
    let files: Vec<String> = lab.exports().into_keys().collect();
    assert_eq!(files, ["model/frozen", "model/weights"]);
}
