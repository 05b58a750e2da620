//! The answers of the server of a review.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::json;
use server::{Method, Peer, Refusal, Request, Response, Service};
use view::local::Page;

use super::session::{Session, Wish};
use crate::voices::local;

pub struct ReviewApi {
    /// The stage, and the table as the manifest names it.
    pub stage: String,
    pub table: String,
    pub session: Mutex<Session>,
    pub page: Page,
}

impl ReviewApi {
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clips(&self) -> Response {
        let session = self.session();
        let rows: Vec<_> = session.rows().collect();
        let found = json!({
            "stage": self.stage,
            "table": self.table,
            "all": session.all(),
            "corrections": session.corrections(),
            "rows": rows,
        });
        Response::json(200, &found)
    }

    fn correct(&self, body: &[u8]) -> Result<Response, Refusal> {
        let wish: Wish = serde_json::from_slice(body)
            .map_err(|error| Refusal::new(400, format!("invalid correction: {error}")))?;
        let changed = self.session().wish(wish)?;
        Ok(Response::json(200, &json!(changed)))
    }
}

impl Service for ReviewApi {
    /// The page shows nothing by itself.
    fn is_public(&self, path: &str) -> bool {
        path == "/"
    }

    fn answer(&self, request: &Request, peer: &mut Peer) -> Result<(), Refusal> {
        let (method, path) = (request.method, request.path.as_str());
        let response = match (method, path) {
            (Method::Get, "/") => local::answer(&self.page),
            (Method::Get, "/clips") => self.clips(),
            (Method::Post, "/correct") => self.correct(&request.body)?,
            _ => match (method, path.split_once("/audio/"), path.split_once("/words/")) {
                (Method::Get, Some(("", key)), _) => {
                    Response::new(200, "audio/wav", self.session().sound(key)?)
                }
                (Method::Get, _, Some(("", key))) => {
                    Response::json(200, &json!(self.session().words(key)?))
                }
                _ => return Err(Refusal::new(404, format!("not found: {method:?} {path}"))),
            },
        };
        // If the client is gone, nobody has to know.
        let _ = peer.send(&response);
        Ok(())
    }
}
