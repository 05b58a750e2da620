//! Accepts connections, and passes the requests that the rules allow to the service.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use crate::connections::Connections;
use crate::head::Head;
use crate::limits::Limits;
use crate::peer::{Peer, RequestStart};
use crate::refusal::Refusal;
use crate::request::{Method, Request};
use crate::rules::Rules;

/// The pause after a failure to accept, such as a lack of descriptors.
const RECOVERY: Duration = Duration::from_millis(50);

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
        let connections = Arc::new(Connections::new(self.limits));
        for stream in self.socket.incoming() {
            let admitted = stream.and_then(|stream| Ok((connections.admit(&stream)?, stream)));
            let Ok((ticket, stream)) = admitted else {
                std::thread::sleep(RECOVERY);
                continue;
            };
            let peer = Peer::new(stream, self.limits, ticket);
            let (rules, service) = (rules.clone(), service.clone());
            let work = move || converse(peer, &rules, &*service);
            // Without a thread the connection is closed.
            let _ = Builder::new().name("connection".into()).spawn(work);
        }
    }
}

fn converse(mut peer: Peer, rules: &Rules, service: &dyn Service) {
    let request = match receive(&mut peer, rules, service) {
        Ok(Some(request)) => request,
        // The client left.
        Ok(None) | Err(_) => return,
    };
    let request = request
        .and_then(|request| if peer.keeps_its_place() { Ok(request) } else { Err(too_many()) });
    let refused = request.and_then(|request| service.answer(&request, &mut peer)).err();
    if let (Some(refusal), None) = (refused, peer.status) {
        // If the client is gone, nobody has to know.
        let _ = peer.send(&refusal.response());
    }
    service.answered(peer.status.unwrap_or(500));
    peer.close();
}

fn too_many() -> Refusal {
    Refusal { retry_after: Some(1), ..Refusal::new(503, "too many requests are being answered") }
}

/// A request, or the reason why it is refused. None if there is nobody to tell.
fn receive(
    peer: &mut Peer,
    rules: &Rules,
    service: &dyn Service,
) -> io::Result<Option<Result<Request, Refusal>>> {
    let Some(head) = peer.head()? else { return Ok(None) };
    let RequestStart { head, rest } = match head {
        Ok(begun) => begun,
        Err(refusal) => return Ok(Some(Err(refusal))),
    };
    let (method, length) = match admitted(&head, rules, service) {
        Ok(admitted) => admitted,
        Err(refusal) => return Ok(Some(Err(refusal))),
    };
    let body = peer.body(rest, length)?;
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
