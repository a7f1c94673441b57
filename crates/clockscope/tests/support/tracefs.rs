//! Runs programs that need tracefs.

use std::path::Path;
use std::process::Command;

/// A command that sees tracefs. If tracefs is not mounted, the command mounts it in its own mount namespace.
pub(crate) fn with_tracefs(program: &Path) -> Command {
    if Path::new("/sys/kernel/tracing/events").exists() {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    let script = "mount -t tracefs nodev /sys/kernel/tracing && exec \"$@\"";
    command.args(["-m", "sh", "-c", script, "sh"]).arg(program);
    command
}
