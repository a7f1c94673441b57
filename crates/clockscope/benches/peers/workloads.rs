//! Compiles the programs in benches/workloads/.

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
    /// What a call costs by plain loops and by counting.
    pub(crate) agreement: PathBuf,
    /// What a call costs by google-benchmark, or why that cannot be asked.
    pub(crate) google_benchmark: Result<PathBuf, String>,
}

impl Workloads {
    /// Compiles all of them into `directory`.
    pub(crate) fn compile(directory: &Path) -> Result<Self> {
        Ok(Self {
            loop_program: compile(directory, "loop", &["-pthread"])?,
            true_program: compile(directory, "true", &["-static"])?,
            crowd: compile(directory, "crowd", &[])?,
            member: compile(directory, "member", &["-static"])?,
            agreement: compile(directory, "agreement", &LIKE_RUST)?,
            google_benchmark: compile_google_benchmark(directory)
                .map_err(|error| format!("{error:#}")),
        })
    }
}

/// Calls into libraries without a stub, as Rust's compiler makes them, and loops whose place does not
/// hang on what else is in the file: a cycle is 6 % of a read of 4 ns.
const LIKE_RUST: [&str; 3] = ["-fno-plt", "-falign-loops=64", "-falign-functions=64"];

fn compile(directory: &Path, name: &str, flags: &[&str]) -> Result<PathBuf> {
    compile_with("cc", &format!("{name}.c"), &directory.join(name), flags)
}

fn compile_google_benchmark(directory: &Path) -> Result<PathBuf> {
    let flags: Vec<&str> = LIKE_RUST.into_iter().chain(["-lbenchmark", "-pthread"]).collect();
    compile_with("g++", "agreement.cc", &directory.join("agreement-google"), &flags)
        .context("needs g++ and libbenchmark-dev")
}

fn compile_with(compiler: &str, source: &str, program: &Path, flags: &[&str]) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/workloads");
    let source = sources.join(source);
    let output = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra"])
        .arg(&source)
        .arg("-o")
        .arg(program)
        .args(flags)
        .output()
        .with_context(|| format!("failed to run {compiler}"))?;
    ensure!(
        output.status.success(),
        "failed to compile {}: {}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(program.to_owned())
}
