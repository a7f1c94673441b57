//! Results of `vm/inside-programs` on arm64 kernels: real programs, and features that x86-64 tests on the host.

use super::{Sums, booted};
use crate::support::compare::assert_counts;
use crate::support::running::rows;
use crate::vm::machine::Boot;

/// Programs that print how often they read clocks, and the steps of each.
const ASKED: [&str; 4] = ["python3.13", "perl", "sqlite3", "go-cgo"];
const STEPS: [&str; 4] = ["launched-NAME", "attached-NAME-1", "attached-NAME-2", "attached-NAME-3"];

fn arm64() -> Vec<Boot> {
    booted("aarch64-").into_iter().map(|(boot, _)| boot).collect()
}

/// Whether the booted kernel's release is older than `wanted` (major, minor).
fn is_older_than(boot: &Boot, wanted: (u32, u32)) -> bool {
    let release = boot.text("release");
    let mut numbers = release.split('.').map(|word| word.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < wanted
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn real_programs_are_counted_exactly() {
    for boot in arm64() {
        for program in ASKED {
            let mut sums = Sums::default();
            for step in STEPS {
                sums.add(&boot, &step.replace("NAME", program));
            }
            println!("{boot}: {program}: {} steps, {} vDSO calls", sums.steps, sums.vdso);
        }
        if let Some(reads) = redis_reads(&boot) {
            println!("{boot}: redis: {reads} clock reads");
        }
    }
}

/// Clock reads of redis, counted by the kernel and by clockscope: each read was a system call. `None` if Debian's
/// kernel makes no histograms.
fn redis_reads(boot: &Boot) -> Option<u64> {
    const CALLS: [&str; 3] = ["clock_gettime", "clock_getres", "gettimeofday"];
    // The numbers of arm64, on whatever machine this runs: include/uapi/asm-generic/unistd.h (Linux 6.18).
    const NUMBERS: [&str; 3] = ["113", "114", "169"];
    let report = boot.report("redis-syscall");
    // The children of redis have one thread each, so their thread ids are their process ids.
    let processes = rows(report.field("processes_detail")).map(|row| row["pid"].to_string());
    let threads = boot.text("redis-syscall.threads");
    let threads: Vec<String> = threads.lines().map(str::to_owned).chain(processes).collect();
    let histogram = boot.text("redis-syscall.out");
    if histogram.is_empty() && is_older_than(boot, (6, 1)) {
        return None;
    }
    let counted_by_kernel = histogram.lines().filter_map(|line| {
        // A line: { id:        113, common_pid:       1234 } hitcount:          5
        let words: Vec<&str> = line.split([' ', ',', '{', '}']).filter(|w| !w.is_empty()).collect();
        let ["id:", number, "common_pid:", thread, "hitcount:", hits] = words[..] else {
            return None;
        };
        let is_wanted = threads.iter().any(|own| own == thread) && NUMBERS.contains(&number);
        is_wanted.then(|| hits.parse::<u64>().expect("a number"))
    });
    let made = counted_by_kernel.sum();
    let reads = report.vdso_rows();
    let counted = reads.iter().filter(|((function, _), _)| CALLS.contains(&function.as_str()));
    let counted: u64 = counted.map(|(_, calls)| calls).sum();
    assert!(made > 0, "{boot}: {histogram}");
    assert_eq!(made, counted, "{boot}: {reads:?}");
    Some(made)
}

/// redis reads a clock before and after each command, and prints how many commands it executed.
#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn redis_lives_well_and_reads_clocks_for_each_command() {
    for boot in arm64() {
        for step in ["redis-launched", "redis-attached-1", "redis-attached-2"] {
            let report = boot.report(step);
            assert_eq!(report.reasons("vdso"), [""; 0], "{boot} {step}");
            let commands = boot.text(&format!("{step}.commands"));
            let calls = commands
                .split(',')
                .filter_map(|word| word.split_once(":calls=")?.1.parse::<u64>().ok());
            let calls: u64 = calls.sum();
            let reads: u64 = report.vdso_rows().values().sum();
            assert!(calls >= 2 * 211 && reads >= calls, "{boot} {step}: {calls}, {reads}");
        }
        assert_eq!(boot.text("redis-kills.out").trim(), "12", "{boot}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn programs_under_limits_are_counted_or_declined_with_a_reason() {
    for boot in arm64() {
        if is_older_than(&boot, (6, 3)) {
            assert_eq!(boot.status("writes-or-executes"), 77, "{boot}: PR_SET_MDWE");
        } else {
            // Here clockscope is under the limit, too, as under systemd.
            Sums::default().add(&boot, "writes-or-executes");
            // Here the program has put itself under the limit.
            let own = boot.report("own-limit");
            let reason = "it could not map the image or attach the shared pages (a limit on its memory, or PR_SET_MDWE)";
            assert_eq!(own.reasons("vdso"), [reason], "{boot}");
        }
        let setuid = boot.report("setuid");
        let reason = "it is setuid, setgid or has file capabilities, which it would lose when traced; \
                      run clockscope as root";
        assert_eq!(setuid.reasons("vdso"), [reason], "{boot}");
        let said = boot.printed("setuid");
        assert!(said.has_result("effective user 0"), "{boot}: {said:?}");
        // Kernels with pages of 16 KiB run no 32-bit programs.
        if boot.name.ends_with("-16k") {
            continue;
        }
        assert_eq!(boot.text("bits-32.out"), "result unharmed\n", "{boot}");
        let bits = boot.report("bits-32");
        assert!(bits.reasons("vdso")[0].contains("32-bit"), "{boot}: {bits:?}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn unwinders_exceptions_and_gdb_get_through_the_shim() {
    for boot in arm64() {
        let walks = boot.printed("unwind");
        // Walks from behind the image are not checked: they begin in the kernel's functions, which have no unwind
        // tables.
        let wanted = [
            "hits inside the image: some",
            "incomplete inside the image 0",
            "incomplete elsewhere 0",
        ];
        for wanted in wanted {
            assert!(walks.has_result(wanted), "{boot} {wanted}: {walks:?}");
        }
        let thrown = boot.printed("thrown");
        assert!(thrown.has_result("caught 11"), "{boot}: {thrown:?}");
        let report = boot.report("thrown");
        assert_counts(&thrown, &report);
        let said = boot.text("gdb.out");
        let frames: Vec<&str> = said.lines().filter(|line| line.starts_with('#')).collect();
        let is_named = frames.first().is_some_and(|line| line.contains("clock_gettime"));
        let has_main = frames.iter().any(|line| line.contains("main"));
        assert!(is_named && has_main, "{boot}: {said}\n{}", boot.text("gdb.err"));
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn the_other_commands_do_their_work() {
    for boot in arm64() {
        for (step, states) in [("serve-status", 0), ("serve-status-ended", 1)] {
            assert_eq!(boot.status(step), states, "{boot} {step}");
        }
        let printed = boot.printed("served");
        assert!(printed.has_result("backwards 0"), "{boot}: {printed:?}");
        let compared = boot.json("compare.out");
        assert!(compared.is_object(), "{boot}: {compared}");
        let wrongness = boot.json("wrongness.out");
        assert!(wrongness.is_object(), "{boot}: {wrongness}");
    }
}
