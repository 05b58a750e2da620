//! The description of a stage kind, for planning, checking and documentation.

use crate::cost::Cost;
use crate::item;
use crate::parameter::{Parameter, Parameters};

/// The type of work of a stage, which determines how the engine runs and counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reads external data and outputs a data set; scanned whenever a plan is made.
    Source,
    /// One item at a time, or a batch; pure.
    Item,
    /// From one or several whole data sets to data sets and artifacts.
    Gather,
    /// A long gather: it saves checkpoints and resumes from the last one.
    Train,
    /// `Item` or `Gather`, according to the parameter of this name (`item` or `once`).
    Chosen {
        /// The choice parameter with the words `item` and `once`.
        parameter: &'static str,
    },
}

/// The place where the implementation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the engine's own process, on a thread of its pool.
    Here,
    /// In the worker program, one process per device.
    Worker,
}

/// The way in which items are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// One at a time.
    Single,
    /// Items of similar length, with at most as many bytes of input blobs as the size parameter of
    /// this name says. For 16-bit audio this bounds the total duration.
    ByBytes {
        /// The size parameter with the largest sum of input blobs, in bytes.
        parameter: &'static str,
    },
    /// At most as many as the integer parameter of this name says.
    ByCount {
        /// The integer parameter with the largest number of items.
        parameter: &'static str,
    },
}

/// The origin of the reasons for which a stage quarantines items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdicts {
    /// The stage itself judges the item.
    Own,
    /// A program of the user failed on the item. If the first items all fail alike, the program or
    /// its environment is broken: the stage fails and quarantines none of them, unless the
    /// parameter of this name has this value.
    OfProgram {
        /// The parameter with which a person accepts that every item fails.
        parameter: &'static str,
        /// The value of `parameter` that accepts it.
        unless: &'static str,
    },
}

/// The shape of the data on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortType {
    /// A table of items, all with the same kinds of fields.
    Dataset,
    /// One thing made of files, such as a model or a report.
    Artifact,
}

/// The type that a field must have, which the manifest checks before anything runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A text in UTF-8.
    Text,
    /// A 64-bit floating-point number.
    Number,
    /// Bytes in the store, with a media type.
    Blob,
}

/// The fields of a data set that a stage reads. Only these enter its keys.
#[derive(Clone, Copy, Debug)]
pub enum Fields {
    /// These fields and no others, each with its name and type. The array is in any order.
    These(&'static [(&'static str, FieldType)]),
    /// The same, and the fields named by this list parameter.
    Named {
        /// The parameter with the names of more fields, of any type: one name, a list, or a table
        /// with the names as keys.
        parameter: &'static str,
        /// Fields that are read whatever the parameter says.
        also: &'static [(&'static str, FieldType)],
    },
    /// The same, and the fields that the parameters need in another way, with their types.
    Derived(Derived),
    /// Every field and the id: the whole table is the input.
    All,
}

/// Fields that follow from the values of parameters, such as those of expressions.
#[derive(Clone, Copy, Debug)]
pub struct Derived {
    /// The names and types of the fields that follow from the parameters.
    pub names: fn(&Parameters) -> Vec<(String, FieldType)>,
    /// The parameter that a missing field is reported at.
    pub parameter: &'static str,
    /// Fields that are read whatever the parameters say.
    pub also: &'static [(&'static str, FieldType)],
}

/// The part of an artifact that must be the same as before for a training to continue from its
/// earlier result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentNeeds {
    /// The artifact may change: the training continues all the same.
    Nothing,
    /// These fields: the weights of the result mean nothing beside others.
    Fields(&'static [&'static str]),
    /// The whole artifact: a training starts from scratch after any change of it.
    Everything,
}

impl ParentNeeds {
    /// True if a training may continue: `before` is the artifact of its earlier result, `now` the
    /// one that arrives.
    pub fn are_met(&self, before: &item::Fields, now: &item::Fields) -> bool {
        match self {
            ParentNeeds::Nothing => true,
            ParentNeeds::Fields(names) => {
                names.iter().all(|name| before.get(name) == now.get(name))
            }
            ParentNeeds::Everything => before == now,
        }
    }
}

/// A named input of a kind. Definitions start from [`InputPort::DATASET`] or
/// [`InputPort::ARTIFACT`].
#[derive(Clone, Copy, Debug)]
pub struct InputPort {
    /// The key in the manifest that names the upstream stage, such as `input`. Unique among the
    /// ports and parameters of a kind.
    pub name: &'static str,
    /// Data set or artifact.
    pub port_type: PortType,
    /// Required fields with their types.
    pub reads: Fields,
    /// Optional fields.
    pub may_read: &'static [(&'static str, FieldType)],
    /// True if the item id enters the key (for item stages only if set here).
    pub reads_id: bool,
    /// True if the quarantined items of the upstream stage are part of the input.
    pub reads_rejects: bool,
    /// True when the name of the upstream stage is part of the input; otherwise it is hidden.
    pub reads_name: bool,
    /// Accepts a list of references.
    pub many: bool,
    /// True if the manifest may leave the port out.
    pub optional: bool,
    /// The accepted kinds of artifacts, by the words of [`crate::artifact`] or custom words; empty:
    /// every kind.
    pub takes: &'static [&'static str],
    /// For training stages with the parameter `on_change`.
    pub parent_needs: ParentNeeds,
    /// The parameters that replace this port and others: either one of these ports must be given, or
    /// at least one of the parameters, and not both.
    pub replaced_by: &'static [&'static str],
    /// The field in which items carry this artifact; if they do not, the port must be given.
    pub brought_by: Option<&'static str>,
    /// One sentence of Markdown, for the manual and for messages.
    pub doc: &'static str,
}

impl InputPort {
    /// A required data set on the port `input`, without any fields to read.
    pub const DATASET: InputPort = InputPort {
        name: "input",
        port_type: PortType::Dataset,
        reads: Fields::These(&[]),
        may_read: &[],
        reads_id: false,
        reads_rejects: false,
        reads_name: false,
        many: false,
        optional: false,
        takes: &[],
        parent_needs: ParentNeeds::Nothing,
        replaced_by: &[],
        brought_by: None,
        doc: "",
    };

    /// A required artifact on the port `artifact`, of any kind.
    pub const ARTIFACT: InputPort =
        InputPort { name: "artifact", port_type: PortType::Artifact, ..InputPort::DATASET };
}

/// A named output of a kind. Definitions start from [`OutputPort::DATASET`] or
/// [`OutputPort::ARTIFACT`].
#[derive(Clone, Copy, Debug)]
pub struct OutputPort {
    /// The name after the dot in a reference such as `split.test`; references to the first port of
    /// a kind need none.
    pub name: &'static str,
    /// Data set or artifact.
    pub port_type: PortType,
    /// Added or replaced fields. `export` writes the first blob among them.
    pub writes: &'static [(&'static str, FieldType)],
    /// The input port with the data set that provides the other fields.
    pub passes: Option<&'static str>,
    /// There may be fields beyond those listed (table columns, declared outputs).
    pub open: bool,
    /// The possible kinds of artifacts; empty: unknown before the stage runs.
    pub gives: &'static [&'static str],
    /// The parameter that selects one of them, if its value is one.
    pub given_by: Option<&'static str>,
    /// The kinds of the artifacts that the items of a data set carry in `weights`; empty: unknown.
    pub brings: &'static [&'static str],
    /// The share of the arriving items that leave here; None: all, or unknown.
    pub share: Option<Share>,
    /// One sentence of Markdown, for the manual and for messages.
    pub doc: &'static str,
}

/// The part of a data set on an output, by a parameter that is a number from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub enum Share {
    /// The share in the number parameter of this name.
    Of(&'static str),
    /// The rest without the share of [`Share::Of`].
    Rest(&'static str),
}

impl Share {
    /// The share of the arriving items, from 0 to 1, with these parameters; 0 for [`Share::Of`] a
    /// parameter that is no number.
    pub fn under(self, parameters: &Parameters) -> f64 {
        let share = |name| parameters.number(name).unwrap_or(0.0);
        match self {
            Share::Of(name) => share(name),
            Share::Rest(name) => 1.0 - share(name),
        }
    }
}

impl OutputPort {
    /// A data set that passes on the fields of `input`.
    pub const DATASET: OutputPort = OutputPort {
        name: "output",
        port_type: PortType::Dataset,
        writes: &[],
        passes: Some("input"),
        open: false,
        gives: &[],
        given_by: None,
        brings: &[],
        share: None,
        doc: "",
    };

    /// An artifact on the port `output`, of an unknown kind.
    pub const ARTIFACT: OutputPort = OutputPort {
        name: "output",
        port_type: PortType::Artifact,
        writes: &[],
        passes: None,
        open: false,
        gives: &[],
        given_by: None,
        brings: &[],
        share: None,
        doc: "",
    };

    /// The possible kinds of artifacts under these parameters.
    pub fn given(&self, parameters: &Parameters) -> &'static [&'static str] {
        let chosen = self.given_by.and_then(|name| parameters.text(name).ok());
        let at = self.gives.iter().position(|kind| Some(*kind) == chosen);
        at.map_or(self.gives, |at| &self.gives[at..=at])
    }
}

impl InputPort {
    /// True when an artifact of one of these kinds may fit; an unknown kind may.
    pub fn fits(&self, given: &[&str]) -> bool {
        self.takes.is_empty()
            || given.is_empty()
            || given.iter().any(|kind| self.takes.contains(kind))
    }
}

/// For an item stage that makes several items of one. The children of an item are in its record, and
/// get the fields of the item as well. Their ids begin with the id of the item and end with a name
/// that follows from its content: see [`crate::Output::of_children`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expands {
    /// The bytes of the largest blob of an item for each item made of it: until an item has been
    /// expanded, its number of children is estimated by this.
    pub bytes_per_child: f64,
}

impl Expands {
    /// The expected number of children of an item with a largest blob of this size.
    pub fn expected(&self, bytes: u64) -> u32 {
        ((bytes as f64 / self.bytes_per_child).round() as u32).max(1)
    }
}

/// The likely cause if most of the items are quarantined for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The code of the reason.
    pub code: &'static str,
    /// The cause and what to do, as a sentence without a full stop.
    pub advice: &'static str,
}

/// A mistake in a combination of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The parameter that has it.
    pub parameter: &'static str,
    /// The problem: a lowercase fragment with names in backticks.
    pub message: String,
    /// Advice: the text to write instead.
    pub help: Option<String>,
}

impl Mistake {
    /// A mistake with advice, to be reported at the place of the parameter in the manifest.
    pub fn new(parameter: &'static str, message: impl Into<String>, help: &str) -> Mistake {
        Mistake { parameter, message: message.into(), help: Some(help.to_owned()) }
    }
}

/// A stage kind of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// `family.verb`, as written in `use`.
    pub name: &'static str,
    /// The behaviour version: raised when the same input gives another output.
    pub version: u32,
    /// One line.
    pub summary: &'static str,
    /// A few short paragraphs of Markdown.
    pub doc: &'static str,
    /// The type of work, which determines the [`Job`](crate::Job) that the stage must open.
    pub work: Work,
    /// The program that runs the work. Only throstle's own worker runs stages in [`Place::Worker`].
    pub place: Place,
    /// The number of items that an item stage gets at once.
    pub batching: Batching,
    /// The origin of the verdicts of an item stage.
    pub verdicts: Verdicts,
    /// Causes that are not those of single items.
    pub causes: &'static [Cause],
    /// None if each item stays one item.
    pub expands: Option<Expands>,
    /// The stage itself ends work that exceeds `timeout`: part of the time is not that of the items.
    pub watches_time: bool,
    /// It checks texts or clips for a training: trainings that it does not wait for start after it.
    pub precedes_training: bool,
    /// It applies a person's corrections: `review` and messages about edited exports name it.
    pub applies_corrections: bool,
    /// The cost model until there are measures.
    pub cost: Cost,
    /// The ports on which data arrives; none for a source.
    pub inputs: &'static [InputPort],
    /// A reference without a port means the first one.
    pub outputs: &'static [OutputPort],
    /// The keys of its table in the manifest beside those that every stage has, such as `use`.
    pub parameters: &'static [Parameter],
    /// Finds mistakes in values that are valid by themselves, so that `check` can report them
    /// before anything runs. The values of the named parameters are unknown, since they are wrong
    /// or missing, which has been reported.
    pub check: fn(&Parameters, unknown: &[&str]) -> Vec<Mistake>,
}

impl Kind {
    /// The base for definitions: `Kind { name: …, ..Kind::BASE }`.
    pub const BASE: Kind = Kind {
        name: "",
        version: 1,
        summary: "",
        doc: "",
        work: Work::Item,
        place: Place::Here,
        batching: Batching::Single,
        verdicts: Verdicts::Own,
        causes: &[],
        expands: None,
        watches_time: false,
        precedes_training: false,
        applies_corrections: false,
        cost: Cost::Unknown,
        inputs: &[],
        outputs: &[],
        parameters: &[],
        check: |_, _| Vec::new(),
    };

    /// The input port of this name.
    pub fn input(&self, name: &str) -> Option<&'static InputPort> {
        self.inputs.iter().find(|port| port.name == name)
    }

    /// The output port of this name.
    pub fn output(&self, name: &str) -> Option<&'static OutputPort> {
        self.outputs.iter().find(|port| port.name == name)
    }

    /// The parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Tests if stages of this kind make a sound of each text.
    pub fn speaks(&self) -> bool {
        let reads_text = self.input("input").is_some_and(|port| match port.reads {
            Fields::These(fields) => matches!(fields, [("text", FieldType::Text)]),
            _ => false,
        });
        let writes = self.outputs.first().map_or(&[][..], |port| port.writes);
        reads_text && writes.contains(&("audio", FieldType::Blob))
    }
}
