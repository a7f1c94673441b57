//! What every section needs: options, programs, a directory, and which tracers work here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::kernel_headers;
use crate::machine::Machine;
use crate::options::Options;
use crate::process::{self, Running, first_line};
use crate::tracer::Tracer;
use crate::workloads::Workloads;

/// Limit for one launch of a workload.
pub(crate) const LAUNCH_LIMIT: Duration = Duration::from_secs(120);

/// The suite's surroundings.
pub(crate) struct Suite {
    pub(crate) options: Options,
    pub(crate) machine: Machine,
    pub(crate) workloads: Workloads,
    pub(crate) clockscope: PathBuf,
    /// Where `__vdso_clock_gettime` lies in a loop without address randomisation; 0 if unknown.
    pub(crate) vdso_address: u64,
    /// Kernel headers for bcc, where it does not find its own.
    pub(crate) kernel_headers: Option<PathBuf>,
    directory: TempDir,
    tracefs_mounted: bool,
    refusals: RefCell<HashMap<String, Option<String>>>,
}

impl Suite {
    /// Compiles the workloads and looks around.
    pub(crate) fn prepare(options: Options) -> Result<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let workloads = Workloads::compile(target)?;
        let clockscope =
            options.clockscope.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_clockscope").into());
        let vdso_address = fixed_vdso_address(&workloads).unwrap_or(0);
        Ok(Self {
            options,
            machine: Machine::observe(),
            workloads,
            clockscope,
            vdso_address,
            kernel_headers: kernel_headers::for_bcc(target),
            directory: temporary_directory()?,
            tracefs_mounted: Path::new("/sys/kernel/tracing/events").exists(),
            refusals: RefCell::default(),
        })
    }

    /// A path in the suite's temporary directory, which is in memory where there is /dev/shm.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Lets a tracer see tracefs where it is not mounted, by a mount namespace of its own.
    pub(crate) fn with_tracefs(&self, command: Vec<OsString>) -> Vec<OsString> {
        if self.tracefs_mounted {
            return command;
        }
        let script = "mount -t tracefs nodev /sys/kernel/tracing && exec \"$@\"";
        let prefix = ["unshare", "-m", "sh", "-c", script, "sh"].map(OsString::from);
        prefix.into_iter().chain(command).collect()
    }

    /// Why a tracer cannot be used here; `None` if it can. Tries each tracer once.
    pub(crate) fn refusal(&self, tracer: Tracer) -> Option<String> {
        if let Some(known) = self.refusals.borrow().get(&tracer.name()) {
            return known.clone();
        }
        let refusal = self.try_tracer(tracer);
        self.refusals.borrow_mut().insert(tracer.name(), refusal.clone());
        refusal
    }

    /// The refusals met so far, as name and reason.
    pub(crate) fn refusals(&self) -> Vec<(String, String)> {
        let refusals = self.refusals.borrow();
        let mut list: Vec<_> =
            refusals.iter().filter_map(|(name, why)| Some((name.clone(), why.clone()?))).collect();
        list.sort();
        list
    }

    fn try_tracer(&self, tracer: Tracer) -> Option<String> {
        if let Some(program) = tracer.program()
            && !is_installed(program)
        {
            return Some("not installed".to_owned());
        }
        if tracer == Tracer::Breakpoint && self.vdso_address == 0 {
            return Some("does not run here: the vDSO's address is unknown".to_owned());
        }
        let tried =
            if tracer.attaches() { self.try_attaching(tracer) } else { self.try_launching(tracer) };
        tried.err().map(|error| format!("does not run here: {error:#}"))
    }

    fn try_launching(&self, tracer: Tracer) -> Result<()> {
        let summary = self.path("try");
        let arguments: Vec<OsString> =
            vec![self.workloads.loop_program.clone().into(), "idle".into()];
        process::run(&tracer.wrap(self, &summary, &arguments), Duration::from_secs(30)).map(drop)
    }

    fn try_attaching(&self, tracer: Tracer) -> Result<()> {
        let mut attached =
            Running::start(&tracer.attach(self, std::process::id())).context("failed to start")?;
        attached.wait_for_line("Tracing", Duration::from_secs(30))?;
        attached.signal("INT")?;
        attached.finish(Duration::from_secs(30)).map(drop)
    }
}

/// Where a program is, on the search path or in the directories of system programs.
pub(crate) fn path_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut candidates =
        std::env::split_paths(&path).chain(system).map(|place| place.join(program));
    candidates.find(|path| path.exists())
}

/// Whether a program is there.
pub(crate) fn is_installed(program: &str) -> bool {
    path_of(program).is_some()
}

/// The programs of this list that are missing, as a sentence; `None` if all are there.
pub(crate) fn missing(programs: &[&str]) -> Option<String> {
    let missing: Vec<&str> = programs.iter().copied().filter(|name| !is_installed(name)).collect();
    (!missing.is_empty()).then(|| format!("not installed: {}", missing.join(", ")))
}

fn temporary_directory() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new()
        .prefix("clockscope-bench-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir_in(base)
        .context("failed to make a temporary directory")
}

fn fixed_vdso_address(workloads: &Workloads) -> Option<u64> {
    let command: Vec<OsString> =
        vec!["setarch".into(), "-R".into(), workloads.loop_program.clone().into(), "idle".into()];
    let finished = process::run(&command, Duration::from_secs(10)).ok()?;
    let address = first_line(&finished.stdout).split_whitespace().nth(1)?;
    u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()
}
