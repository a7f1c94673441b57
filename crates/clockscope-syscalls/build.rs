//! Compiles the eBPF program that counts system calls.
//!
//! Needs `clang` with its BPF target, and nothing else: the program declares the few kernel types
//! that it reads. `CLANG` in the environment names another compiler. Without one, clockscope is
//! built without eBPF and says so when it runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "src/count.bpf.c";

/// Compiles the program and tells cargo: `cfg(have_bpf)` and the object's path in
/// `CLOCKSCOPE_BPF_OBJECT` if that worked, a warning if not.
fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed=src/arch");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out_dir = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let object = out_dir.join("count.bpf.o");
    match compile(&object) {
        Ok(()) => {
            println!("cargo::rustc-cfg=have_bpf");
            println!("cargo::rustc-env=CLOCKSCOPE_BPF_OBJECT={}", object.display());
        }
        Err(reason) => {
            println!("cargo::warning=building without eBPF: {reason}");
            // A file that is not there makes cargo try again at each build, until clang is.
            println!("cargo::rerun-if-changed=/usr/bin/clang");
        }
    }
}

/// Takes the lines and variables of a debugger out, a quarter of the object; BTF, which the kernel wants, stays.
/// clang has no option for BTF alone. Where LLVM's strip is not installed, the object stays whole.
fn strip(clang: &str, object: &Path) {
    let found = Command::new(clang).arg("-print-prog-name=llvm-strip").output();
    if let Ok(found) = found {
        let strip = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        let _ = Command::new(strip).arg("--strip-debug").arg(object).output();
    }
}

fn compile(object: &Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_string());
    // Otherwise the object contains the path of this folder, and differs from that of another build.
    let folder = env::current_dir().map_err(|error| format!("no current folder: {error}"))?;
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let output = Command::new(&clang)
        .arg(format!("-Isrc/arch/{architecture}"))
        .arg(format!("-ffile-prefix-map={}=.", folder.display()))
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-c", SOURCE, "-o"])
        .arg(object)
        .output()
        .map_err(|error| format!("cannot run `{clang}`: {error}; install clang"))?;
    if output.status.success() {
        strip(&clang, object);
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("error")).unwrap_or("it failed");
    Err(format!("`{clang}` cannot compile {SOURCE}: {line}"))
}
