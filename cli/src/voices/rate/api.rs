//! The answers of the server of a listening test.
//!
//! Names of recordings are hashes that differ for each pair and each start of the program, so that
//! the page cannot tell which voice it plays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cache::Digest;
use serde::Deserialize;
use serde_json::{Value, json};
use server::{Method, Peer, Refusal, Request, Response, Service, new_token};
use stage_speech::rate::sheet::Trial;
use stage_speech::rate::votes::{Answer, Vote};
use view::local::Page;

use super::log::VoteLog;
use super::test::{Recordings, Test};
use crate::error::CliError;
use crate::voices::local;

const SOUND: &str = "/rate/sound/";
const SIDES: [&str; 2] = ["left", "right"];

pub struct RatingApi {
    test: Test,
    recordings: Recordings,
    rater: String,
    /// Unknown to the page.
    secret: String,
    page: Page,
    state: Mutex<RatingState>,
}

struct RatingState {
    log: VoteLog,
    /// The number of the round, from 0.
    round: usize,
    trials: Vec<Trial>,
}

/// The vote of a page. The position is the number of votes that the page knows of.
#[derive(Deserialize)]
struct PageVote {
    position: usize,
    answer: Answer,
    #[serde(default)]
    seconds: f64,
}

#[derive(Deserialize)]
struct At {
    position: usize,
}

impl RatingApi {
    pub fn new(
        test: Test,
        recordings: Recordings,
        log: VoteLog,
        rater: &str,
    ) -> Result<RatingApi, CliError> {
        let rater = rater.to_owned();
        let secret = new_token().map_err(CliError::process("make names"))?;
        let round = begun(&test, &log, &rater);
        let trials = test.sheet.round(&rater, round);
        let (page, state) = (view::rate::page(), Mutex::new(RatingState { log, round, trials }));
        Ok(RatingApi { test, recordings, rater, secret, page, state })
    }

    /// The number of stored votes.
    pub fn votes(&self) -> usize {
        self.lock().log.votes().votes.len()
    }

    fn lock(&self) -> MutexGuard<'_, RatingState> {
        // A vote is added after it is durable, so nothing is half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first trial without a vote.
    fn next(&self, state: &RatingState) -> Option<Trial> {
        let is_open = |trial: &&Trial| !self.has_vote(state, trial);
        state.trials.iter().find(is_open).copied()
    }

    fn has_vote(&self, state: &RatingState, trial: &Trial) -> bool {
        state.log.votes().on(&self.test.pairs[trial.pair].id, trial.repeat).is_some()
    }

    fn name(&self, state: &RatingState, side: &str) -> String {
        let position = state.log.votes().votes.len();
        Digest::of(format!("{} {position} {side}", self.secret).as_bytes()).short()
    }

    fn tell(&self, state: &RatingState) -> Value {
        let next = self.next(state);
        let done = state.trials.iter().filter(|trial| self.has_vote(state, trial)).count();
        let votes = state.log.votes().votes.len();
        let mut told = json!({
            "position": votes,
            "done": done,
            "total": state.trials.len(),
            "round": state.round + 1,
            "rounds": self.test.sheet.rounds(),
            "tie": self.test.tie,
            "undo": votes > 0,
            "finished": next.is_none(),
            "more": next.is_none() && state.round + 1 < self.test.sheet.rounds(),
        });
        if let Some(trial) = next {
            told["text"] = json!(self.test.texts[trial.pair]);
            for side in SIDES {
                told[side] = json!(self.name(state, side));
            }
        }
        told
    }

    fn vote(&self, given: &PageVote) -> Result<Value, Refusal> {
        let mut state = self.lock();
        // The answer to an earlier request was lost: its vote is stored.
        if given.position != state.log.votes().votes.len() {
            return Ok(self.tell(&state));
        }
        let Some(trial) = self.next(&state) else { return Ok(self.tell(&state)) };
        if given.answer == Answer::Same && !self.test.tie {
            return Err(Refusal::new(400, "this test does not allow `no difference`"));
        }
        let vote = Vote {
            pair: self.test.pairs[trial.pair].id.clone(),
            swapped: trial.swapped,
            repeat: trial.repeat,
            answer: given.answer,
            seconds: if given.seconds.is_finite() { given.seconds } else { 0.0 },
        };
        state.log.add(&vote).map_err(|error| unstored(&error))?;
        Ok(self.tell(&state))
    }

    fn undo(&self, at: &At) -> Result<Value, Refusal> {
        let mut state = self.lock();
        if at.position == state.log.votes().votes.len() {
            state.log.undo().map_err(|error| unstored(&error))?;
            let round = begun(&self.test, &state.log, &self.rater);
            self.turn_to(&mut state, round);
        }
        Ok(self.tell(&state))
    }

    fn more(&self, at: &At) -> Value {
        let mut state = self.lock();
        let is_last = state.round + 1 >= self.test.sheet.rounds();
        let is_asked = at.position == state.log.votes().votes.len();
        if is_asked && !is_last && self.next(&state).is_none() {
            let round = state.round + 1;
            self.turn_to(&mut state, round);
        }
        self.tell(&state)
    }

    fn turn_to(&self, state: &mut RatingState, round: usize) {
        state.round = round;
        state.trials = self.test.sheet.round(&self.rater, round);
    }

    /// The recording of the pair that is shown.
    fn sound(&self, name: &str) -> Result<Response, Refusal> {
        let unknown = || Refusal::new(404, "this recording is not part of the current pair");
        let blob = {
            let state = self.lock();
            let side = SIDES.iter().position(|side| self.name(&state, side) == *name);
            let side = side.ok_or_else(unknown)?;
            let blobs = self.next(&state).and_then(|trial| self.recordings.blobs(trial));
            blobs.ok_or_else(unknown)?[side].clone()
        };
        let bytes = self.recordings.read(&blob).map_err(|why| Refusal::new(500, why))?;
        Ok(Response::new(200, "audio/wav", bytes))
    }

    fn respond(&self, request: &Request) -> Result<Response, Refusal> {
        let state = |told: Value| Response::json(200, &told);
        match (request.method, request.path.as_str()) {
            (Method::Get, "/") => Ok(local::answer(&self.page)),
            (Method::Get, "/rate/state") => Ok(state(self.tell(&self.lock()))),
            (Method::Post, "/rate/vote") => Ok(state(self.vote(&body(request)?)?)),
            (Method::Post, "/rate/undo") => Ok(state(self.undo(&body(request)?)?)),
            (Method::Post, "/rate/more") => Ok(state(self.more(&body(request)?))),
            (Method::Get, path) if path.starts_with(SOUND) => self.sound(&path[SOUND.len()..]),
            (method, path) => Err(Refusal::new(404, format!("not found: {method:?} {path}"))),
        }
    }
}

/// The last round with a vote.
fn begun(test: &Test, log: &VoteLog, rater: &str) -> usize {
    let has_vote = |trial: &Trial| {
        let pair = &test.pairs[trial.pair];
        pair.role == stage_speech::rate::sheet::PairRole::Pair
            && log.votes().on(&pair.id, trial.repeat).is_some()
    };
    let is_begun = |round: &usize| test.sheet.round(rater, *round).iter().any(has_vote);
    (0..test.sheet.rounds()).rev().find(is_begun).unwrap_or(0)
}

fn body<'a, T: Deserialize<'a>>(request: &'a Request) -> Result<T, Refusal> {
    serde_json::from_slice(&request.body)
        .map_err(|error| Refusal::new(400, format!("invalid request body: {error}")))
}

fn unstored(error: &CliError) -> Refusal {
    Refusal::new(500, format!("the vote is not stored: {}", error.told()))
}

impl Service for RatingApi {
    /// The page shows nothing by itself.
    fn is_public(&self, path: &str) -> bool {
        path == "/"
    }

    fn answer(&self, request: &Request, peer: &mut Peer) -> Result<(), Refusal> {
        let response = self.respond(request)?;
        // If the page is gone, it asks again when it is opened again.
        let _ = peer.send(&response);
        Ok(())
    }
}
