//! The JSON Schema of manifests, with which editors complete and check them.

use serde_json::{Map, Value, json};
use stage_core::{Catalogue, Default, InputPort, Kind, Parameter, ParameterType, Unit};

use super::executor;
use super::page::port_type;
use super::policy::COMMON;
use super::remote::PUSHING;
use super::session::MOST_PRICES;
use super::trials::{BETTER, DRAWS, ETA, MOST_ETA, MOST_REPEATS, MOST_RUNGS, MOST_TRIALS, SCALES};

const NAME: &str = "^[A-Za-z0-9_-]+$";

/// Draft 2020-12. The allowed keys of a stage depend on its `use`.
pub fn schema(catalogue: &Catalogue) -> Value {
    let mut definitions = shared();
    let mut kinds = Vec::new();
    let mut conditions = Vec::new();
    for kind in catalogue.iter() {
        let name = format!("kind.{}", kind.name);
        kinds.push(json!({ "const": kind.name, "description": kind.summary }));
        conditions.push(json!({
            "if": { "properties": { "use": { "const": kind.name } }, "required": ["use"] },
            "then": { "$ref": format!("#/$defs/{name}") },
        }));
        definitions.insert(name, kind_schema(kind));
    }
    definitions.insert(
        "stage".to_owned(),
        json!({
            "type": "object",
            "required": ["use"],
            "properties": { "use": { "description": "The kind of the stage.", "oneOf": kinds } },
            "allOf": conditions,
        }),
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A throstle manifest",
        "type": "object",
        "required": ["pipeline"],
        "additionalProperties": false,
        "properties": sections(),
        "$defs": definitions,
    })
}

fn sections() -> Value {
    json!({
        "pipeline": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": false,
            "properties": {
                "name": { "description": "The name of the pipeline.", "type": "string", "pattern": NAME },
                "seed": { "description": "The seed of random numbers.", "type": "integer", "minimum": 0, "default": 0 },
            },
        },
        "params": {
            "description": "Values that keys elsewhere use as `\"$name\"`.",
            "type": "object",
            "propertyNames": { "pattern": NAME },
        },
        "assets": assets(),
        "stage": {
            "type": "object",
            "propertyNames": { "pattern": NAME },
            "additionalProperties": { "$ref": "#/$defs/stage" },
        },
        "sweep": sweep(),
        "session": session(),
        "remote": remote(),
        "executor": {
            "description": "Other places where the work of stages can run; they change no result.",
            "type": "object",
            "propertyNames": { "pattern": NAME },
            "additionalProperties": {
                "type": "object",
                "required": ["use"],
                "additionalProperties": false,
                "properties": keys(executor::KEYS),
            },
        },
        "prices": prices(),
        "expect": expect(),
    })
}

fn assets() -> Value {
    json!({
        "description": "Files and folders that no stage made, referred to as `assets.name`.",
        "type": "object",
        "propertyNames": { "pattern": NAME },
        "additionalProperties": {
            "type": "object",
            "required": ["path"],
            "additionalProperties": false,
            "properties": {
                "path": {
                    "description": "Relative to the manifest, or a model of the Hugging Face Hub: `hf://OWNER/NAME@REVISION`.",
                    "type": "string",
                },
                "license": {
                    "description": "Travels to all that derives from it.",
                    "type": "string",
                },
            },
        },
    })
}

fn sweep() -> Value {
    json!({
        "description": "Trials of a stage, each with other values of some of its parameters.",
        "type": "object",
        "propertyNames": { "pattern": NAME },
        "additionalProperties": {
            "type": "object",
            "required": ["stage", "over"],
            "additionalProperties": false,
            "properties": {
                "stage": { "description": "The name of the stage.", "type": "string" },
                "over": over(),
                "initial": {
                    "description": "The values of trial 0 instead of those of the stage. `promote` writes them.",
                    "type": "object",
                },
                "trials": described(
                    "The number of trials, the written one included. Default: 8.",
                    or_param(json!({ "type": "integer", "minimum": 2, "maximum": MOST_TRIALS })),
                ),
                "draw": described(
                    "The way in which trials are drawn. Default: `sobol`.",
                    or_param(json!({ "enum": DRAWS })),
                ),
                "seed": described(
                    "Default: the seed of the pipeline.",
                    or_param(json!({ "type": "integer", "minimum": 0 })),
                ),
                "score": described(
                    "The measure that ranks the trials, such as `mean(cer)`.",
                    or_param(json!({ "type": "string" })),
                ),
                "of": described(
                    "The stage, or its output, that the score is read from. Default: \
                        `checkpoints` of the stage.",
                    or_param(json!({ "type": "string" })),
                ),
                "better": described(
                    "`lower` or `higher`: the better scores. Default: `lower`.",
                    or_param(json!({ "enum": BETTER })),
                ),
                "rungs": rungs(),
                "eta": described(
                    &format!("One of this many trials goes on to the next rung. Default: {ETA}."),
                    or_param(json!({ "type": "integer", "minimum": 2, "maximum": MOST_ETA })),
                ),
                "repeat": described(
                    "Trainings of each finalist, with different seeds. Default: 1.",
                    or_param(
                        json!({ "type": "integer", "minimum": 1, "maximum": MOST_REPEATS }),
                    ),
                ),
            },
        },
    })
}

fn rungs() -> Value {
    described(
        "The number of rungs, or the steps or shares at which they end, without \
                        the last one. Default: whole trainings.",
        or_param(json!({ "anyOf": [
                        { "type": "integer", "minimum": 1, "maximum": MOST_RUNGS },
                        {
                            "type": "array",
                            "maxItems": MOST_RUNGS - 1,
                            "items": { "type": ["integer", "string"] },
                        },
                    ] })),
    )
}

fn over() -> Value {
    json!({
        "description": "Parameters, each with a list of values or a range.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {
            "anyOf": [
                { "type": "array", "minItems": 1 },
                {
                    "type": "object",
                    "required": ["from", "to"],
                    "additionalProperties": false,
                    "properties": {
                        "from": {},
                        "to": {},
                        "scale": { "enum": SCALES },
                    },
                },
                { "type": "string", "pattern": "^\\$[A-Za-z0-9_-]+$" },
            ],
        },
    })
}

fn session() -> Value {
    json!({
        "description": "Conditions of a run; they change no result.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "stop_after": described("Stop cleanly after this time.", or_param(duration())),
            "price_per_hour": described(
                "The price of the machine per hour.",
                or_param(json!({ "type": "number", "minimum": 0 })),
            ),
            "gpu_hours_per_week": described(
                "The allowed GPU hours in any seven days, counted over all runs and machines \
                    that share the cache or pass it on.",
                or_param(json!({ "type": "number", "minimum": 0, "maximum": 168 })),
            ),
            "budget": described(
                "The allowed cost of all runs of the pipeline together; needs `price_per_hour`.",
                or_param(json!({ "type": "number", "minimum": 0 })),
            ),
        },
    })
}

fn remote() -> Value {
    json!({
        "description": "The store that machines share; it changes no result.",
        "type": "object",
        "required": ["url"],
        "additionalProperties": false,
        "properties": {
            "url": described(
                "Its address, such as `file:///shared/cache`.",
                or_param(json!({
                    "type": "string",
                    "pattern": "^(file:///|(s3|az|gs|https|http)://)",
                })),
            ),
            "push": described(
                "When results are written to it. Default: `end`.",
                or_param(json!({ "enum": PUSHING })),
            ),
            "require": described(
                "Fail if it cannot be used, instead of continuing without it. Default: false.",
                or_param(json!({ "type": "boolean" })),
            ),
            "timeout": described(
                "The time limit of one request. Default: `30s`.",
                or_param(duration()),
            ),
        },
    })
}

fn prices() -> Value {
    json!({
        "description": "GPUs that can be had by the hour, for the estimates of `plan`.",
        "type": "object",
        "maxProperties": MOST_PRICES,
        "propertyNames": { "pattern": NAME },
        "additionalProperties": {
            "type": "object",
            "required": ["per_hour", "vram"],
            "additionalProperties": false,
            "properties": {
                "per_hour": described(
                    "The price per hour, in any currency.",
                    or_param(json!({ "type": "number", "minimum": 0 })),
                ),
                "vram": described("The memory of the GPU.", or_param(size())),
                "speed": described(
                    "The speed relative to an A100. Default: 1.",
                    or_param(json!({ "type": "number", "exclusiveMinimum": 0 })),
                ),
            },
        },
    })
}

fn expect() -> Value {
    json!({
        "description": "Assumptions of `plan` about recordings that do not exist yet.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "clips": described(
                "The number of clips.",
                or_param(json!({ "type": "number", "minimum": 0 })),
            ),
            "sound": described("The total duration of all clips.", or_param(duration())),
        },
    })
}

fn keys(parameters: &[Parameter]) -> Map<String, Value> {
    let key = |parameter: &Parameter| (parameter.name.to_owned(), parameter_schema(parameter));
    parameters.iter().map(key).collect()
}

fn kind_schema(kind: &Kind) -> Value {
    let mut properties = Map::new();
    properties.insert("use".to_owned(), json!({ "const": kind.name }));
    for port in kind.inputs {
        let doc = format!("{} ({})", port.doc, port_type(port.port_type, port.takes));
        properties.insert(port.name.to_owned(), described(doc.trim(), port_schema(port)));
    }
    let mut matrix = Map::new();
    for parameter in kind.parameters {
        properties.insert(parameter.name.to_owned(), parameter_schema(parameter));
        let values = or_param(json!({
            "type": "array",
            "minItems": 1,
            "items": or_param(type_schema(&parameter.parameter_type, parameter.unit)),
        }));
        matrix.insert(parameter.name.to_owned(), values);
    }
    for name in COMMON.iter().map(|parameter| parameter.name).chain(["export"]) {
        properties.insert(name.to_owned(), definition(name));
    }
    properties.insert(
        "matrix".to_owned(),
        json!({
            "description": "Lists of values: one stage for each combination.",
            "type": "object",
            "additionalProperties": false,
            "properties": matrix,
        }),
    );
    let ports = kind.inputs.iter().filter(|port| !port.optional).map(|port| port.name);
    let required: Vec<&str> = std::iter::once("use").chain(ports).collect();
    let mut schema = json!({
        "title": kind.name,
        "description": format!("{}\n\n{}", kind.summary, kind.doc).trim(),
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": properties,
    });
    let needed: Vec<Value> = kind.parameters.iter().filter_map(needed).collect();
    if let (false, Some(schema)) = (needed.is_empty(), schema.as_object_mut()) {
        schema.insert("allOf".to_owned(), Value::Array(needed));
    }
    schema
}

/// A parameter without a default is required in the stage or in its matrix.
fn needed(parameter: &Parameter) -> Option<Value> {
    if !matches!(parameter.default, Default::Required) {
        return None;
    }
    Some(json!({
        "anyOf": [
            { "required": [parameter.name] },
            { "required": ["matrix"], "properties": { "matrix": { "required": [parameter.name] } } },
        ],
    }))
}

fn port_schema(port: &InputPort) -> Value {
    let one = definition("reference");
    if port.many { json!({ "anyOf": [one, { "type": "array", "items": one }] }) } else { one }
}

fn parameter_schema(parameter: &Parameter) -> Value {
    let mut schema =
        described(parameter.doc, or_param(type_schema(&parameter.parameter_type, parameter.unit)));
    let default = match parameter.default {
        Default::Text(text) => Some(json!(text)),
        Default::Integer(number) => Some(json!(number)),
        Default::Number(number) => Some(json!(number)),
        Default::Flag(flag) => Some(json!(flag)),
        Default::Texts(texts) => Some(json!(texts)),
        Default::Device(device) => Some(json!(device)),
        Default::Devices(devices) => Some(json!(devices)),
        Default::Seconds(_) | Default::Bytes(_) => Some(json!(super::page::default(parameter))),
        Default::Required | Default::Absent | Default::PipelineSeed => None,
    };
    if let (Some(default), Some(schema)) = (default, schema.as_object_mut()) {
        schema.insert("default".to_owned(), default);
    }
    schema
}

fn export_schema() -> Value {
    let path = json!({ "type": "string", "minLength": 1 });
    json!({
        "description": "Paths of exported files; `{id}` and `{field}` are filled in.",
        "anyOf": [
            path,
            {
                "description": "A path for each field or output.",
                "type": "object",
                "properties": {
                    "link": {
                        "description": "The way large files are made: copies that share their \
                            blocks with the cache if the file system can do that, or hard links \
                            to its objects.",
                        "enum": super::export::LINKS.map(|(name, _)| name),
                        "default": "copy",
                    },
                },
                "additionalProperties": {
                    "anyOf": [path, { "type": "object", "additionalProperties": path }],
                },
            },
        ],
    })
}

/// Definitions that are used by name.
fn shared() -> Map<String, Value> {
    let mut shared = Map::new();
    for parameter in COMMON {
        shared.insert(parameter.name.to_owned(), parameter_schema(parameter));
    }
    let duration = "^\\s*([0-9._]+\\s*(ms|s|min|m|h|d)\\s*)+$";
    let size = "^\\s*[0-9._]+\\s*([kKMGT]?B|[KMGT]iB)$";
    shared.insert("export".to_owned(), export_schema());
    shared.insert("duration".to_owned(), json!({ "type": "string", "pattern": duration }));
    shared.insert("size".to_owned(), json!({ "type": "string", "pattern": size }));
    shared.insert(
        "param".to_owned(),
        json!({
            "description": "A value of `[params]`.",
            "type": "string",
            "pattern": "^\\$[A-Za-z0-9_-]+$",
        }),
    );
    shared.insert(
        "reference".to_owned(),
        json!({
            "description": "`stage`, `stage.port`, `stage[rate=16000]` or `assets.name`.",
            "type": "string",
            "minLength": 1,
        }),
    );
    shared
}

fn definition(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn type_schema(parameter_type: &ParameterType, unit: Unit) -> Value {
    match parameter_type {
        ParameterType::Text
        | ParameterType::File
        | ParameterType::OptionalFile
        | ParameterType::SourcePath
        | ParameterType::OptionalFolder => json!({ "type": "string" }),
        ParameterType::Choice(names) => json!({ "enum": names }),
        ParameterType::Integer { min, max } => {
            let mut schema = json!({ "type": "integer" });
            bounds(
                &mut schema,
                (*min != i64::MIN).then(|| json!(min)),
                (*max != i64::MAX).then(|| json!(max)),
            );
            with_unit(schema, unit)
        }
        ParameterType::CountOrShare { min, max } => {
            let mut schema = json!({ "type": "integer" });
            bounds(&mut schema, Some(json!(min)), Some(json!(max)));
            with_unit(schema, Unit::Percent)
        }
        ParameterType::Number { min, max } => {
            let mut schema = json!({ "type": "number" });
            let (least, most) =
                ((*min > f64::MIN).then_some(min), (*max < f64::MAX).then_some(max));
            bounds(&mut schema, least.map(|min| json!(min)), most.map(|max| json!(max)));
            let share = super::unit::is_share(unit, *min, *max);
            with_unit(schema, if share { Unit::Percent } else { unit })
        }
        ParameterType::Flag => json!({ "type": "boolean" }),
        ParameterType::Any => json!({}),
        ParameterType::Duration => duration(),
        ParameterType::Size => definition("size"),
        ParameterType::Device { or_auto } => {
            let auto = if *or_auto { "auto|" } else { "" };
            json!({
                "type": "string",
                "pattern": format!("^({auto}cpu|cuda(:(0|[1-9][0-9]?|1[01][0-9]|12[0-7]))?)$"),
            })
        }
        ParameterType::List(inner) => {
            json!({ "type": "array", "items": or_param(type_schema(inner, unit)) })
        }
        ParameterType::Map(inner) => {
            json!({ "type": "object", "additionalProperties": or_param(type_schema(inner, unit)) })
        }
        ParameterType::Record(fields) => record(fields),
        ParameterType::Expression(_) => json!({ "type": "string" }),
    }
}

fn record(fields: &[Parameter]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), parameter_schema(field))).collect();
    let needed = fields.iter().filter(|field| matches!(field.default, Default::Required));
    let required: Vec<&str> = needed.map(|field| field.name).collect();
    json!({
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": properties,
    })
}

fn duration() -> Value {
    definition("duration")
}

fn size() -> Value {
    definition("size")
}

fn bounds(schema: &mut Value, min: Option<Value>, max: Option<Value>) {
    if let Some(schema) = schema.as_object_mut() {
        schema.extend(min.map(|min| ("minimum".to_owned(), min)));
        schema.extend(max.map(|max| ("maximum".to_owned(), max)));
    }
}

/// Numbers may be written with their unit, as texts.
fn with_unit(schema: Value, unit: Unit) -> Value {
    let number = "^\\s*[-+0-9._]+\\s*";
    let pattern = match unit {
        Unit::None | Unit::Count => return schema,
        Unit::Hertz => format!("{number}[kM]?Hz$"),
        Unit::Decibel => format!("{number}dB$"),
        Unit::Lufs => format!("{number}(LUFS|LU)$"),
        Unit::Percent => format!("{number}%$"),
        Unit::Seconds => return json!({ "anyOf": [schema, duration()] }),
    };
    json!({ "anyOf": [schema, { "type": "string", "pattern": pattern }] })
}

fn or_param(schema: Value) -> Value {
    // A plain text may begin with a dollar sign too.
    if schema == json!({ "type": "string" }) {
        return schema;
    }
    json!({ "anyOf": [schema, definition("param")] })
}

fn described(doc: &str, schema: Value) -> Value {
    let mut described = Map::new();
    if !doc.is_empty() {
        described.insert("description".to_owned(), json!(doc));
    }
    if let Value::Object(schema) = schema {
        described.extend(schema);
    }
    Value::Object(described)
}
