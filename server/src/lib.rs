//! A small web server for pages and programs on the same machine.
//!
//! It is responsible for what every page needs: safety rules ([`Rules`]), limits ([`Limits`]) and
//! the wire format. Each connection has a thread and carries one request. What a path means is left
//! to the [`Service`].

mod connections;
mod head;
mod limits;
mod listener;
mod peer;
mod refusal;
mod request;
mod rules;
mod token;

pub use limits::Limits;
pub use listener::{Listener, Service};
pub use peer::{Body, Peer, Response};
pub use refusal::Refusal;
pub use request::{Method, Request};
pub use rules::Rules;
pub use token::new_token;
