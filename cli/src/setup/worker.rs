//! Finds the worker program, the only one that links libtorch.

use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::WorkerCommand;

use super::torch::{Places, RELEASE, Torch, packages_in};

const PROGRAM: &str = "throstle-torch";
const PROGRAM_VARIABLE: &str = "THROSTLE_TORCH";
const LIBTORCH_VARIABLE: &str = "LIBTORCH";
const LIBRARIES_VARIABLE: &str = "LD_LIBRARY_PATH";
const ACTIVE_VARIABLE: &str = "VIRTUAL_ENV";
/// The folder of the worker below `site-packages`.
const PACKAGE: &str = "throstle/bin";

/// The variables of the caller that reach the worker. Others may change how libtorch computes
/// (`OMP_*`, `MKL_*`, `CUDNN_*`, `ATEN_CPU_CAPABILITY`, `NVIDIA_TF32_OVERRIDE`,
/// `TORCH_ALLOW_TF32_CUBLAS_OVERRIDE`), so that one key would have several results.
const PASSED: [&str; 22] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_PRELOAD",
    "RUST_BACKTRACE",
    "LLVM_PROFILE_FILE",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
    "CUDA_CACHE_PATH",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
];

/// The variables of every worker: cuBLAS gives the same bits each time, and libtorch does not store
/// the kernels that it compiles for a GPU in the user's home folder.
const FIXED: [(&str, &str); 2] =
    [("CUBLAS_WORKSPACE_CONFIG", ":4096:8"), ("USE_PYTORCH_KERNEL_CACHE", "0")];

/// The command that starts the worker.
pub fn command() -> WorkerCommand {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let program = program(variable(PROGRAM_VARIABLE));
    let places = Places {
        active: variable(ACTIVE_VARIABLE).map(Utf8PathBuf::from),
        private: private_torch(),
    };
    let chosen = variable(LIBTORCH_VARIABLE).map(|libtorch| Utf8Path::new(&libtorch).join("lib"));
    let (found, lacks) = match program.as_deref().map(|program| places.find(program)) {
        Some(Torch::Folder(torch)) => (Some(torch.join("lib")), None),
        // The user's own choice is used as it is.
        Some(Torch::Lacking(what)) if chosen.is_none() => (None, Some(what)),
        _ => (None, None),
    };
    let environment = environment(chosen.or(found), variable);
    WorkerCommand { program, arguments: Vec::new(), environment, lacks }
}

/// The folder of the libtorch that `throstle setup` fetches.
pub fn private_torch() -> Option<Utf8PathBuf> {
    Some(data_folder()?.join(format!("torch-{RELEASE}")))
}

/// The folder for what `throstle setup` fetches.
pub fn data_folder() -> Option<Utf8PathBuf> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| value.starts_with('/'));
    let data = variable("XDG_DATA_HOME").map(Utf8PathBuf::from);
    let data = data.or_else(|| Some(Utf8PathBuf::from(variable("HOME")?).join(".local/share")));
    Some(data?.join("throstle"))
}

/// The path in the variable, else beside this program, else in the package of its environment, else
/// on the search path.
fn program(chosen: Option<String>) -> Option<Utf8PathBuf> {
    if let Some(chosen) = chosen {
        return Some(chosen.into());
    }
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(|own| own.parent()).map(|folder| folder.join(PROGRAM));
    let search = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&search).map(|folder| folder.join(PROGRAM));
    // The place of a wheel, relative to the `bin` of the engine.
    let environment = own.as_deref().and_then(|own| Utf8Path::from_path(own.parent()?.parent()?));
    let packages = environment.map(packages_in).unwrap_or_default();
    let packaged =
        packages.into_iter().map(|it| it.join(PACKAGE).join(PROGRAM).into_std_path_buf());
    let mut all = beside.into_iter().chain(packaged).chain(on_path);
    all.find(|path| path.is_file()).and_then(utf8)
}

fn utf8(path: PathBuf) -> Option<Utf8PathBuf> {
    Utf8PathBuf::from_path_buf(path).ok()
}

/// The whole environment of the worker, which loads the libraries of this folder.
fn environment(
    torch: Option<Utf8PathBuf>,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let mut environment: Vec<(String, String)> =
        FIXED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let passed = PASSED.iter().filter_map(|name| Some(((*name).to_owned(), variable(name)?)));
    environment.extend(passed);
    // libtorch's own folder comes first, so that the worker loads the libraries it was built with.
    let own = torch.map(Utf8PathBuf::into_string);
    let folders: Vec<String> = own.into_iter().chain(variable(LIBRARIES_VARIABLE)).collect();
    if !folders.is_empty() {
        environment.push((LIBRARIES_VARIABLE.to_owned(), folders.join(":")));
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_libtorch_come_before_others() {
        let libraries = |torch: Option<&str>, set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(own, _)| *own == name);
            let torch = torch.map(Utf8PathBuf::from);
            let all = environment(torch, |name| value(name).map(|(_, value)| (*value).to_owned()));
            all.into_iter().find(|(name, _)| name == LIBRARIES_VARIABLE).map(|(_, value)| value)
        };
        let others = ("LD_LIBRARY_PATH", "/a:/b");
        assert_eq!(libraries(Some("/torch/lib"), &[others]).as_deref(), Some("/torch/lib:/a:/b"));
        assert_eq!(libraries(None, &[others]).as_deref(), Some("/a:/b"));
        assert_eq!(libraries(None, &[]), None);
    }

    #[test]
    fn variables_that_change_how_libtorch_computes_do_not_reach_the_worker() {
        let all = environment(None, |name| Some(format!("of {name}")));
        let has = |name: &str| all.iter().any(|(own, _)| own == name);
        for name in ["CUDA_VISIBLE_DEVICES", "PATH", "PYTORCH_ALLOC_CONF"] {
            assert!(has(name), "{name}");
        }
        for name in [
            "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
            "NVIDIA_TF32_OVERRIDE",
            "CUDNN_LOGLEVEL_DBG",
            "OMP_NUM_THREADS",
            "MKL_ENABLE_INSTRUCTIONS",
            "ATEN_CPU_CAPABILITY",
        ] {
            assert!(!has(name), "{name}");
        }
        for (name, value) in FIXED {
            let fixed = all.iter().find(|(own, _)| own == name);
            assert_eq!(fixed.map(|(_, own)| own.as_str()), Some(value), "not that of the caller");
        }
    }

    #[test]
    fn the_chosen_program_is_used_even_if_it_is_not_there() {
        assert_eq!(program(Some("/no/such/worker".into())), Some("/no/such/worker".into()));
    }
}
