//! Accepts connections, and passes the requests that the rules allow to the service.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::Duration;

use crate::head::Head;
use crate::limits::Limits;
use crate::peer::{Begun, Peer};
use crate::refusal::Refusal;
use crate::request::{Method, Request};
use crate::rules::Rules;
use crate::silent::Silent;

/// The pause after a failure to accept, such as a lack of descriptors.
const RECOVERY: Duration = Duration::from_millis(50);

/// Connections beyond the limit that get an answer; further ones are closed at once.
const TURNED_AWAY: usize = 32;

/// The answers of a server.
pub trait Service: Send + Sync {
    /// Tests if a path needs no token: pages that show nothing by themselves.
    fn is_public(&self, path: &str) -> bool;

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// A refusal before the answer has begun; the connection is closed in any case.
    fn answer(&self, request: &Request, peer: &mut Peer) -> Result<(), Refusal>;

    /// Called once for every connection with a request, with the status of its answer.
    fn answered(&self, _status: u16) {}
}

pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

impl Listener {
    /// Port 0 is any free port.
    ///
    /// # Errors
    ///
    /// Those of the system, such as a port that is taken.
    pub fn bind(address: SocketAddr, limits: Limits) -> io::Result<Listener> {
        let socket = TcpListener::bind(address)?;
        Ok(Listener { address: socket.local_addr()?, socket, limits })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves for ever.
    pub fn serve(&self, rules: &Rules, service: &Arc<dyn Service>) {
        let (open, silent) = (Arc::new(AtomicUsize::new(0)), Arc::new(Silent::default()));
        for (order, stream) in (0..).zip(self.socket.incoming()) {
            let Ok(stream) = stream else {
                std::thread::sleep(RECOVERY);
                continue;
            };
            let place = Place::take(&open);
            let beyond = place.number.saturating_sub(self.limits.connections);
            if beyond > TURNED_AWAY {
                continue;
            }
            let is_served = beyond == 0 || silent.close_oldest();
            if is_served && silent.add(order, &stream).is_err() {
                continue;
            }
            let peer = Peer::new(stream, self.limits);
            let (rules, service, silent) = (rules.clone(), service.clone(), silent.clone());
            let work = move || {
                match is_served {
                    true => converse(peer, &rules, &*service, || silent.remove(order)),
                    false => turn_away(peer),
                }
                drop(place);
            };
            // Without a thread the connection is closed.
            let _ = Builder::new().name("connection".into()).spawn(work);
        }
    }
}

/// A place among the open connections.
struct Place {
    open: Arc<AtomicUsize>,
    /// The number of connections with this one.
    number: usize,
}

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Place {
        let number = open.fetch_add(1, Ordering::SeqCst) + 1;
        Place { open: open.clone(), number }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tells a client that there are too many, whatever it asks.
fn turn_away(mut peer: Peer) {
    let refusal = Refusal::new(503, "too many connections");
    // If the client is gone, nobody has to know.
    let _ = peer.send(&Refusal { retry_after: Some(1), ..refusal }.response());
    peer.close();
}

fn converse(mut peer: Peer, rules: &Rules, service: &dyn Service, head_is_over: impl FnOnce()) {
    let head = peer.head();
    head_is_over();
    let request = match receive(&mut peer, head, rules, service) {
        Ok(Some(request)) => request,
        // The client left.
        Ok(None) | Err(_) => return,
    };
    let refused = request.and_then(|request| service.answer(&request, &mut peer)).err();
    if let (Some(refusal), None) = (refused, peer.status) {
        // If the client is gone, nobody has to know.
        let _ = peer.send(&refusal.response());
    }
    service.answered(peer.status.unwrap_or(500));
    peer.close();
}

/// A request, or the reason why it is refused. None if there is nobody to tell.
fn receive(
    peer: &mut Peer,
    head: io::Result<Option<Result<Begun, Refusal>>>,
    rules: &Rules,
    service: &dyn Service,
) -> io::Result<Option<Result<Request, Refusal>>> {
    let Some(head) = head? else { return Ok(None) };
    let Begun { head, rest, end } = match head {
        Ok(begun) => begun,
        Err(refusal) => return Ok(Some(Err(refusal))),
    };
    let (method, length) = match admitted(&head, rules, service) {
        Ok(admitted) => admitted,
        Err(refusal) => return Ok(Some(Err(refusal))),
    };
    let body = peer.body(rest, length, end)?;
    Ok(Some(body.map(|body| Request { method, path: head.path, body })))
}

/// The method, and the length of the body.
fn admitted(head: &Head, rules: &Rules, service: &dyn Service) -> Result<(Method, usize), Refusal> {
    rules.check(head, service.is_public(&head.path))?;
    match head.method.as_str() {
        "GET" => match head.body_length()? {
            None | Some(0) => Ok((Method::Get, 0)),
            Some(_) => Err(Refusal::new(400, "a GET request must not have a body")),
        },
        "POST" => {
            // A form of another page cannot send this type without asking first, which nobody
            // answers.
            let given = head.one("content-type")?.unwrap_or_default();
            let media_type = given.split(';').next().unwrap_or_default().trim();
            if !media_type.eq_ignore_ascii_case("application/json") {
                return Err(Refusal::new(415, "the body must be `application/json`"));
            }
            let missing =
                || Refusal::new(411, "chunked bodies are not supported: send `Content-Length`");
            Ok((Method::Post, head.body_length()?.ok_or_else(missing)?))
        }
        _ => Err(Refusal::new(405, "only GET and POST are supported")),
    }
}
