//! Names of processes and threads.

use std::fs::File;
use std::io::Read as _;

use clockscope_sys::proc_text;
use clockscope_text::foreign::Foreign;

/// The name of the program that a process runs, as `ps` shows it.
pub fn command_name(pid: i32) -> Foreign {
    let name = proc_text::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().into()
}

/// The name of a thread (`pthread_setname_np(3)`), which Java, for example, sets; empty if the thread has ended.
pub fn thread_name(pid: i32, tid: i32) -> Foreign {
    let name = proc_text::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    name.trim_end().into()
}

/// The command line of a process, or the title that the program has set instead, as `ps -f` shows it. At most the first
/// 1024 bytes.
pub fn title(pid: i32) -> Foreign {
    const MOST: u64 = 1024;
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{pid}/cmdline")) {
        // A command line that cannot be read is not shown.
        let _ = file.take(MOST).read_to_end(&mut bytes);
    }
    let words = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").trim().into()
}
