//! clockscope's scheduling class: above the real-time threads that wait for it, and only as long as they do.

use std::fs;

use crate::support::attaching::{Attachment, wait_until};
use crate::support::builds::{self, Link};
use crate::support::conversation::Conversation;
use crate::support::running::clockscope;
use crate::support::{priorities_or_skip, root_or_skip, skip};

/// `SCHED_OTHER`, as `/proc/PID/stat` has it.
const ORDINARY: &str = "0";

/// The policy of a process's first thread: field 41 of `proc_pid_stat(5)`.
fn policy(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(41 - 3).map(str::to_owned)
}

const A_PRIORITY_FOR_A_MOMENT: &str = "chrt -f 5 true; echo ready; read line; exit 7";

/// clockscope lowers its priority although the program makes no further stop.
#[test]
fn root_is_ordinary_again_after_a_real_time_program() {
    let Some(()) = priorities_or_skip("50").and_then(|()| root_or_skip()) else { return };
    let trace = words![clockscope(), "trace", "--via", "none", "-o", "/dev/null", "--"];
    let shell = ["sh", "-c", A_PRIORITY_FOR_A_MOMENT];
    let mut tracer = Conversation::start_silent(&words![trace, shell]);
    tracer.wait_for("ready");
    wait_until("it is ordinary", || policy(tracer.pid()).as_deref() == Some(ORDINARY));
    tracer.say("end");
    assert_eq!(tracer.status().code(), Some(7));
}

/// One thread of the target spins on clockscope's CPU. It goes on before the other threads, which wait for clockscope.
#[test]
fn a_program_is_not_kept_in_its_stops_by_a_real_time_thread_of_its_own() {
    let Some(()) = priorities_or_skip("50").and_then(|()| root_or_skip()) else { return };
    let Some(program) = builds::c("realtime", Link::Dynamic) else { return };
    let mut target = Conversation::start_silent(&words![program, "hog"]);
    if target.line() != "ready" {
        return skip("there is only one CPU");
    }
    let on_one_cpu = words!["taskset", "-c", "0"];
    let options = ["--via", "none", "--duration", "1"];
    Attachment::start(&on_one_cpu, &[target.pid()], &options).wait().succeeded();
    let said = target.ask("end");
    let number = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse::<u64>().ok()).expect("it says how many")
    };
    assert_eq!(target.status().code(), Some(0), "the thread spins until it is told to end");
    // There is one alarm a millisecond. `longest` is the longest time without one, in milliseconds.
    let (alarms, longest) = (number("alarms"), number("longest-ms"));
    assert!(longest < alarms, "{longest} ms without an alarm, of {alarms} alarms");
}
