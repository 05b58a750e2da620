//! Rules for requests: against other web pages, and against other machines.

use std::net::SocketAddr;

use crate::head::Head;
use crate::refusal::Refusal;
use crate::token::is_same;

/// The rules of a server.
///
/// A page of another site can make a browser send requests here. It is told by its `Origin`, or by
/// the `Host`, if its name is made to mean this machine (DNS rebinding). Programs send no `Origin`.
/// Whoever listens to other machines asks for a token, since `Host` then may be any of its names.
#[derive(Clone, Debug)]
pub struct Rules {
    port: u16,
    token: Option<String>,
}

impl Rules {
    /// For a server at this address. A token is asked for unless only this machine can reach it.
    ///
    /// # Errors
    ///
    /// If others can reach it and there is no token.
    pub fn new(address: SocketAddr, token: Option<String>) -> Result<Rules, Refusal> {
        let token = token.filter(|token| !token.is_empty());
        match (address.ip().is_loopback(), &token) {
            (false, None) => Err(Refusal::new(401, "a server for other machines needs a token")),
            _ => Ok(Rules { port: address.port(), token }),
        }
    }

    /// Checks if a request is allowed; `is_public`: its path needs no token.
    pub(crate) fn check(&self, head: &Head, is_public: bool) -> Result<(), Refusal> {
        let host = head.one("host")?.ok_or_else(|| Refusal::new(400, "there is no `Host`"))?;
        if self.token.is_none() && !self.is_own(host) {
            let reason = format!("`{host}` is not a name of this server");
            return Err(Refusal::new(403, reason));
        }
        if let Some(origin) = head.one("origin")?
            && origin.strip_prefix("http://") != Some(host)
        {
            return Err(Refusal::new(403, "requests from pages of other sites are refused"));
        }
        match &self.token {
            Some(token) if !is_public => match bearer(head)? {
                Some(given) if is_same(given, token) => Ok(()),
                _ => Err(Refusal::new(401, "give the token of this server as the API key")),
            },
            _ => Ok(()),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| {
            let rest = host.get(..own.len()).filter(|name| name.eq_ignore_ascii_case(own));
            rest.is_some_and(|_| host[own.len()..] == format!(":{}", self.port))
        })
    }
}

fn bearer(head: &Head) -> Result<Option<&str>, Refusal> {
    let given = head.one("authorization")?;
    Ok(given.and_then(|given| given.strip_prefix("Bearer ")).map(str::trim))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rules(token: Option<&str>) -> Rules {
        let address = if token.is_some() { "0.0.0.0:80" } else { "127.0.0.1:80" };
        Rules::new(address.parse().unwrap(), token.map(str::to_owned)).unwrap()
    }

    fn status(rules: &Rules, headers: &str, is_public: bool) -> u16 {
        let text = format!("GET / HTTP/1.1\r\n{headers}\r\n\r\n");
        let (head, _) = Head::parse(text.as_bytes()).unwrap().unwrap();
        rules.check(&head, is_public).map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn on_this_machine_only_its_own_names_are_answered() {
        let rules = rules(None);
        for host in ["localhost:80", "LocalHost:80", "127.0.0.1:80", "[::1]:80"] {
            assert_eq!(status(&rules, &format!("Host: {host}"), false), 200, "{host}");
        }
        for host in [
            "evil.example:80",
            "localhost:81",
            "localhost",
            "localhost.evil.example:80",
            "",
            "é:80",
        ] {
            assert_eq!(status(&rules, &format!("Host: {host}"), false), 403, "{host}");
        }
        assert_eq!(status(&rules, "A: b", false), 400);
        assert_eq!(status(&rules, "Host: localhost:80\r\nHost: evil", false), 400);
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let rules = rules(None);
        let from = |origin: &str| {
            status(&rules, &format!("Host: localhost:80\r\nOrigin: {origin}"), false)
        };
        assert_eq!(from("http://localhost:80"), 200);
        for origin in ["http://evil.example", "null", "https://localhost:80", "http://localhost:81"]
        {
            assert_eq!(from(origin), 403, "{origin}");
        }
    }

    #[test]
    fn other_machines_need_the_token_for_all_but_public_pages() {
        let rules = rules(Some("secret"));
        let with = |given: &str, is_public| {
            status(&rules, &format!("Host: studio:80\r\n{given}"), is_public)
        };
        assert_eq!(with("Authorization: Bearer secret", false), 200);
        for given in ["A: b", "Authorization: Bearer secre", "Authorization: secret"] {
            assert_eq!(with(given, false), 401, "{given}");
        }
        assert_eq!(with("A: b", true), 200);
        assert_eq!(with("Origin: http://evil\r\nAuthorization: Bearer secret", false), 403);
    }

    #[test]
    fn a_server_for_other_machines_has_a_token() {
        let any = "0.0.0.0:80".parse().unwrap();
        assert!(Rules::new(any, None).is_err());
        assert!(Rules::new(any, Some(String::new())).is_err());
    }
}
