//! Runs programs that need tracefs, and tracers of the whole host.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A command that sees tracefs. If tracefs is not mounted, the command mounts it in its own mount namespace.
pub(crate) fn with_tracefs(program: &Path) -> Command {
    let mut command = Command::new("unshare");
    let script = "mount -t tracefs nodev /sys/kernel/tracing && exec \"$@\"";
    command.args(["-m", "sh", "-c", script, "sh"]).arg(program);
    if Path::new("/sys/kernel/tracing/events").exists() {
        command = Command::new(program);
    }
    command.stdin(Stdio::null());
    command
}

/// A tracer that is killed, with its group, when the test ends: bpftrace 0.17 can miss a SIGINT and then waits for ever.
/// The kernel ends its events with it.
pub(crate) struct Tracer(Child);

impl Tracer {
    /// Starts a tracer, without its output.
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the tracer starts"))
    }

    /// The tracer's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Checks that the tracer has not ended, with an error for example.
    #[track_caller]
    pub(crate) fn assert_runs(&mut self) {
        let ended = self.0.try_wait().expect("it can be waited for");
        assert!(ended.is_none(), "the tracer ended: {ended:?}");
    }

    /// Waits until the tracer ends by itself.
    pub(crate) fn wait(&mut self) {
        self.0.wait().expect("it ends");
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let group = format!("-{}", self.0.id());
            let _ = Command::new("/bin/kill").args(["-s", "KILL", "--", &group]).status();
            let _ = self.0.wait();
        }
    }
}
