//! Requests that are refused, with the status and the reason.

use crate::peer::Response;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub reason: String,
    /// The time after which the client may try again, in seconds.
    pub retry_after: Option<u64>,
}

impl Refusal {
    pub fn new(status: u16, reason: impl Into<String>) -> Refusal {
        Refusal { status, reason: reason.into(), retry_after: None }
    }

    /// The error in the format of OpenAI, which its clients show.
    pub fn response(&self) -> Response {
        let kind = match self.status {
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let error = serde_json::json!({
            "error": {"message": self.reason, "type": kind, "param": null, "code": null},
        });
        let mut response = Response::json(self.status, &error);
        if let Some(seconds) = self.retry_after {
            response.headers.push(("Retry-After", seconds.to_string()));
        }
        if self.status == 401 {
            response.headers.push(("WWW-Authenticate", "Bearer".to_owned()));
        }
        response
    }
}
