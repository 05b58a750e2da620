//! Alignments as torchaudio gives them: `fixtures/make_forced_align.py` made the cases, and says with
//! which versions.
#![allow(clippy::unwrap_used)]

use serde::Deserialize;
use stage_speech::align::viterbi::{Aligner, Emissions, Label, Target};

#[derive(Deserialize)]
struct Fixture {
    made_by: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    symbols: usize,
    emissions: Vec<f32>,
    targets: Vec<usize>,
    path: Vec<usize>,
    score: f64,
}

#[test]
fn paths_and_scores_are_those_of_torchaudio() {
    let fixture: Fixture =
        serde_json::from_str(include_str!("fixtures/forced_align.json")).unwrap();
    assert!(fixture.made_by.contains("torchaudio 2.11") && fixture.cases.len() > 30);
    // Those of MMS_FA have several stars each.
    let stars_of =
        |case: &Case| case.targets.iter().filter(|target| **target == case.symbols).count();
    assert_eq!(
        fixture.cases.iter().filter(|case| case.symbols == 28 && stars_of(case) > 1).count(),
        3
    );
    let mut stars = 0;
    for (number, case) in fixture.cases.iter().enumerate() {
        let target = |symbol: &usize| {
            if *symbol == case.symbols {
                Target::of(Label::Star)
            } else {
                Target::of(Label::Symbol(*symbol))
            }
        };
        let targets: Vec<Target> = case.targets.iter().map(target).collect();
        stars += usize::from(stars_of(case) > 0);
        let emissions = Emissions { symbols: case.symbols, blank: 0, values: &case.emissions };
        let aligner = Aligner::new(emissions, &targets, None);
        let path = aligner.path(&|_| (0, targets.len()), &mut || false).unwrap().unwrap();
        let symbols: Vec<usize> = (0..case.path.len())
            .map(|frame| path.target(frame).map_or(0, |target| case.targets[target]))
            .collect();
        assert_eq!(symbols, case.path, "case {number}");
        assert!((path.score - case.score).abs() < 1e-3, "case {number}");
    }
    assert!(stars > 5, "{stars}");
}
