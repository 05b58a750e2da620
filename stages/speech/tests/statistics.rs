//! Statistics against those of scipy and numpy, at the versions that `scipy.json` names. The script
//! beside that file makes it again.
//!
//! Intervals of a bootstrap have an error of their own: 20,000 draws know a bound at 5 % to 0.015
//! of a standard error, and those of the reference to 0.007; four times their sum is allowed.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use stage_core::{Item, Value as Field};
use stage_expression::{Whole, measure};
use stage_speech::statistics::aggregate::MeasureValues;
use stage_speech::statistics::bootstrap::{Draws, Interval};
use stage_speech::statistics::bradley_terry::WinCounts;
use stage_speech::statistics::simultaneous::bounds;
use stage_speech::statistics::table::SentenceTable;

const DRAWS: usize = 20_000;
const TOLERANCE: f64 = 0.09;

fn reference() -> Value {
    serde_json::from_str(include_str!("statistics_fixtures/scipy.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect()
}

fn near(found: f64, wanted: f64, tolerance: f64) {
    assert!((found - wanted).abs() <= tolerance, "{found} is not {wanted} within {tolerance}");
}

#[test]
fn paired_intervals_are_those_of_scipy() {
    let reference = &reference()["paired"];
    let (base, own) = (numbers(&reference["base"]), numbers(&reference["own"]));
    let model = |name: &str, values: &[f64]| -> Vec<Item> {
        let item = |(at, cer): (usize, &f64)| {
            let fields = [
                ("checkpoint", Field::text(name)),
                ("sentence", Field::text(format!("{at:03}"))),
                ("cer", Field::Number(*cer)),
            ];
            Item::new(format!("{at:03}@{name}"), fields.into_iter().collect())
        };
        values.iter().enumerate().map(item).collect()
    };
    let items = [model("base", &base), model("own", &own)].concat();
    let table = SentenceTable::of(&items, stage_speech::quality::choose::place).unwrap();
    let draws = Draws::new(base.len(), DRAWS, 1);
    for (name, wanted) in reference["figures"].as_object().unwrap() {
        let whole: Whole = measure(&format!("{name}(cer)")).unwrap();
        let [base, own] =
            ["base", "own"].map(|name| MeasureValues::of(&whole, name, &table).unwrap());
        let difference = |places: &[u32]| own.value(places, 0.0) - base.value(places, 0.0);
        let value = own.total(table.sentences.len()) - base.total(table.sentences.len());
        let found = Interval::by(&draws, 0.9, value, difference);
        let error = wanted["error"].as_f64().unwrap();
        near(found.value, wanted["value"].as_f64().unwrap(), 1e-12);
        near(found.low, wanted["low"].as_f64().unwrap(), TOLERANCE * error);
        near(found.high, wanted["high"].as_f64().unwrap(), TOLERANCE * error);
    }
}

#[test]
fn bounds_for_all_candidates_are_those_of_the_maximum_statistic_in_numpy() {
    let reference = &reference()["simultaneous"];
    let candidates: Vec<Vec<f64>> =
        reference["candidates"].as_array().unwrap().iter().map(numbers).collect();
    let count = candidates[0].len();
    let draws = Draws::new(count, DRAWS, 3);
    let mean = |own: &[f64], places: &[u32]| {
        places.iter().map(|place| own[*place as usize]).sum::<f64>() / places.len() as f64
    };
    let values: Vec<f64> =
        candidates.iter().map(|own| own.iter().sum::<f64>() / count as f64).collect();
    let drawn: Vec<Vec<f64>> =
        candidates.iter().map(|own| draws.iter().map(|draw| mean(own, draw)).collect()).collect();
    let found = bounds(&values, &drawn, 0.9);
    let [low, high, errors] = ["low", "high", "errors"].map(|name| numbers(&reference[name]));
    for (at, found) in found.iter().enumerate() {
        // The largest deviation has a wider tail than one deviation.
        near(found.low, low[at], 2.0 * TOLERANCE * errors[at]);
        near(found.high, high[at], 2.0 * TOLERANCE * errors[at]);
    }
}

#[test]
fn strengths_and_their_covariance_are_those_of_scipy() {
    let reference = &reference()["bradley_terry"];
    let wins: Vec<Vec<f64>> = reference["wins"].as_array().unwrap().iter().map(numbers).collect();
    let mut votes = WinCounts::new(wins.len());
    for (winner, row) in wins.iter().enumerate() {
        for (loser, count) in row.iter().enumerate() {
            (0..*count as usize).for_each(|_| votes.win(winner, loser));
        }
    }
    let found = votes.fit(reference["prior"].as_f64().unwrap());
    for (value, wanted) in found.values.iter().zip(numbers(&reference["values"])) {
        near(*value, wanted, 1e-5);
    }
    let covariance = reference["covariance"].as_array().unwrap();
    for (row, wanted) in found.covariance.iter().zip(covariance) {
        row.iter().zip(numbers(wanted)).for_each(|(value, wanted)| near(*value, wanted, 1e-5));
    }
}
