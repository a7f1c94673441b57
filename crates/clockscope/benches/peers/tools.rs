//! The programs on this machine, and what tracers need to run here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{self, first_line};

/// What tracers need.
pub(crate) struct Tools {
    pub(crate) clockscope: PathBuf,
    /// Where `__vdso_clock_gettime` lies in a loop without address randomisation; 0 if unknown.
    pub(crate) vdso_address: u64,
    tracefs_mounted: bool,
}

impl Tools {
    /// Looks around; `loop_program` is a workload.
    pub(crate) fn find(loop_program: &Path) -> Self {
        Self {
            clockscope: env!("CARGO_BIN_EXE_clockscope").into(),
            vdso_address: fixed_vdso_address(loop_program).unwrap_or(0),
            tracefs_mounted: Path::new("/sys/kernel/tracing/events").exists(),
        }
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

fn fixed_vdso_address(loop_program: &Path) -> Option<u64> {
    let command: Vec<OsString> =
        vec!["setarch".into(), "-R".into(), loop_program.into(), "idle".into()];
    let finished = process::run(&command, Duration::from_secs(10)).ok()?;
    let address = first_line(&finished.stdout).split_whitespace().nth(1)?;
    u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()
}
