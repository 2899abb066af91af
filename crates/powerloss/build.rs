//! Compiles `src/shim.c` to a shared library beside the crate's other products.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    let library = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("powerloss.so");
    let status = cc::Build::new()
        .opt_level(2)
        .get_compiler()
        .to_command()
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fno-builtin", "-o"])
        .arg(&library)
        .args(["src/shim.c", "-lpthread"])
        .status()
        .expect("scripts/setup installs a C compiler");
    assert!(status.success(), "the C compiler failed");
    println!("cargo::rustc-env=POWERLOSS_LIBRARY={}", library.display());
}
