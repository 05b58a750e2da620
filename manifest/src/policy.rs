//! The keys that every stage has, whatever its kind.

use stage_core::device::DeviceName;
use stage_core::{Default, Parameter, ParameterType, ParameterValue, Role, Unit};

use super::mistake::with_use;
use super::node::Entry;
use super::problem::{Collector, Problem};
use super::value::Checks;
use crate::pipeline::{Policy, Tolerance};

/// Common keys with a value of one type; `use`, `export` and `matrix` have their own shapes.
pub static COMMON: &[Parameter] = &[
    Parameter {
        name: "quarantine",
        parameter_type: ParameterType::Number { min: 0.0, max: 1.0 },
        default: Default::Absent,
        role: Role::Execution,
        doc: "The share of items that may be quarantined before the stage fails: `\"5%\"` or \
            `0.05`. Default: a stage fails if more than 5 % and more than 3 items are \
            quarantined, or more than half of them. A stage that speaks sentences, other than those of \
            `model.audition` or of clips, then goes on with the others, and the run ends as failed if \
            one is missing; so do the stages that these sentences come through. Items dropped with `corpus.corrections`, and clips that \
            `dataset.split` leaves out, do not count.",
        ..Parameter::BASE
    },
    Parameter {
        name: "retries",
        parameter_type: ParameterType::Integer { min: 0, max: 100 },
        default: Default::Integer(2),
        role: Role::Execution,
        unit: Unit::Count,
        doc: "The number of retries after a transient failure.",
    },
    Parameter {
        name: "timeout",
        parameter_type: ParameterType::Duration,
        default: Default::Absent,
        role: Role::Execution,
        doc: "The longest time for one item (n times as long for a batch of n items), or for all \
              items of a stage that reads them together.",
        ..Parameter::BASE
    },
    Parameter {
        name: "salt",
        parameter_type: ParameterType::Text,
        default: Default::Absent,
        doc: "Changing this text runs the stage again.",
        ..Parameter::BASE
    },
    Parameter {
        name: "device",
        parameter_type: ParameterType::Device { or_auto: true },
        default: Default::Device(DeviceName::Auto),
        role: Role::Execution,
        doc: "`auto`, `cpu`, `cuda` or `cuda:1`, for stages of the worker. \
              Results of different devices agree only to rounding.",
        ..Parameter::BASE
    },
    Parameter {
        name: "executor",
        parameter_type: ParameterType::Text,
        default: Default::Absent,
        role: Role::Execution,
        doc: "The name of an `[executor.NAME]` to run on, or `local`. Default: `local`, or the \
            executor with `default_for = \"gpu\"` for stages that use GPUs.",
        ..Parameter::BASE
    },
];

pub fn is_common(key: &str) -> bool {
    COMMON.iter().any(|parameter| parameter.name == key)
}

pub fn usual() -> Policy {
    Policy {
        quarantine: Tolerance::Usual,
        retries: 2,
        timeout_seconds: None,
        salt: None,
        device: DeviceName::Auto,
        executor: None,
    }
}

/// Reads a common key of a stage into its policy.
pub fn read(policy: &mut Policy, entry: &Entry, checks: &Checks, problems: &mut Collector) {
    let Some(parameter) = COMMON.iter().find(|common| common.name == entry.key.value) else {
        return;
    };
    let node = &entry.node;
    let Some(value) = checks.value(parameter, node, problems) else { return };
    match (parameter.name, value) {
        ("quarantine", ParameterValue::Number(share)) => {
            policy.quarantine = Tolerance::Share(share);
        }
        ("retries", ParameterValue::Integer(retries)) => policy.retries = retries as u32,
        ("timeout", ParameterValue::Seconds(seconds)) => {
            if seconds <= 0.0 {
                let message = "`timeout` must be more than 0";
                let help = "remove `timeout` for no limit";
                let problem = Problem::new("out_of_range", node.span, message).help(help);
                problems.add(with_use(problem, node));
            }
            policy.timeout_seconds = Some(seconds);
        }
        ("salt", ParameterValue::Text(salt)) => policy.salt = Some(salt),
        ("device", ParameterValue::Device(device)) => policy.device = device,
        ("executor", ParameterValue::Text(name)) => policy.executor = Some(name),
        _ => {}
    }
}
