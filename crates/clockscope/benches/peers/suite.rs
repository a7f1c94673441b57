//! What every section needs: options, programs, a directory, and which tracers work here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::options::Options;
use crate::tools::{Tools, is_installed};
use crate::tracer::Tracer;
use crate::workloads::Workloads;

/// Limit for one launch of a workload.
pub(crate) const LAUNCH_LIMIT: Duration = Duration::from_secs(120);

/// The suite's surroundings.
pub(crate) struct Suite {
    pub(crate) options: Options,
    pub(crate) cpus: usize,
    pub(crate) workloads: Workloads,
    pub(crate) tools: Tools,
    directory: TempDir,
    refusals: RefCell<HashMap<String, Option<String>>>,
}

impl Suite {
    /// Compiles the workloads and looks around.
    pub(crate) fn prepare(options: Options) -> Result<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let workloads = Workloads::compile(target)?;
        Ok(Self {
            options,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            tools: Tools::find(&workloads.loop_program),
            workloads,
            directory: temporary_directory()?,
            refusals: RefCell::default(),
        })
    }

    /// A path in the suite's temporary directory, which is in memory where there is /dev/shm.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
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
            && !is_installed(&program)
        {
            return Some("not installed".to_owned());
        }
        if tracer == Tracer::Breakpoint && self.tools.vdso_address == 0 {
            return Some("does not run here: the vDSO's address is unknown".to_owned());
        }
        let tried = self.try_launching(tracer);
        tried.err().map(|error| format!("does not run here: {error:#}"))
    }

    fn try_launching(&self, tracer: Tracer) -> Result<()> {
        let summary = self.path("try");
        let arguments: Vec<OsString> =
            vec![self.workloads.loop_program.clone().into(), "idle".into()];
        let line = tracer.wrap(&self.tools, &summary, &arguments);
        tracer.run(&line, Duration::from_secs(30)).map(drop)
    }
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
