//! Compiles the C programs in benches/workloads/.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The compiled programs.
#[derive(Debug)]
pub(crate) struct Workloads {
    /// Calls of one kind in timed batches.
    pub(crate) loop_program: PathBuf,
    /// Ends at once; static.
    pub(crate) true_program: PathBuf,
    /// Keeps many copies of a program alive.
    pub(crate) crowd: PathBuf,
    /// One of the crowd; static.
    pub(crate) member: PathBuf,
}

impl Workloads {
    /// Compiles all of them into `directory`.
    pub(crate) fn compile(directory: &Path) -> Result<Self> {
        Ok(Self {
            loop_program: compile(directory, "loop", &["-pthread"])?,
            true_program: compile(directory, "true", &["-static"])?,
            crowd: compile(directory, "crowd", &[])?,
            member: compile(directory, "member", &["-static"])?,
        })
    }
}

fn compile(directory: &Path, name: &str, flags: &[&str]) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/workloads");
    let source = sources.join(name).with_extension("c");
    let program = directory.join(name);
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra"])
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .context("failed to run cc: install gcc")?;
    ensure!(
        output.status.success(),
        "failed to compile {}: {}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(program)
}
