//! A module on a device.

use stage_core::{Blob, Context, Fields, StageError, Value};
use stage_formats::Stranger;
use tch::{CModule, Device, IValue, TchError, Tensor, jit};

use super::fault::ModuleFault;
use crate::error::TorchError;

/// The advice for files that are no modules.
const HELP: &str = "save a module with `torch.jit.script(model).save(\"model.pt\")`, or \
    `torch.jit.trace(model, example).save(\"model.pt\")`";

/// The entry that every TorchScript archive has, and no other archive of torch.
const CONSTANTS: &[u8] = b"constants.pkl";
/// The start of the name of an entry that `torch.export` writes.
const EXPORTED: &[u8] = b"archive_format";
/// Names at the end of an archive are within this.
const DIRECTORY: usize = 4 << 20;

pub struct Module {
    module: CModule,
    device: Device,
    /// The number of its parameters.
    pub parameters: i64,
}

/// The method and the seed of a call.
#[derive(Clone, Debug)]
pub struct MethodCall {
    pub method: String,
    pub seed: i64,
}

impl Module {
    /// The file on a port; loads it.
    pub fn open(
        fields: Option<&Fields>,
        device: Device,
        context: &mut dyn Context,
    ) -> Result<Module, StageError> {
        let bytes = context.read(file(fields)?)?;
        Module::load(&bytes, device)
    }

    fn load(bytes: &[u8], device: Device) -> Result<Module, StageError> {
        let load = || {
            let mut module = CModule::load_data_on_device(&mut &bytes[..], device)?;
            module.f_set_eval()?;
            let parameters = module.named_parameters()?;
            let count = |(_, tensor): &(String, Tensor)| tensor.numel() as i64;
            Ok(Module { module, device, parameters: parameters.iter().map(count).sum() })
        };
        load().map_err(|error: TchError| refused(bytes, error))
    }

    /// Calls a method. The result depends on the input alone.
    pub fn call(&self, call: &MethodCall, input: &Tensor) -> Result<IValue, ModuleFault> {
        // The optimiser takes notes of the first calls, and rewrites the graph for later ones.
        jit::f_set_graph_executor_optimize(false)?;
        tch::manual_seed(call.seed);
        let input = IValue::Tensor(input.f_to_device(self.device)?);
        Ok(tch::no_grad(|| self.module.method_is(&call.method, &[input]))?)
    }
}

fn file(fields: Option<&Fields>) -> Result<&Blob, StageError> {
    let fields = fields.ok_or_else(|| StageError::failed("no file arrived on port `module`"))?;
    let files = fields.iter().filter_map(|(_, value)| match value {
        Value::Blob(blob) => Some(&**blob),
        _ => None,
    });
    let files: Vec<&Blob> = files.collect();
    match files[..] {
        [file] => Ok(file),
        _ => Err(StageError::Unable {
            message: format!("`module` has {} files, expected one", files.len()),
            help: Some("set the path of the asset to the file of the module".to_owned()),
        }),
    }
}

fn refused(bytes: &[u8], error: TchError) -> StageError {
    let error = match error {
        TchError::Torch(text) => TorchError::from_library(&text),
        other => other.into(),
    };
    let TorchError::Library(said) = error else { return error.into() };
    let (what, help) = match Stranger::as_binary(bytes) {
        Some(Stranger { what, help }) if !help.is_empty() => (what, help),
        Some(Stranger { what, .. }) => (what, HELP),
        None if is_archive_with(bytes, CONSTANTS) => {
            let message = format!("the module cannot be loaded: {said}");
            return StageError::Unable { message, help: None };
        }
        None if is_archive_with(bytes, EXPORTED) => ("a program of `torch.export`", HELP),
        None if is_archive_with(bytes, b"data.pkl") => {
            ("a checkpoint that contains only weights", HELP)
        }
        None => ("another file", HELP),
    };
    let message = format!("`module` is {what}, not a TorchScript module");
    StageError::Unable { message, help: Some(help.to_owned()) }
}

/// Tests if the directory of an archive has an entry with this in its name.
fn is_archive_with(bytes: &[u8], name: &[u8]) -> bool {
    let directory = &bytes[bytes.len().saturating_sub(DIRECTORY)..];
    bytes.starts_with(b"PK") && directory.windows(name.len()).any(|part| part == name)
}
