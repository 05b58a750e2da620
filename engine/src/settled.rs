//! Parameters that are left to the machine, such as `precision = "auto"`.
//!
//! A key has such a parameter as it was written, so that a training resumes from its checkpoint on
//! another machine, and a finished one is not repeated there. A finished training is also recorded
//! under the key with the selected value, so that writing this value finds it.

use std::collections::BTreeMap;

use stage_core::ParameterValue;
use stage_core::key::StageKey;

/// The key with the selected values; None if nothing was left to the machine.
pub fn settled_key(key: &StageKey, settled: &BTreeMap<String, String>) -> Option<StageKey> {
    let mut other = key.clone();
    for (name, value) in settled {
        let parameter = other.parameters.0.get_mut(name)?;
        *parameter = ParameterValue::Text(value.clone());
    }
    (other != *key).then_some(other)
}
