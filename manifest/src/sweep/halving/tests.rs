//! Halving over simulated trainings: in any order, on any number of workers, killed anywhere.
#![allow(clippy::unwrap_used)]

use super::*;

/// Numbers from 0 up to 1 that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1_u64 << 24) as f64
    }
}

/// Learning curves `a + b * steps^-c` with noise, and the durations of their legs.
struct World {
    scores: Vec<Vec<Score>>,
    random: Random,
}

impl World {
    fn new(halving: &Halving, seed: u64) -> World {
        let mut random = Random(seed);
        let curve = |random: &mut Random| -> Vec<Score> {
            let (a, b, c) = (random.next(), 3.0 * random.next(), 0.2 + random.next());
            let at = |steps: &u64| {
                let noise = 0.02 * (random.next() - 0.5);
                if random.next() < 0.03 {
                    Score::new(f64::NAN)
                } else {
                    Score::new(a + b * (*steps as f64).powf(-c) + noise)
                }
            };
            halving.rungs.iter().map(at).collect()
        };
        let scores = (0..halving.trials).map(|_| curve(&mut random)).collect();
        World { scores, random }
    }

    fn score(&self, leg: Leg) -> Score {
        self.scores[leg.trial][leg.rung]
    }

    /// A lognormal duration by the steps of a leg.
    fn duration(&mut self, halving: &Halving, leg: Leg) -> f64 {
        let before = leg.rung.checked_sub(1).map_or(0, |below| halving.rungs[below]);
        let uniform: f64 = (0..12).map(|_| self.random.next()).sum::<f64>() - 6.0;
        (halving.rungs[leg.rung] - before) as f64 * (0.3 * uniform).exp()
    }
}

/// Every rung as a whole, one after the other.
fn synchronous(halving: &Halving, world: &World) -> Option<usize> {
    let mut members: Vec<usize> = (0..halving.trials).collect();
    for rung in 0..halving.rungs.len() {
        let score = |trial: usize| (world.score(Leg { rung, trial }), trial);
        members.retain(|trial| score(*trial).0 != Score::Failed);
        members.sort_by(|one, other| {
            let (own, one) = score(*one);
            if own.is_before(one, score(*other)) {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            }
        });
        let is_last = rung + 1 == halving.rungs.len();
        members.truncate(if is_last { 1 } else { halving.places(rung + 1) });
    }
    members.first().copied()
}

/// The result of a simulation.
struct Done {
    scores: Scores,
    steps: u64,
}

/// Runs legs on workers until none is left; after each finished leg everything that runs is killed
/// with this chance, and begins anew.
fn simulate(halving: &Halving, world: &mut World, workers: usize, kills: f64) -> Done {
    let mut done = Done { scores: Scores::new(), steps: 0 };
    let mut running: Vec<(f64, Leg)> = Vec::new();
    let mut now = 0.0;
    loop {
        for leg in halving.ready(&done.scores) {
            let is_running = running.iter().any(|(_, own)| *own == leg);
            if running.len() < workers && !is_running {
                running.push((now + world.duration(halving, leg), leg));
            }
        }
        let next =
            (0..running.len()).min_by(|one, other| running[*one].0.total_cmp(&running[*other].0));
        let Some(next) = next else { return done };
        let (end, leg) = running.remove(next);
        now = end;
        done.scores.insert((leg.rung, leg.trial), world.score(leg));
        let before = leg.rung.checked_sub(1).map_or(0, |below| halving.rungs[below]);
        done.steps += halving.rungs[leg.rung] - before;
        if world.random.next() < kills {
            running.clear();
        }
    }
}

#[test]
fn every_order_of_completion_has_the_winner_of_synchronous_halving() {
    let shapes = [(27, 81, 3), (16, 64, 4), (9, 90, 3), (5, 20, 2), (1, 10, 3)];
    for order in 0..200_u64 {
        let (trials, steps, eta) = shapes[order as usize % shapes.len()];
        let halving = Halving::new(trials, steps, eta);
        let mut world = World::new(&halving, order);
        let wanted = synchronous(&halving, &world);
        let workers = 1 + order as usize % 8;
        let kills = [0.0, 0.1, 0.5][order as usize % 3];
        let done = simulate(&halving, &mut world, workers, kills);
        assert_eq!(halving.winner(&done.scores), wanted, "order {order}: {halving:?}");
        assert!(done.steps <= halving.steps(), "order {order}");
    }
}

#[test]
fn one_sweep_has_one_winner_in_a_thousand_orders() {
    for (trials, steps, eta) in [(27, 81, 3), (16, 64, 4)] {
        let halving = Halving::new(trials, steps, eta);
        let mut world = World::new(&halving, 11);
        let wanted = synchronous(&halving, &world);
        assert!(wanted.is_some());
        for order in 0..1_000 {
            world.random = Random(order);
            let kills = if order % 2 == 0 { 0.0 } else { 0.2 };
            let done = simulate(&halving, &mut world, 1 + order as usize % 8, kills);
            assert_eq!(halving.winner(&done.scores), wanted, "order {order}");
        }
    }
}

/// For rungs that continue from each other.
#[test]
fn a_sweep_costs_the_share_that_halving_leaves() {
    for (trials, eta, percent) in [(9, 3, 26.0), (16, 4, 16.0), (27, 3, 11.0)] {
        let halving = Halving::new(trials, 810 * 256, eta);
        assert_eq!((halving.share(0) * 100.0).round(), percent, "{halving:?}");
        assert_eq!(halving.places(halving.rungs.len() - 1), 1);
    }
    let none = Halving { trials: 4, rungs: vec![100], eta: 3 };
    assert_eq!((none.steps(), none.share(0)), (400, 1.0));
    let repeated = Halving { trials: 4, rungs: vec![4, 12], eta: 3 };
    assert_eq!((repeated.share(0), repeated.share(1), repeated.share(3)), (0.5, 0.75, 1.25));
}

#[test]
fn a_trial_goes_on_only_when_no_unfinished_one_can_take_its_place() {
    let halving = Halving { trials: 4, rungs: vec![10, 20], eta: 2 };
    let mut scores = Scores::new();
    scores.insert((0, 0), Score::Of(0.1));
    assert_eq!(halving.fate(0, 0, &scores), Fate::Open);
    scores.insert((0, 1), Score::Of(0.5));
    assert_eq!(halving.fate(0, 0, &scores), Fate::Open, "two others may be better");
    scores.insert((0, 2), Score::Of(0.4));
    assert_eq!(halving.fate(0, 0, &scores), Fate::On);
    assert_eq!(halving.fate(0, 1, &scores), Fate::Out);
    assert_eq!(halving.fate(0, 2, &scores), Fate::Open);
    let ready = halving.ready(&scores);
    assert_eq!(ready, [Leg { rung: 1, trial: 0 }, Leg { rung: 0, trial: 3 }]);
}

#[test]
fn failures_rank_last_and_never_go_on() {
    let halving = Halving { trials: 4, rungs: vec![10, 20], eta: 2 };
    let mut scores = Scores::new();
    for (trial, score) in [f64::NAN, 5.0, f64::INFINITY, f64::NAN].into_iter().enumerate() {
        scores.insert((0, trial), Score::new(score));
    }
    let fates: Vec<Fate> = (0..4).map(|trial| halving.fate(0, trial, &scores)).collect();
    assert_eq!(fates, [Fate::Out, Fate::On, Fate::Out, Fate::Out]);
    scores.insert((1, 1), Score::Of(1.0));
    assert_eq!(halving.winner(&scores), Some(1));
    assert!(halving.ready(&scores).is_empty());
    scores.insert((1, 1), Score::Failed);
    assert_eq!(halving.winner(&scores), None);
}

#[test]
fn equal_scores_go_to_the_first_trial() {
    let halving = Halving { trials: 3, rungs: vec![10], eta: 3 };
    let scores: Scores = (0..3).map(|trial| ((0, trial), Score::Of(0.5))).collect();
    assert_eq!(halving.winner(&scores), Some(0));
}

#[test]
fn a_trial_that_is_added_leaves_the_scores_of_the_others_and_runs_alone() {
    let before = Halving { trials: 3, rungs: vec![10], eta: 3 };
    let scores: Scores = (0..3).map(|trial| ((0, trial), Score::Of(trial as f64))).collect();
    assert!(before.ready(&scores).is_empty());
    let after = Halving { trials: 4, ..before };
    assert_eq!(after.ready(&scores), [Leg { rung: 0, trial: 3 }]);
}
