//! The messages between the engine and a Python process: one JSON object per line, in UTF-8.

use stage_core::device::DeviceName;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub const PROTOCOL: u32 = 1;
/// The longest line of a process.
pub const LONGEST: usize = 16 << 20;

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request<'a> {
    Hello(Hello<'a>),
    /// A part of the items of a request; the process begins with the last part.
    Batch {
        request: u64,
        items: &'a [ItemMessage],
        more: bool,
        /// The folder for the outputs of a whole data set.
        out: &'a str,
    },
    /// Asks for an answer with the results so far.
    Cancel {
        request: u64,
    },
    Stop {},
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Hello<'a> {
    pub protocols: &'a [u32],
    pub script: &'a str,
    pub function: Option<&'a str>,
    pub form: FunctionForm,
    pub device: DeviceName,
    pub threads: i64,
    pub seed: u32,
    pub parameters: &'a Value,
    pub outputs: &'a BTreeMap<String, String>,
    pub item_outputs: &'a BTreeMap<String, String>,
    pub artifact: &'a Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionForm {
    Items,
    All,
}

/// An item.
#[derive(Clone, Debug, Serialize)]
pub struct ItemMessage {
    /// Its name in the answer.
    pub id: String,
    /// Its id, if the stage reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub seed: u32,
    pub out: String,
    pub fields: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    Ready {
        protocol: u32,
        version: Option<String>,
        /// As the script declares them.
        outputs: Option<BTreeMap<String, String>>,
        /// False if it reports each item as soon as it is done.
        #[serde(default = "yes")]
        batch: bool,
    },
    /// The program cannot start.
    Refused {
        reason: String,
        /// See [`ItemAnswer::numbers`].
        #[serde(default)]
        numbers: Vec<i32>,
    },
    /// A sign of life.
    Progress {
        request: u64,
    },
    Done {
        request: u64,
        results: Vec<ItemAnswer>,
    },
    /// The outputs of a whole data set.
    Made {
        request: u64,
        fields: Map<String, Value>,
        #[serde(default)]
        items: Vec<DatasetAnswer>,
    },
    Failed {
        request: u64,
        reason: String,
        /// See [`ItemAnswer::memory`].
        #[serde(default)]
        memory: bool,
        /// See [`ItemAnswer::numbers`].
        #[serde(default)]
        numbers: Vec<i32>,
    },
}

fn yes() -> bool {
    true
}

/// The result for one item: exactly one of the three.
#[derive(Debug, Deserialize)]
pub struct ItemAnswer {
    pub id: String,
    pub fields: Option<Map<String, Value>>,
    pub reject: Option<String>,
    pub error: Option<String>,
    /// The error is a lack of memory.
    #[serde(default)]
    pub memory: bool,
    /// The numbers of the system's errors behind the error.
    #[serde(default)]
    pub numbers: Vec<i32>,
}

/// An item that a function for a whole data set returns.
#[derive(Debug, Deserialize)]
pub struct DatasetAnswer {
    pub id: String,
    /// The item that it was; none for a new one.
    pub handle: Option<String>,
    pub fields: Map<String, Value>,
}
