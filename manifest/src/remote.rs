//! `[remote]`: the store that machines share. It enters no key.

use std::time::Duration;

use remote::{Address, Pushing, Settings};
use stage_core::{ParameterType, ParameterValue, Unit};

use super::node::Node;
use super::problem::{Collector, Problem};
use super::value::{Checks, plain};
use super::written::WrittenRemote;
use crate::pipeline::RemoteSpec;

/// The values of `push`.
pub const PUSHING: [&str; 3] = ["always", "end", "never"];

pub fn remote(
    written: Option<&WrittenRemote>,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<RemoteSpec> {
    let written = written?;
    let mut value = |name: &'static str, kind: ParameterType, node: &Option<Node>| {
        checks.value(&plain(name, kind, Unit::None), node.as_ref()?, problems)
    };
    let push = value("push", ParameterType::Choice(&PUSHING), &written.push);
    let require = value("require", ParameterType::Flag, &written.require);
    let timeout = value("timeout", ParameterType::Duration, &written.timeout);
    let url = value("url", ParameterType::Text, &written.url);
    let default = Settings::default();
    let settings = Settings {
        push: match push {
            Some(ParameterValue::Text(text)) => pushing(&text).unwrap_or(default.push),
            _ => default.push,
        },
        require: matches!(require, Some(ParameterValue::Flag(true))),
        timeout: match timeout {
            Some(ParameterValue::Seconds(seconds)) => Duration::from_secs_f64(seconds.max(0.01)),
            _ => default.timeout,
        },
    };
    let Some(node) = &written.url else {
        let problem = Problem::new("missing_key", written.span, "`[remote]` has no `url`");
        problems.add(problem.help("add `url = \"file:///shared/cache\"`"));
        return None;
    };
    let Some(ParameterValue::Text(url)) = url else { return None };
    match url.parse::<Address>() {
        Ok(address) => Some(RemoteSpec { address, settings }),
        Err(error) => {
            let message = format!("`url` is not the address of a remote: {error}");
            problems.add(Problem::new("wrong_value", node.span, message));
            None
        }
    }
}

fn pushing(text: &str) -> Option<Pushing> {
    match text {
        "always" => Some(Pushing::Always),
        "end" => Some(Pushing::End),
        "never" => Some(Pushing::Never),
        _ => None,
    }
}
