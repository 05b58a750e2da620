//! Lets the worker find the libtorch it was built with.
//!
//! Only `libtorch_cpu` and `libc10` end up as needed libraries: the linker drops what
//! no symbol asks for, and the worker opens the CUDA part itself when a GPU is wanted.
//! A run path (not the older, stronger kind) lets `LD_LIBRARY_PATH` point elsewhere.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(folder) = std::env::var_os("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo:rustc-link-arg=-Wl,--enable-new-dtags");
        println!("cargo:rustc-link-arg=-Wl,-rpath={}", folder.display());
    }
}
