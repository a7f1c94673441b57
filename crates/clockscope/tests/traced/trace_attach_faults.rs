//! Processes that clockscope cannot attach to, or can hardly attach to: each goes on as if clockscope had not tried,
//! and clockscope counts it or gives the reason in one line.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::attaching::{
    Attachment, HAS_ENDED, Image, assert_nothing_piles_up, assert_refused, attach_below,
    attach_for, is_attached_or_refused, mappings, signal, status_of, wait_until,
};
use crate::support::builds::{self, Link};
use crate::support::command::Said;
use crate::support::compare::assert_counts;
use crate::support::conversation::Conversation;
use crate::support::placed::{self, as_nobody, for_everybody};
use crate::support::printed::Printed;
use crate::support::running::{Report, Traced, child_of, clockscope, code_as_shell, untraced};
use crate::support::terminal::{Terminal, quoted};
use crate::support::{installed_or_skip, root_or_skip, server, skip};

const VDSO: [&str; 2] = ["--via", "none"];

/// A running `attach_states STATE`.
fn in_state(state: &str) -> Option<Conversation> {
    let program = builds::c("attach_states", Link::Dynamic)?;
    Some(Conversation::start(&words![program, state]))
}

/// Attaches to a process that counts on request, and compares the counts.
#[track_caller]
fn counts_of(target: &mut Conversation) {
    let attachment = Attachment::to(&[target.pid()], &VDSO);
    let said = Printed::parse(&target.ask("count"));
    assert_counts(&said, &attachment.detach().report());
}

/// Reason of a refusal while a thread waits in vfork for its child.
const IN_VFORK: &str = "waits in vfork for a child that has not executed a program yet; try again";

/// Reasons of a refusal while threads call vfork again and again.
const VFORKS: &[&str] = &[IN_VFORK, "it did not come to the end of what it was to do; try again"];

// Targets that end, stand still or sleep.

/// Ends targets while clockscope attaches to them, until the target's end and the attachment have each come first in an
/// eighth of `rounds`. The number of answers before the end adapts, so that the ends come before and after the
/// attachment on a machine of any speed.
fn ends_during_the_attachment(rounds: u32, threads: u32, end: impl Fn(Conversation)) {
    let (mut attached, mut refused, mut answers) = (0, 0, 8);
    for round in 0..5 * rounds {
        let Some(mut target) = server(threads + round % 7) else { return };
        let mut attachment = Attachment::start(&[], &[target.pid()], &VDSO);
        for number in 0..answers {
            target.check_an_answer(number);
        }
        end(target);
        if is_attached_or_refused(&attachment.wait(), HAS_ENDED) {
            (attached, answers) = (attached + 1, answers - answers / 3);
        } else {
            (refused, answers) = (refused + 1, answers + answers / 2 + 1);
        }
        if round + 1 >= rounds && attached.min(refused) >= rounds / 8 {
            return;
        }
    }
    panic!("attached {attached} times, refused {refused} times");
}

#[test]
fn the_target_exits_during_the_attachment() {
    ends_during_the_attachment(40, 2, Conversation::ends_well);
}

#[test]
fn the_target_is_killed_during_the_attachment() {
    ends_during_the_attachment(24, 8, |target| {
        signal("KILL", target.pid());
        assert_eq!(code_as_shell(target.status()), 128 + 9);
    });
}

fn is_in_state(pid: i32, letter: char) -> bool {
    status_of(pid, "State").is_some_and(|state| state.starts_with(letter))
}

#[test]
fn a_target_that_is_stopped_stays_stopped() {
    let Some(mut target) = server(4) else { return };
    let pid = target.pid();
    signal("STOP", pid);
    wait_until("the target is stopped", || is_in_state(pid, 'T'));
    for _ in 0..3 {
        attach_for("0.1", &[pid], &VDSO).succeeded();
        wait_until("the target is stopped again", || is_in_state(pid, 'T'));
    }
    signal("CONT", pid);
    target.check_an_answer(3);
    Attachment::counts_exactly(&mut target, &VDSO);
    target.ends_well();
}

#[test]
fn a_target_that_is_stopped_and_continued_while_attached() {
    let Some(mut target) = server(4) else { return };
    let pid = target.pid();
    let attachment = Attachment::to(&[pid], &VDSO);
    target.begin();
    for _ in 0..5 {
        signal("STOP", pid);
        wait_until("the target is stopped", || is_in_state(pid, 'T') || is_in_state(pid, 't'));
        signal("CONT", pid);
        target.check_an_answer(3);
    }
    assert_counts(&target.end(), &attachment.detach().report());
    target.ends_well();
}

/// States of `attach_states.c` in which clockscope refuses to attach, and the reason.
const REFUSED: [(Link, &str, &str); 8] = [
    // The first two wait in uninterruptible sleep.
    (Link::Dynamic, "vfork", IN_VFORK),
    (Link::Dynamic, "vfork-thread", IN_VFORK),
    (Link::Dynamic, "shares", "runs on the same memory"),
    (Link::Dynamic, "traced", "it is traced by attach_states"),
    (Link::Dynamic, "unmapped", "the kernel gave it no vDSO"),
    (Link::Dynamic, "kill-all", "a seccomp filter may not let rt_sigprocmask pass"),
    (Link::Dynamic, "refuse-shmat", "a seccomp filter may not let shmat pass"),
    (Link::Bits32, "waits", "32-bit"),
];

#[test]
fn targets_that_are_refused_go_on_as_they_were() {
    for (link, state, why) in REFUSED {
        let Some(program) = builds::c("attach_states", link) else { continue };
        let mut target = Conversation::start(&words![program, state]);
        let before = Image::of(target.pid());
        for _ in 0..3 {
            assert_refused(&attach_for("0.1", &[target.pid()], &VDSO), &[why]);
            assert!(Image::of(target.pid()) == before, "{state}: its vDSO has changed");
        }
        if state != "unmapped" {
            target.ask("count");
        }
        target.ends_well();
    }
}

/// A timer counts as a queued signal, and all programs of a user together have a limit for those (RLIMIT_SIGPENDING).
#[test]
fn without_timers_a_target_is_left_as_it_was_and_a_program_is_not_started() {
    let Some(target) = server(2) else { return };
    let before = Image::of(target.pid()).expect("it has a vDSO");
    // Timers of other tests count too, so the limit is searched for.
    let (mut timers, mut refused) = (0, 0);
    let options = ["--callers", "--via", "none"];
    loop {
        assert!(timers < 100_000, "no number of timers is enough");
        let starter = words!["prlimit", format!("--sigpending={timers}")];
        let traced = attach_below(&starter, "0.05", &[target.pid()], &options);
        let is_attached = is_attached_or_refused(&traced, &["resource temporarily unavailable"]);
        before.assert_as_before(target.pid());
        if is_attached {
            break;
        }
        (timers, refused) = (timers + 1 + timers / 8, refused + 1);
    }
    assert!(refused > 1, "one timer is enough");
    target.goes_on_and_ends_well();
    let folder = tempfile::tempdir().expect("a folder");
    let made = folder.path().join("made");
    let trace = words!["prlimit", "--sigpending=0", clockscope(), "trace", options];
    Said::of(untraced(&words![trace, "--", "touch", made])).is_refused(125, &["timer"]);
    assert!(!made.exists(), "the program has started");
}

/// vfork-loop: two threads call vfork again and again. vfork-sleep: each vfork child executes a program that goes on
/// and is no longer traced. In both cases clockscope need not wait for the children, nor restore anything in them.
#[test]
fn a_target_that_makes_children_by_vfork_all_the_time() {
    for (state, time, rounds, least) in
        [("vfork-loop", "0.02", 20, 10), ("vfork-sleep", "0.05", 10, 1)]
    {
        let Some(mut target) = in_state(state) else { return };
        let before = Image::of(target.pid()).expect("it has a vDSO");
        let maps = mappings(target.pid());
        let mut attached = 0;
        for _ in 0..rounds {
            let traced = attach_for(time, &[target.pid()], &VDSO);
            attached += u32::from(is_attached_or_refused(&traced, VFORKS));
            assert!(!traced.stderr.contains("does not stop"), "{}", traced.stderr);
            before.assert_as_before(target.pid());
            assert_nothing_piles_up(target.pid(), &maps);
        }
        assert!(attached >= least, "{state}: attached {attached} times in {rounds}");
        if state == "vfork-loop" {
            target.ask("count");
        }
        target.ends_well();
    }
}

/// The target's only thread waits in vfork when clockscope detaches. Its child, on the same memory, goes on when
/// clockscope has left.
#[test]
fn a_target_that_waits_in_vfork_when_clockscope_leaves() {
    let Some(mut target) = in_state("waits") else { return };
    let before = Image::of(target.pid()).expect("it has a vDSO");
    let maps = mappings(target.pid());
    let attachment = Attachment::to(&[target.pid()], &VDSO);
    let said = Printed::parse(&target.ask("count"));
    target.ask("vfork");
    let traced = attachment.detach();
    assert_counts(&said, &traced.report());
    before.assert_as_before(target.pid());
    assert_nothing_piles_up(target.pid(), &maps);
    target.ask("count");
    target.ends_well();
}

/// `/proc/PID` shows no memory of a process whose first thread has ended.
#[test]
fn a_target_whose_first_thread_ends_while_attached() {
    let Some(mut target) = in_state("first-ends-later") else { return };
    let attachment = Attachment::to(&[target.pid()], &VDSO);
    target.ask("end-first");
    let said = Printed::parse(&target.ask("count"));
    assert_counts(&said, &attachment.detach().report());
    for _ in 0..4 {
        assert_eq!(target.ask("clean"), "", "no memory is shared with clockscope");
        counts_of(&mut target);
    }
    target.ends_well();
}

/// The kernel resumes these calls if their thread was only stopped.
#[test]
fn system_calls_that_wait_are_not_seen_to_be_interrupted() {
    let Some(mut target) = in_state("asleep") else { return };
    for round in 0..20 {
        let via = ["none", "ptrace"][round % 2];
        attach_for("0.02", &[target.pid()], &["--via", via]).succeeded();
    }
    let said = target.ask("count");
    let interrupted: Vec<&str> = said.lines().filter(|line| line.starts_with("result")).collect();
    // A sigtimedwait with a limit returns EINTR after any stop, by any tracer (signal(7)).
    let unexpected: Vec<&&str> =
        interrupted.iter().filter(|line| !line.contains("sigtimedwait")).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    target.ends_well();
}

/// With `--via ptrace`, a thread stands at the beginning or the end of a system call when clockscope detaches.
#[test]
fn a_wait_without_limit_ends_only_by_a_signal() {
    let Some(program) = builds::c("woken", Link::Dynamic) else { return };
    let target = Conversation::start(&words![program]);
    for round in 0..80 {
        let via = ["ptrace", "none", "ptrace", "ptrace"][round % 4];
        attach_for("0.02", &[target.pid()], &["--via", via]).succeeded();
    }
    let (said, status) = target.last_words();
    assert_eq!(status.code(), Some(7), "{said}");
}

/// The calls of `transfers.c`: a stop makes each return early with the part transferred so far.
const TRANSFERS: [(&str, i64); 11] = [
    ("write", libc::SYS_write),
    ("writev", libc::SYS_writev),
    ("pwritev2", libc::SYS_pwritev2),
    ("sendto", libc::SYS_sendto),
    ("sendmsg", libc::SYS_sendmsg),
    ("sendmmsg", libc::SYS_sendmmsg),
    ("sendfile", libc::SYS_sendfile),
    ("splice", libc::SYS_splice),
    ("recvfrom", libc::SYS_recvfrom),
    ("recvmsg", libc::SYS_recvmsg),
    ("recvmmsg", libc::SYS_recvmmsg),
];

/// Begins a transfer without a reader, and waits until a thread sleeps in the call.
#[track_caller]
fn begin_transfer(target: &mut Conversation, number: i64) {
    target.say("go");
    let call = format!("{number} ");
    let threads = format!("/proc/{}/task", target.pid());
    wait_until("a thread waits in the transfer", || {
        fs::read_dir(&threads).expect("list its threads").flatten().any(|thread| {
            let line = fs::read_to_string(thread.path().join("syscall"));
            line.is_ok_and(|line| line.starts_with(&call))
        })
    });
}

/// One transfer is under way when clockscope attaches, and one when it detaches. None begins between clockscope's check
/// of the threads and their stop.
#[test]
fn calls_that_transfer_much_are_not_cut_short() {
    let Some(program) = builds::c("transfers", Link::Dynamic) else { return };
    for (call, number) in TRANSFERS {
        let mut target = Conversation::start(&words![program, call]);
        let pids = [target.pid()];
        let begins = Image::of_all(&pids);
        begin_transfer(&mut target, number);
        let mut attachment = Attachment::start(&[], &pids, &VDSO);
        target.say("take");
        let first = target.ask("count");
        attachment.reaches(&pids, &begins);
        begin_transfer(&mut target, number);
        signal("INT", attachment.pid());
        target.say("take");
        let second = target.ask("count");
        attachment.wait().succeeded();
        let said = [first.trim_end(), second.trim_end()];
        let whole = ["result transfers 1 early 0", "result transfers 2 early 0"];
        assert_eq!(said, whole, "{call}");
        target.ends_well();
    }
}

#[test]
fn a_call_that_transfers_for_ever_does_not_keep_clockscope_waiting() {
    let Some(program) = builds::c("transfers", Link::Dynamic) else { return };
    let mut targets = [(); 4].map(|()| Conversation::start(&words![program, "write"]));
    targets.iter_mut().for_each(|target| begin_transfer(target, libc::SYS_write));
    let pids = targets.each_ref().map(Conversation::pid);
    let begins = Image::of_all(&pids);
    attach_for("0.1", &pids, &VDSO).succeeded();
    for (target, image) in targets.into_iter().zip(begins) {
        image.assert_as_before(target.pid());
        target.ends_well();
    }
}

// Targets that may not or cannot be traced.

#[test]
fn strace_is_there_and_leaves() {
    let Some(strace) = installed_or_skip(&["/usr/bin/strace"]) else { return };
    let Some(target) = server(3) else { return };
    let pid = target.pid();
    let mut other = Command::new(strace)
        .args(["-f", "-e", "trace=none", "-o", "/dev/null", "-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start strace");
    wait_until("strace traces it", || status_of(pid, "TracerPid").is_some_and(|id| id != "0"));
    let traced = attach_for("0.2", &[pid], &VDSO);
    assert_refused(&traced, &["it is traced by strace ("]);
    signal("INT", other.id().try_into().expect("is a pid"));
    other.wait().expect("wait for strace");
    attach_for("0.2", &[pid], &VDSO).succeeded();
    target.goes_on_and_ends_well();
}

/// Process id of a kernel thread, found by PF_KTHREAD in its flags.
fn kernel_thread() -> Option<i32> {
    let entries = fs::read_dir("/proc").expect("list /proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let flags_of = |pid: i32| -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(6)?.parse().ok()
    };
    pids.into_iter().find(|pid| flags_of(*pid).is_some_and(|flags| flags & 0x0020_0000 != 0))
}

#[test]
fn a_kernel_thread() {
    let Some(pid) = kernel_thread() else { return skip("no kernel thread is to be seen here") };
    let traced = attach_for("0.1", &[pid], &VDSO);
    assert_refused(&traced, &["kernel", &pid.to_string()]);
}

#[test]
fn a_process_of_another_user_without_rights() {
    let Some(()) = root_or_skip() else { return };
    let Some(target) = server(3) else { return };
    let directory = for_everybody(&[(&clockscope(), "clockscope", 0o755)]);
    let pid = target.pid().to_string();
    let own = directory.path().join("clockscope");
    let trace = ["trace", "--via", "none", "-p", &pid, "--duration", "0.1"];
    let traced = Traced::of(&untraced(&words![as_nobody(), own, trace]), None);
    assert_refused(&traced, &[&pid]);
    let says = ["root", "permi", "allow", "user"].iter().any(|word| traced.stderr.contains(word));
    assert!(says, "{}", traced.stderr);
    target.goes_on_and_ends_well();
}

#[test]
fn a_process_of_the_same_user_needs_no_root() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("attach_server", Link::Static) else { return };
    let files = [(&*clockscope(), "clockscope", 0o755), (&program, "attach_server", 0o755)];
    let directory = for_everybody(&files);
    let [own, copy, report] =
        ["clockscope", "attach_server", "report.json"].map(|name| directory.path().join(name));
    let target = Conversation::start(&words![as_nobody(), copy, "3"]);
    let before = Image::of(target.pid()).expect("it has a vDSO");
    let trace = words![own, "trace", "--via", "none", "-p", target.pid().to_string()];
    let options = words!["--duration", "0.5", "--format", "json", "-o", report];
    let output = untraced(&words![as_nobody(), trace, options]);
    let traced = Traced::of(&output, Report::read(&report));
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if yama.trim().is_empty() || yama.trim() == "0" {
        assert_eq!(traced.code(), 0, "{traced:?}");
        assert!(traced.report().reads_of("CLOCK_MONOTONIC") > 0, "{traced:?}");
    } else {
        assert_refused(&traced, &["ptrace_scope"]);
    }
    before.assert_as_before(target.pid());
    target.goes_on_and_ends_well();
}

#[test]
fn a_process_under_a_filter_that_forbids_nothing_that_is_needed() {
    let Some(mut target) = in_state("kill-some") else { return };
    counts_of(&mut target);
    target.ends_well();
}

#[test]
fn a_process_that_must_not_read_the_counter() {
    let Some(mut target) = in_state("no-tsc") else { return };
    let mut attachment =
        Attachment::start(&[], &[target.pid()], &[&VDSO[..], &["--duration", "0.5"]].concat());
    for _ in 0..200 {
        target.ask("count");
    }
    attachment.wait().succeeded();
    target.ask("count");
    target.ends_well();
}

// Large, stripped, deleted, elsewhere.

#[test]
fn a_thousand_threads() {
    let Some(mut target) = server(1000) else { return };
    let before = Image::of(target.pid()).expect("it has a vDSO");
    for _ in 0..2 {
        let report = Attachment::counts_exactly(&mut target, &VDSO);
        assert_eq!(report.field("attached")[0]["threads"], 1000, "{report:#?}");
    }
    before.assert_as_before(target.pid());
    target.ends_well();
}

#[test]
fn a_stripped_program_that_has_been_deleted() {
    let Some(program) = builds::c_with("attach_server", Link::Dynamic, &["-s", "-g0"]) else {
        return;
    };
    let directory = tempfile::tempdir_in("/tmp").expect("make a temporary directory");
    let copy = directory.path().join("attach_server");
    placed::program(&program, &copy, 0o755);
    let mut target = Conversation::start(&words![copy, "4"]);
    fs::remove_file(&copy).expect("delete the program");
    for options in [&["--via", "none"][..], &["--via", "none", "--callers"]] {
        Attachment::counts_exactly(&mut target, options);
    }
    target.ends_well();
}

#[test]
fn a_process_in_other_namespaces() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("attach_server", Link::Static) else { return };
    let spaces =
        ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc"];
    for spaces in [&spaces[..], &["--ipc"]] {
        let mut target = Conversation::start(&words!["unshare", spaces, "--", program, "4"]);
        let pid = child_of(target.pid()).unwrap_or_else(|| target.pid());
        for options in [&["--via", "none"][..], &["--via", "bpf"]] {
            let attachment = Attachment::to(&[pid], options);
            target.begin();
            target.check_an_answer(1);
            let said = ["end", "fork 100", "exec 200"].map(|line| target.ask(line)).concat();
            assert_counts(&Printed::parse(&said), &attachment.detach().report());
        }
        target.ends_well();
    }
}

#[test]
fn clockscope_in_another_pid_namespace_sees_only_what_is_in_it() {
    let Some(()) = root_or_skip() else { return };
    let Some(target) = server(2) else { return };
    let starter = words!["unshare", "--pid", "--fork", "--mount-proc"];
    let traced = attach_below(&starter, "0.1", &[target.pid()], &VDSO);
    assert_refused(&traced, &["there is no such process"]);
    target.goes_on_and_ends_well();
}

// Numbers.

#[test]
fn a_process_that_has_ended_or_never_was() {
    let mut gone = Command::new("true").spawn().expect("start true");
    let pid = i32::try_from(gone.id()).expect("is a pid");
    wait_until("it has ended", || is_in_state(pid, 'Z'));
    let traced = attach_for("0.1", &[pid], &VDSO);
    assert_refused(&traced, &[&format!("({pid}): it has ended already; its parent")]);
    gone.wait().expect("wait for it");
    for pid in [pid, 4_194_304, i32::MAX] {
        // clockscope looks for the process before it measures anything.
        let traced = attach_for("0.1", &[pid], &[]);
        assert_refused(&traced, &[&format!("cannot attach to {pid}: there is no such process")]);
    }
}

#[test]
fn a_process_that_executes_programs_all_the_time() {
    let Some(program) = builds::c("executes", Link::Static) else { return };
    let mut target = Conversation::start_silent(&words![program]);
    // An attempt goes after eight programs in a row before it is refused, so refusals are few.
    let attached = (0..20).filter(|_| {
        let traced = attach_for("0.02", &[target.pid()], &VDSO);
        is_attached_or_refused(&traced, &["it executes one program after the other; try again"])
    });
    let attached = attached.count();
    assert!(attached >= 5, "attached {attached} times in 20");
    assert!(target.is_running());
}

#[test]
fn root_is_not_told_to_be_root() {
    let Some(()) = root_or_skip() else { return };
    match fs::File::open("/proc/1/mem") {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
        _ => return skip("process 1 may be traced here"),
    }
    let traced = attach_for("0.1", &[1], &[]);
    assert_refused(&traced, &["(1)", "even to root"]);
    assert!(!traced.stderr.contains("run clockscope as root"), "{}", traced.stderr);
}

#[test]
fn a_process_named_twice_is_attached_to_once() {
    let Some(mut target) = server(2) else { return };
    let pid = target.pid();
    let attachment = Attachment::to(&[pid, pid], &VDSO);
    let said = target.works(5);
    let report = attachment.detach().report();
    assert_counts(&said, &report);
    assert_eq!(report.field("attached").as_array().map(Vec::len), Some(1), "{report:#?}");
    target.ends_well();
}

#[test]
fn the_number_of_a_thread_that_is_not_the_first() {
    let Some(target) = server(3) else { return };
    let tasks = fs::read_dir(format!("/proc/{}/task", target.pid())).expect("list its threads");
    let names = tasks.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let other: i32 = names.into_iter().find(|tid| *tid != target.pid()).expect("a second thread");
    let traced = attach_for("0.1", &[other], &VDSO).succeeded();
    assert_eq!(traced.report().field("attached")[0]["pid"], target.pid(), "{traced:?}");
    target.goes_on_and_ends_well();
}

#[test]
fn clockscope_itself_and_its_parent() {
    let own = "exec \"$0\" trace --via none -p $$ --duration 0.1";
    let output = untraced(&words!["sh", "-c", own, clockscope()]);
    assert_refused(&Traced::of(&output, None), &["it is clockscope itself"]);
    let parent = "\"$0\" trace --via none -o /dev/null -p $$ --duration 0.1; echo \"ended $?\"";
    let output = untraced(&words!["sh", "-c", parent, clockscope()]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ended 0\n", "{output:?}");
}

/// If each clockscope traced the other, each would wait for ever to be resumed by the other.
#[test]
fn a_clockscope_that_traces_the_shell_in_which_another_is_started() {
    let shell = "echo ready; while read -r line; do eval \"$line\"; done; \
                 echo result ended well backwards 0 wrong 0; exit 7";
    let mut shell = Conversation::start(&words!["sh", "-c", shell]);
    let (pid, image) = (shell.pid(), Image::of(shell.pid()).expect("it has a vDSO"));
    let first = Attachment::to(&[pid], &VDSO);
    let clockscope = format!("'{}' trace --via none --duration 0.1", clockscope().display());
    for more in ["", "--top"] {
        let quiet = "-q -o /dev/null 2>&1 >/dev/null";
        let typed = format!("{clockscope} -p {} {more} {quiet}; echo status $?", first.pid());
        let said = shell.ask(&format!("{typed}; echo done"));
        let expected = format!(
            "clockscope: cannot attach to clockscope ({}): it traces this clockscope or the shell that has \
             started it, and two that trace each other hang; start clockscope from another \
             terminal\nstatus 125\n",
            first.pid()
        );
        assert_eq!(said, expected);
    }
    first.detach();
    image.assert_as_before(pid);
    shell.ends_well();
}

#[test]
fn a_process_that_is_gone_is_said_whatever_the_output() {
    for options in [["--format", "pprof"], ["-o", "absent/report"]] {
        let words =
            words![clockscope(), "trace", "-p", i32::MAX.to_string(), options[0], options[1]];
        let Some(mut terminal) = Terminal::start(&quoted(&words)) else { return };
        terminal.wait_for(&format!("cannot attach to {}: there is no such process", i32::MAX));
        assert_eq!(terminal.finish(), 125, "{options:?}");
    }
}

#[test]
fn one_of_several_cannot_be_attached_to() {
    let Some(mut target) = server(3) else { return };
    let before = Image::of(target.pid()).expect("it has a vDSO");
    for list in [[target.pid(), i32::MAX], [i32::MAX, target.pid()]] {
        let traced = attach_for("0.1", &list, &VDSO);
        assert_eq!(traced.code(), 1, "not all were attached to: {traced:?}");
        let said = format!("cannot attach to {}: there is no such process", i32::MAX);
        assert!(traced.stderr.contains(&said), "it says which: {traced:?}");
        let report = traced.report();
        assert_eq!(report.reasons("vdso"), [""; 0], "nothing ran that was not counted");
        assert_eq!(report.field("attached").as_array().map(Vec::len), Some(1), "{report:#?}");
        before.assert_as_before(target.pid());
        target.check_an_answer(1);
    }
    target.ends_well();
}
