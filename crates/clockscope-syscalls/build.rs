//! Compiles the eBPF programs: one counts system calls, one samples CPUs.
//!
//! Needs only `clang` with its BPF target: the programs declare the few kernel types that they read. `CLANG` in the
//! environment names another compiler. Without a compiler, clockscope is built without eBPF and reports that when it
//! runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each program, and the environment variable for the path of its object.
const PROGRAMS: [(&str, &str); 2] =
    [("count", "CLOCKSCOPE_BPF_OBJECT"), ("sample", "CLOCKSCOPE_SAMPLE_OBJECT")];

/// Compiles the programs. On success sets `cfg(have_bpf)` and the objects' paths for cargo, otherwise gives a warning.
fn main() {
    for (program, _) in PROGRAMS {
        println!("cargo::rerun-if-changed={}", source(program));
    }
    println!("cargo::rerun-if-changed=src/arch");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out_dir = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let object = |program: &str| out_dir.join(format!("{program}.bpf.o"));
    match PROGRAMS.iter().try_for_each(|(program, _)| compile(&source(program), &object(program))) {
        Ok(()) => {
            println!("cargo::rustc-cfg=have_bpf");
            for (program, variable) in PROGRAMS {
                println!("cargo::rustc-env={variable}={}", object(program).display());
            }
        }
        Err(reason) => {
            println!("cargo::warning=building without eBPF: {reason}");
            // A path that never exists makes cargo try again at each build. The path of clang would not: packages
            // install clang with a date in the past, which cargo takes for unchanged.
            println!("cargo::rerun-if-changed={}", object("never").display());
        }
    }
}

fn source(program: &str) -> String {
    format!("src/{program}.bpf.c")
}

/// Removes the debugger's line and variable info, local labels, and what only a linker needs of `.BTF.ext`: half of the
/// object. BTF, which the kernel needs, stays; clang has no option for BTF alone. Without LLVM's strip the object stays
/// complete.
fn strip(clang: &str, object: &Path) {
    let found = Command::new(clang).arg("-print-prog-name=llvm-strip").output();
    if let Ok(found) = found {
        let strip = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        let options = ["--strip-debug", "--discard-all", "--remove-section=.rel.BTF.ext"];
        let _ = Command::new(strip).args(options).arg(object).output();
    }
}

fn compile(source: &str, object: &Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_string());
    // Without the prefix map the object contains the path of this folder, and differs between builds.
    let folder = env::current_dir().map_err(|error| format!("no current folder: {error}"))?;
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let output = Command::new(&clang)
        .arg(format!("-Isrc/arch/{architecture}"))
        .arg(format!("-ffile-prefix-map={}=.", folder.display()))
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-c", source, "-o"])
        .arg(object)
        .output()
        .map_err(|error| format!("cannot run `{clang}`: {error}; install clang"))?;
    if output.status.success() {
        strip(&clang, object);
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("error")).unwrap_or("it failed");
    Err(format!("`{clang}` cannot compile {source}: {line}"))
}
