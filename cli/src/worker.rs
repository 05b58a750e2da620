//! Finds the worker program, the only one that links libtorch.

use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::WorkerCommand;

const PROGRAM: &str = "throstle-torch";
const PROGRAM_VARIABLE: &str = "THROSTLE_TORCH";
const LIBTORCH_VARIABLE: &str = "LIBTORCH";
const LIBRARIES_VARIABLE: &str = "LD_LIBRARY_PATH";

/// The command that starts the worker.
pub fn command() -> WorkerCommand {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    WorkerCommand {
        program: program(variable(PROGRAM_VARIABLE)),
        arguments: Vec::new(),
        environment: environment(variable(LIBTORCH_VARIABLE), variable(LIBRARIES_VARIABLE)),
    }
}

/// The path in the variable, else beside this program, else on the search path.
fn program(chosen: Option<String>) -> Option<Utf8PathBuf> {
    if let Some(chosen) = chosen {
        return Some(chosen.into());
    }
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(|own| own.parent()).map(|folder| folder.join(PROGRAM));
    let search = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&search).map(|folder| folder.join(PROGRAM));
    beside.into_iter().chain(on_path).find(|path| path.is_file()).and_then(utf8)
}

fn utf8(path: PathBuf) -> Option<Utf8PathBuf> {
    Utf8PathBuf::from_path_buf(path).ok()
}

/// libtorch's own folder comes first, so that the worker loads the libraries it was built with.
fn environment(libtorch: Option<String>, libraries: Option<String>) -> Vec<(String, String)> {
    let Some(libtorch) = libtorch else { return Vec::new() };
    let own = Utf8Path::new(&libtorch).join("lib").into_string();
    let value = match libraries {
        Some(others) => format!("{own}:{others}"),
        None => own,
    };
    vec![(LIBRARIES_VARIABLE.to_owned(), value)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_libtorch_come_before_others() {
        let value = environment(Some("/torch".into()), Some("/a:/b".into()));
        assert_eq!(value, [(LIBRARIES_VARIABLE.to_owned(), "/torch/lib:/a:/b".to_owned())]);
        assert_eq!(environment(None, Some("/a".into())), []);
    }

    #[test]
    fn the_chosen_program_is_used_even_if_it_is_not_there() {
        assert_eq!(program(Some("/no/such/worker".into())), Some("/no/such/worker".into()));
    }
}
