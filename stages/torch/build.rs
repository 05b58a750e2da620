//! Lets the worker find the libtorch that it was built with, and know its release; compiles the
//! shim for functions of libtorch that the bindings lack.
//!
//! Only `libtorch_cpu` and `libc10` end up as needed libraries: the linker drops what
//! no symbol asks for, and the worker opens the CUDA part itself when a GPU is wanted.
//! A run path (not the older, stronger kind) lets `LD_LIBRARY_PATH` point elsewhere.
// The lint is about environment variables at run time.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=shim");
    let Some(folder) = std::env::var_os("DEP_TCH_LIBTORCH_LIB") else {
        println!("cargo:rustc-env=THROSTLE_LIBTORCH=unknown");
        return;
    };
    println!("cargo:rustc-link-arg=-Wl,--enable-new-dtags");
    println!("cargo:rustc-link-arg=-Wl,-rpath={}", folder.display());
    let release = release(Path::new(&folder)).unwrap_or_else(|| "unknown".into());
    println!("cargo:rustc-env=THROSTLE_LIBTORCH={release}");
    compile_shim(Path::new(&folder));
}

/// The headers are beside the libraries, in wheels and in archives.
fn compile_shim(libraries: &Path) {
    let headers = libraries.parent().unwrap_or(libraries).join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .include(headers.join("torch/csrc/api/include"))
        .include(headers)
        .files(["shim/shim.cpp", "shim/graph.cpp"])
        .compile("throstle_shim");
}

/// The release beside the library folder: wheels have `version.py`, archives `build-version`.
fn release(folder: &Path) -> Option<String> {
    let root = folder.parent()?;
    if let Ok(text) = std::fs::read_to_string(root.join("build-version")) {
        return Some(text.trim().to_owned());
    }
    let text = std::fs::read_to_string(root.join("version.py")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
    Some(line.trim_matches(['\'', '"']).to_owned())
}
