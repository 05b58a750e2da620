//! The bill of materials of a release, which `tools/sbom.py` makes.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use throstle_tests::guide::{document, root};

fn made() -> String {
    let script = root().join("tools/sbom.py");
    let output = Command::new("python3").arg(script).env("CARGO", env!("CARGO")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no `{field}` in {value}"))
}

/// The checksums of the lock file, by name and version.
fn locked() -> BTreeMap<(String, String), String> {
    let lock = document("Cargo.lock");
    let of = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
    let package = |text| ((of(text, "name = "), of(text, "version = ")), of(text, "checksum = "));
    lock.split("[[package]]").skip(1).map(package).collect()
}

#[test]
fn every_package_in_the_programs_is_listed_with_its_licence_and_checksum() {
    let bill = made();
    assert_eq!(bill, made(), "the same sources give the same bytes");
    let bill: Value = serde_json::from_str(&bill).unwrap();
    assert_eq!((text(&bill, "bomFormat"), text(&bill, "specVersion")), ("CycloneDX", "1.5"));
    let (locked, components) = (locked(), bill["components"].as_array().unwrap());
    let mut names = BTreeSet::new();
    for component in components.iter().filter(|one| text(one, "name") != "libtorch") {
        let (name, version) = (text(component, "name"), text(component, "version"));
        let checksum = locked.get(&(name.to_owned(), version.to_owned()));
        let checksum = checksum.unwrap_or_else(|| panic!("`{name}` {version} is not locked"));
        let own = component["hashes"][0]["content"].as_str().unwrap_or_default();
        assert_eq!(own, checksum, "{name}");
        assert!(!text(&component["licenses"][0], "expression").contains('/'), "{name}");
        assert_eq!(text(component, "purl"), format!("pkg:cargo/{name}@{version}"));
        names.insert(name);
    }
    for name in ["cli", "stage-torch", "throstle-cache", "tch", "redb", "blake3"] {
        assert!(names.contains(name), "`{name}` is in the programs");
    }
    for name in ["throstle-tests", "proptest", "insta", "cc"] {
        assert!(!names.contains(name), "`{name}` is in no program");
    }
    // Every reference leads to a component.
    let mut known: BTreeSet<&str> = components.iter().map(|one| text(one, "bom-ref")).collect();
    assert_eq!(known.len(), components.len());
    known.insert(text(&bill["metadata"]["component"], "bom-ref"));
    let dependencies = bill["dependencies"].as_array().unwrap();
    let above: BTreeSet<&str> = dependencies.iter().map(|one| text(one, "ref")).collect();
    assert_eq!(above, known);
    for below in dependencies.iter().flat_map(|one| one["dependsOn"].as_array().unwrap()) {
        assert!(known.contains(below.as_str().unwrap()), "{below}");
    }
}
