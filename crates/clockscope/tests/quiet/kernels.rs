//! Equal results on every kernel: checks the results that `vm/test-kernels` brought out of virtual machines. `make
//! test-kernels` makes them and runs these tests; see vm/README.md.
//!
//! Without `CLOCKSCOPE_KERNELS_RESULTS` there are no results, and the tests are skipped.

mod programs;

use std::path::{Path, PathBuf};

use object::elf::{DT_GNU_HASH, DT_HASH, DynamicTag};
use vdso_reader::Image;

use crate::support::clocksource::DELAYED;
use crate::support::command::fixture;
use crate::support::compare::assert_counts;
use crate::support::printed::Printed;
use crate::support::running::{Report, rows};
use crate::support::skip;
use crate::support::true_callers::{Verdict, judge, ways};
use crate::vm::machine::Boot;

const PROGRAMS: [&str; 4] = ["gettimeofday", "gettimeofday-static", "gettimeofday-musl", "now"];
const CLOCKS: [&str; 5] = ["kernel", "syscall", "coarse", "slow", "tsc"];
/// Steps of `vm/inside-kernel` with a report, besides [`PROGRAMS`] with each of [`CLOCKS`].
const COUNTED: &str = "trace-reads trace-reads-static trace-reads-musl trace-own_parser ptrace-reads threads churn \
    signals tree-fork tree-exec tree-vfork tree-spawn tree-thread-exec tree-prefork trace-hash-table forbids-counter \
    attach-1 attach-2";
/// Servers that clockscope attaches to; each is attached to as often as [`ATTACHED`] has names.
const SERVERS: [&str; 4] =
    ["attach_server", "attach_server-static", "attach_server-musl", "attach_server-go"];
const ATTACHED: [&str; 3] = ["1", "2", "3"];
/// Programs with timers and signals that clockscope attaches to.
const TIMERS: [&str; 5] = [
    "timers-real-all",
    "timers-thread-all",
    "timers-wake-suspend",
    "timers-wake-ppoll",
    "timers-wake-pause",
];

/// Suffix of the machine on which QEMU translates each instruction by itself. That machine runs fewer steps.
const SINGLE: &str = "-single";

/// Suffix of the machine whose CPUs take turns, so much can happen between two instructions of one CPU.
const TURNS: &str = "-turns";

/// Suffix of the machine on which the command's own tests and the documentation's commands run.
const COMMANDS: &str = "-commands";

/// Crates whose tests run on arm64 kernels.
const ARM64_CRATES: usize = 7;

/// The machines of an architecture that were booted, and how many seconds each run took; none (a skip) without
/// `CLOCKSCOPE_KERNELS_RESULTS`.
fn booted(architecture: &str) -> Vec<(Boot, String)> {
    let Some(results) = std::env::var_os("CLOCKSCOPE_KERNELS_RESULTS").map(PathBuf::from) else {
        skip("no kernel was booted: make test-kernels");
        return Vec::new();
    };
    let list = std::fs::read_to_string(results.join("booted")).expect("vm/test-kernels writes it");
    let machine = |line: &str| {
        let (name, seconds) = line.split_once(' ').expect("a name and seconds");
        (Boot::in_results(&results, name), seconds.to_owned())
    };
    assert!(!list.is_empty(), "no kernel was booted");
    let is_wanted =
        |line: &&str| match [SINGLE, TURNS, COMMANDS].into_iter().find(|it| line.contains(it)) {
            Some(special) => architecture == special,
            None => line.starts_with(architecture),
        };
    list.lines().filter(is_wanted).map(machine).collect()
}

/// Numbers of calls that programs made, all of them counted.
#[derive(Default)]
struct Sums {
    steps: usize,
    vdso: u64,
    system_calls: u64,
}

/// Whether the step's program needs a hash table that this kernel's vDSO does not have. The program then ends with 1.
fn lacks_table(boot: &Boot, step: &str) -> bool {
    match step {
        "trace-own_parser" => !has_table(boot, DT_HASH),
        "trace-hash-table" => !has_table(boot, DT_GNU_HASH),
        _ => false,
    }
}

/// Whether the kernel's vDSO has a hash table of this kind.
fn has_table(boot: &Boot, tag: DynamicTag) -> bool {
    let bytes = std::fs::read(boot.out.join("vdso.so")).expect("the step `dump` writes it");
    let kernel = Image::parse(&bytes).expect("the kernel's image");
    kernel.dynamic.iter().any(|entry| entry.0 == tag.0)
}

impl Sums {
    #[track_caller]
    fn add(&mut self, boot: &Boot, step: &str) {
        if lacks_table(boot, step) {
            return;
        }
        boot.assert_succeeded(step);
        let report = boot.report(step);
        let mut printed = boot.printed(step);
        if cannot_read_the_vdso(boot, step) {
            make_system_calls(&mut printed);
        }
        let left: &[&str] = if leaves_getres_out(boot, &report) {
            printed.vdso.retain(|(name, _), _| name != "clock_getres");
            &["calls of clock_getres are not counted: it has no place for a jump that is safe for \
               suspended contexts"]
        } else {
            &[]
        };
        assert_counts(&printed, &report);
        assert_eq!(report.reasons("vdso"), left, "{boot} {step}");
        self.steps += 1;
        self.vdso += printed.vdso.values().sum::<u64>();
        if report.counts_syscalls() {
            self.system_calls += printed.syscalls.values().sum::<u64>();
        }
    }
}

/// Whether clockscope attached to the program and leaves `clock_getres` uncounted: on x86-64 5.10 the function begins
/// with short instructions that cannot be put back for suspended contexts, too far from any padding.
fn leaves_getres_out(boot: &Boot, report: &Report) -> bool {
    let is_attached = report.field("attached").as_array().is_some_and(|all| !all.is_empty());
    is_attached && boot.name == "x86_64-5.10"
}

/// Whether the C library of a step's program finds no function in the vDSO: musl up to 1.2.5 needs `DT_HASH`, which
/// arm64 kernels from 6.12 on do not have. A program that was given another clock reads that one.
fn cannot_read_the_vdso(boot: &Boot, step: &str) -> bool {
    let has_another_clock = step.starts_with("run-") && !step.starts_with("run-kernel-");
    step.contains("musl") && !has_another_clock && !has_table(boot, DT_HASH)
}

/// Turns vDSO calls into system calls, for a C library that makes a system call for each.
fn make_system_calls(printed: &mut Printed) {
    for (key, calls) in &mut printed.vdso {
        *printed.syscalls.entry(key.0.clone()).or_default() += std::mem::take(calls);
    }
    printed.at_least.clear();
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn counts_are_exact_on_every_kernel() {
    for (boot, seconds) in booted("") {
        let mut sums = Sums::default();
        for program in PROGRAMS {
            sums.add(&boot, &format!("trace-{program}"));
            for clock in CLOCKS {
                sums.add(&boot, &format!("run-{clock}-{program}"));
            }
        }
        for step in COUNTED.split(' ') {
            sums.add(&boot, step);
        }
        for server in SERVERS {
            ATTACHED.iter().for_each(|time| sums.add(&boot, &format!("{server}-{time}")));
        }
        let Sums { steps, vdso, system_calls } = sums;
        println!(
            "{}: {steps} steps, {vdso} vDSO calls, {system_calls} system calls",
            ran(&boot, &seconds)
        );
    }
}

/// A machine by its kernel's name and release, with the seconds of its boot and of all its steps.
fn ran(boot: &Boot, seconds: &str) -> String {
    let ready: f64 = boot.text("booted").trim().parse().expect("centiseconds");
    let release = boot.text("release");
    format!("{boot} ({}), {:.1} of {seconds} s", release.trim(), ready / 100.0)
}

/// On this machine an addition by load, add and store without a reservation would lose counts.
#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn counts_are_exact_where_any_two_instructions_may_be_interrupted() {
    for (boot, seconds) in booted(SINGLE) {
        let mut sums = Sums::default();
        for step in ["trace-reads", "trace-now", "threads", "churn", "signals"] {
            sums.add(&boot, step);
        }
        assert_eq!(boot.status("tests-fastclock"), 0, "{}", boot.text("tests-fastclock.out"));
        println!("{}: {} vDSO calls", ran(&boot, &seconds), sums.vdso);
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn counts_are_exact_where_threads_are_preempted_in_probes() {
    for (boot, seconds) in booted(TURNS) {
        let mut sums = Sums::default();
        ["crowd-1", "crowd-2", "crowd-3"].iter().for_each(|step| sums.add(&boot, step));
        assert!(sums.system_calls > 0, "{boot}");
        println!("{}: {} system calls", ran(&boot, &seconds), sums.system_calls);
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn crates_pass_their_tests_on_every_arm64_kernel() {
    for (boot, seconds) in booted("aarch64-") {
        let steps = boot.text("steps");
        let passed = |line: &str| {
            let step = line.split(' ').next()?;
            let said = boot.text(&format!("{step}.out"));
            let result = said.lines().find_map(|line| line.strip_prefix("test result: ok. "));
            result?.split(' ').next()?.parse::<u32>().ok().filter(|passed| *passed > 0)
        };
        let passed: Vec<u32> = steps
            .lines()
            .filter(|line| line.starts_with("tests-"))
            .map(|line| passed(line).unwrap_or_else(|| panic!("{boot}: {line}")))
            .collect();
        assert_eq!(passed.len(), ARM64_CRATES, "{boot}: {steps}");
        println!("{}: {} tests", ran(&boot, &seconds), passed.iter().sum::<u32>());
    }
}

/// `vm/inside-kernel` lists the tests that do not run there because a browser, cargo or Prometheus is missing.
#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn the_commands_and_their_documentation_hold_on_arm64() {
    for (boot, seconds) in booted(COMMANDS) {
        let said = boot.text("quiet.out");
        assert_eq!(boot.status("quiet"), 0, "{said}\n{}", boot.text("quiet.err"));
        let is_passed = |test: &str| said.lines().any(|line| line == format!("test {test} ... ok"));
        let documented = "docs::commands_in_the_documentation_work";
        assert!(is_passed(documented), "{documented}: {said}");
        let passed = said.lines().filter(|line| line.ends_with(" ... ok")).count();
        println!("{}: {passed} tests of the command", ran(&boot, &seconds));
        assert_no_fault_of_the_kernel(&boot);
    }
}

/// After each attachment the code of the functions is as before. Jumps stay in the padding between functions.
#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn functions_are_restored_on_every_kernel() {
    for (boot, _) in booted("") {
        for server in SERVERS.iter().filter(|server| !lacks_table(&boot, server)) {
            let read = |which: &str| {
                let path = boot.out.join(format!("{server}-vdso-{which}"));
                std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
            };
            let before = read("before");
            let image = Image::parse(&before).expect("a vDSO");
            for after in ["1", "2", "3"].map(read) {
                for symbol in image.functions() {
                    let from = usize::try_from(symbol.offset).expect("fits");
                    let size = usize::try_from(symbol.size).expect("fits");
                    // The symbol's size includes padding (`int3`) behind the last `ret`.
                    let code = &before[from..from + size];
                    let last = code.iter().rposition(|byte| *byte != 0xcc).expect("has code");
                    let now = &after[from..=from + last];
                    let name = &symbol.name;
                    assert_eq!(&code[..=last], now, "{boot} {server} {name}");
                }
                let changed = before.iter().zip(&after).filter(|(one, two)| one != two).count();
                assert!(changed <= 40 && before.len() == after.len(), "{boot} {changed}");
            }
        }
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn nothing_else_fails_on_any_kernel() {
    for (boot, _) in booted("") {
        for line in boot.text("steps").lines() {
            let (step, status) = line.split_once(' ').expect(line);
            let status = status.split(' ').next();
            let wanted: &[&str] = match step {
                "attached" => &["7"],
                _ if lacks_table(&boot, step) => &["1"],
                _ if SERVERS.contains(&step) || TIMERS.contains(&step) || step == "asleep" => {
                    &["7"]
                }
                // The verdicts of doctor are checked by another test.
                "doctor" | "doctor-json" => &["0", "1", "2"],
                // PR_SET_MDWE exists since Linux 6.3.
                "writes-or-executes" | "own-limit" => &["0", "77"],
                // Kernels with pages of 16 KiB run no 32-bit programs.
                "bits-32" => &["7", "126"],
                "serve-status-ended" | "wrongness" | "compare" => &["0", "1"],
                _ => &["0"],
            };
            let is_wanted = status.is_some_and(|status| wanted.contains(&status));
            assert!(is_wanted, "{boot}: {line}\n{}", boot.text(&format!("{step}.err")));
        }
        assert_eq!(boot.text("status").trim(), "0", "{boot}");
        assert_no_fault_of_the_kernel(&boot);
    }
}

#[track_caller]
fn assert_no_fault_of_the_kernel(boot: &Boot) {
    let log = boot.text("kernel-log");
    for word in ["Oops", "BUG:", "WARNING:", "segfault", "general protection"] {
        assert!(!log.contains(word), "{boot}: {word} in {log}");
    }
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn answers_are_right_on_every_kernel() {
    for (boot, _) in booted("") {
        for clock in ["kernel", "syscall", "coarse", "slow"] {
            let printed = boot.printed(&format!("sandwich-{clock}"));
            let is_wrong =
                |result: &&String| result.contains(" wrong ") && !result.ends_with(" wrong 0");
            let wrong: Vec<_> = printed.results.iter().filter(is_wrong).collect();
            assert!(wrong.is_empty() && printed.results.len() >= 4, "{boot} {clock}: {printed:?}");
        }
        let delayed = boot.printed("slow-reads");
        // `slow_reads` measures the processor time of all other reads, which is unpredictable in a virtual machine on a
        // busy host.
        for name in DELAYED {
            assert!(delayed.has_result(&format!("{name} long enough 1")), "{boot}: {name}");
        }
        for (program, clock) in
            PROGRAMS.iter().flat_map(|program| CLOCKS.map(|clock| (program, clock)))
        {
            let printed = boot.printed(&format!("run-{clock}-{program}"));
            assert!(printed.has_result("backwards 0"), "{boot} {clock}: {printed:?}");
        }
        let attached = boot.report("attach-busy");
        let calls = attached.vdso_calls(&("gettimeofday".to_owned(), "-".to_owned()));
        assert!(calls > 0, "{boot}: {attached:?}");
        if boot.name.starts_with("aarch64") {
            continue;
        }
        let verdict = boot.json("doctor-json.out");
        assert_eq!(verdict["state"], "fast", "{boot}: {verdict:#}");
        assert_eq!(verdict["source"], "tsc", "{boot}: {verdict:#}");
        assert_eq!(verdict["cost"]["is_measured"], true, "{boot}");
        let platforms = rows(&verdict["platforms"]).filter_map(|platform| platform.as_str());
        assert_eq!(platforms.collect::<Vec<_>>(), ["qemu"], "{boot}");
    }
}

/// The machine itself (`vm/inside-kernel`) compares the bytes of each server's vDSO.
#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn programs_that_are_attached_to_are_not_harmed_on_any_kernel() {
    for (boot, _) in booted("") {
        for server in SERVERS {
            let said = boot.text(&format!("{server}.out"));
            let is_well = said.contains("result ended well backwards 0 wrong 0");
            assert!(is_well, "{boot} {server}: {said}");
        }
        for timers in TIMERS {
            let said = boot.text(&format!("{timers}.out"));
            let signals = said.lines().find_map(|line| line.strip_prefix("signals "));
            let numbers: Vec<u64> = signals
                .unwrap_or_else(|| panic!("{boot} {timers}: {said}"))
                .split(' ')
                .map(|number| number.parse().expect("a number"))
                .collect();
            let [sent, received, eintr, disorder] = numbers[..] else { panic!("{said}") };
            assert!(sent > 0, "{boot} {timers}: {said}");
            assert_eq!((sent, 0, 0), (received, eintr, disorder), "{boot} {timers}: {said}");
        }
    }
}

/// Ten attachments stop each thread twenty times at least.
#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn calls_that_wait_are_not_seen_to_be_interrupted_on_any_kernel() {
    for (boot, _) in booted("") {
        let said = boot.text("asleep.out");
        let ended = said.lines().filter(|line| line.starts_with("result "));
        // A sigtimedwait with a limit returns EINTR after any stop, by any tracer (signal(7)).
        let ended: Vec<_> = ended.filter(|line| !line.contains("sigtimedwait")).collect();
        assert_eq!(ended, ["result ended well backwards 0 wrong 0"], "{boot}");
    }
}

/// Programs whose callers are sampled, and the source of each.
const SAMPLED: [(&str, &str); 5] = [
    ("callers", "callers.c"),
    ("callers-static", "callers.c"),
    ("callers-musl", "callers.c"),
    ("callers-go", "callers.go"),
    ("diameter", "diameter.c"),
];

/// The smallest effective sample size of a call: the number of equally weighted samples with the same error.
fn effective_samples(report: &Report) -> f64 {
    let callers = report.field("callers");
    let of_call = rows(&callers["called"]).filter(|row| row["samples"].as_u64() > Some(10));
    of_call.filter_map(|row| row["samples_effective"].as_f64()).fold(f64::INFINITY, f64::min)
}

/// Points by which shares may be off. For programs with several callers of a clock that run for long: 2, which needs
/// some thousands of samples. Otherwise five standard errors: a share drawn from n samples has one of at most
/// sqrt(0.25 / n).
fn share_may_be_off(boot: &Boot, program: &str, report: &Report) -> f64 {
    let effective = effective_samples(report);
    if boot.name.ends_with("-6.12") && ["callers-go", "diameter"].contains(&program) {
        return 2.0;
    }
    500.0 * (0.25 / effective).sqrt()
}

#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn callers_are_true_on_every_kernel() {
    for (boot, _) in booted("") {
        for (program, source) in SAMPLED {
            let steps = [format!("sampled-{program}"), format!("sampled-attached-{program}")];
            for step in steps.into_iter().filter(|step| !cannot_read_the_vdso(&boot, step)) {
                let report = boot.report(&step);
                let ways = ways(&boot.text(&format!("{step}.out")));
                let verdict = judge(&report, &ways, source, Path::new(program), true);
                assert!(verdict.samples >= 20, "{boot} {step}: {}", verdict.worst());
                if boot.name == "aarch64-5.10" && program == "callers-go" {
                    assert_nobody_is_named(&verdict, &report);
                    continue;
                }
                verdict.assert_true_callers();
                let off = verdict.off_by(&ways);
                let most = share_may_be_off(&boot, program, &report);
                assert!(off <= most, "{boot} {step}: {off} points");
                verdict.print(&format!("{boot} {step}, off by {off:.2} points"));
            }
        }
    }
}

/// Linux 5.10 on arm64 follows frame pointers only if they are multiples of 16. Go's are not, so its stacks are cut
/// where they continue on another stack, and the report gives that reason.
#[track_caller]
fn assert_nobody_is_named(verdict: &Verdict, report: &Report) {
    let nameless = |(stack, _): (&String, &u64)| stack.ends_with(": ");
    assert!(verdict.right == 0 && verdict.wrong.iter().all(nameless), "{}", verdict.worst());
    let cut = &report.field("callers")["cut"];
    let cut = rows(cut)
        .filter(|row| row["reason"].as_str().is_some_and(|it| it.contains("another stack")));
    let samples: u64 = cut.filter_map(|row| row["samples"].as_u64()).sum();
    assert!(samples >= verdict.samples, "{samples}: {}", verdict.worst());
}

/// On arm64, a thread that gets a signal while it is sampled passes no breakpoint any more if ptrace counts its system
/// calls. The report then says that shares are wrong. x86-64 is not affected.
#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn wrong_shares_are_told_of_on_every_kernel() {
    for (boot, _) in booted("") {
        let report = boot.report("sampled-ptrace");
        let callers = report.field("callers");
        let reasons = rows(&callers["declines"]).filter_map(|row| row["reason"].as_str());
        let told: Vec<_> = reasons.filter(|reason| reason.contains("shares are wrong")).collect();
        let wanted = usize::from(boot.name.starts_with("aarch64"));
        assert_eq!(told.len(), wanted, "{boot}: {callers:#}");
    }
}

/// Compares with the images in `fixtures/vdso`, which are of these kernels or of earlier releases of the same series.
#[test]
#[ignore = "looks at virtual machines: make test-kernels"]
fn every_kernels_image_has_the_functions_of_its_fixture() {
    let functions = |path: &Path| {
        let bytes = std::fs::read(path).expect("an image of a vDSO");
        let image = Image::parse(&bytes).expect("an image of a vDSO");
        let mut names: Vec<_> = image.functions().map(|symbol| symbol.name.clone()).collect();
        names.sort();
        names
    };
    for (boot, _) in booted("") {
        // The suffix names the same kernel on another CPU.
        let kernel = boot.name.trim_end_matches("-a72");
        let fixture = fixture(&format!("vdso/{kernel}.so"));
        let found = functions(&boot.out.join("vdso.so"));
        assert_eq!(found, functions(Path::new(&fixture)), "{boot}");
    }
}
