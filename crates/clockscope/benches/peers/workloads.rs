//! Compiles the programs in benches/workloads/.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The compiled programs.
#[derive(Debug)]
pub(crate) struct Workloads {
    /// Calls of one kind in timed batches.
    pub(crate) loop_program: PathBuf,
    /// Threads to attach to.
    pub(crate) attached: PathBuf,
    /// Ends at once; static.
    pub(crate) true_program: PathBuf,
    /// Keeps many copies of a program alive.
    pub(crate) crowd: PathBuf,
    /// One of the crowd; static.
    pub(crate) member: PathBuf,
    /// What a call costs by plain loops and by counting.
    pub(crate) agreement: PathBuf,
    /// Threads that compare what they read.
    pub(crate) order: PathBuf,
    /// What a call costs by google-benchmark, or why that cannot be asked.
    pub(crate) google_benchmark: Result<PathBuf, String>,
}

impl Workloads {
    /// Compiles all of them into `directory`.
    pub(crate) fn compile(directory: &Path) -> Result<Self> {
        Ok(Self {
            loop_program: compile(directory, "loop", &["-pthread"])?,
            attached: compile(directory, "attached", &["-pthread"])?,
            true_program: compile(directory, "true", &["-static"])?,
            crowd: compile(directory, "crowd", &[])?,
            member: compile(directory, "member", &["-static"])?,
            agreement: compile(directory, "agreement", &LIKE_RUST)?,
            order: compile(directory, "order", &["-pthread"])?,
            google_benchmark: compile_google_benchmark(directory)
                .map_err(|error| format!("{error:#}")),
        })
    }

    /// Builds libfastclock.so, as `cargo bench` does not, and the loops in C that call it.
    pub(crate) fn fastclock_loops(&self) -> Result<PathBuf> {
        let directory = self.loop_program.parent().context("no directory")?;
        let libraries = build_fastclock()?;
        let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fastclock-c/include");
        let link = directory.join("libfastclock.so.0");
        // It is not there the first time; where it cannot be made, the linker says so.
        let _ = std::fs::remove_file(&link);
        let _ = std::os::unix::fs::symlink(libraries.join("libfastclock.so"), &link);
        let (include, search, run) = (
            format!("-I{}", header.display()),
            format!("-L{}", libraries.display()),
            format!("-Wl,-rpath,{}", directory.display()),
        );
        let flags: Vec<&str> =
            LIKE_RUST.into_iter().chain([include.as_str(), &search, &run, "-lfastclock"]).collect();
        compile(directory, "fastclock", &flags)
    }
}

/// The directory of libfastclock.so, built as released.
fn build_fastclock() -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("no target directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--package", "fastclock-c", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("failed to run cargo")?;
    ensure!(
        output.status.success(),
        "failed to build libfastclock.so: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(target.join("release"))
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
