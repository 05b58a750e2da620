//! The reaction of a finished training to changed inputs.

use crate::parameter::{Default, Parameter, ParameterType, Role};

/// The parameter of every training kind for a finished model with changed inputs. It enters no key
/// itself; the parent that it leads to does.
pub const ON_CHANGE: Parameter = Parameter {
    name: "on_change",
    parameter_type: ParameterType::Choice(&["retrain", "continue"]),
    default: Default::Text("retrain"),
    role: Role::Execution,
    doc: "The reaction to changed inputs or parameters of a finished stage: `retrain` starts from \
        scratch, `continue` continues from the last model, and the key of that model becomes part \
        of the new key.",
    ..Parameter::BASE
};
