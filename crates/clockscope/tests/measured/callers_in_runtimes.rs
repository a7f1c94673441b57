//! The user's functions in programs that a runtime executes: services whose three functions read the clock in shares
//! that the services print.
//!
//! Shares are compared as in [`crate::trace_callers_truth`]. The figures found are printed.
#![allow(clippy::print_stdout, reason = "the figures, for who runs it with --nocapture")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::support::builds;
use crate::support::printed::Key;
use crate::support::running::{Report, Tracing, rows};
use crate::support::true_callers::{called_by, frames_of, key_of};
use crate::support::{installed_or_skip, sources};
use crate::trace_callers_truth::{demand, more};
use serde_json::{Value, json};

/// Share of stacks that must reach the first function of their thread.
const WHOLE: f64 = 0.95;

/// A function of a service and the number of its calls, as the service prints them.
struct Truth {
    function: String,
    calls: u64,
}

/// The samples and calls of the service's functions in a report.
#[derive(Debug, Default)]
struct Seen {
    samples: u64,
    whole: u64,
    /// Samples with one of the functions in their stacks.
    named: u64,
    calls: BTreeMap<String, f64>,
}

fn truths(output: &str) -> (Key, Vec<Truth>) {
    let mut of = None;
    let truths = output.lines().filter_map(|line| {
        let words: Vec<&str> = line.strip_prefix("path ")?.split(' ').collect();
        let [path, function, clock, calls] = words[..] else { return None };
        of = Some((function.to_owned(), clock.to_owned()));
        let function = path.split(';').find(|name| *name != "stamp")?.to_owned();
        Some(Truth { function, calls: calls.parse().expect("a number") })
    });
    let truths: Vec<Truth> = truths.collect();
    assert_eq!(truths.len(), 3, "{output}");
    (of.expect("a call"), truths)
}

/// Sums up the stacks of the call `key`, if they contain code of the runtime's language.
fn seen(
    report: &Report,
    key: &Key,
    truths: &[Truth],
    is_function: fn(&Value, &str) -> bool,
) -> Seen {
    let callers = report.field("callers");
    let mut seen = Seen::default();
    let of_key = |stack: &&Value| key_of(called_by(callers, stack)) == *key;
    for stack in rows(&callers["stacks"]).filter(of_key) {
        let stacked: Vec<&Value> = frames_of(callers, stack).collect();
        // The runtime's own threads read the clock as well. Their samples are left out.
        let of_user = |frame: &&Value| {
            let modules = ["[java]", "[javascript]", "[python]"];
            frame["kind"] == "jit" && modules.iter().any(|module| frame["module"] == *module)
        };
        if !stacked.iter().any(of_user) {
            continue;
        }
        let samples = stack["samples"].as_u64().expect("a number");
        seen.samples += samples;
        seen.whole += if stack["complete"] == true { samples } else { 0 };
        let of = truths
            .iter()
            .find(|truth| stacked.iter().any(|frame| is_function(frame, &truth.function)));
        if let Some(truth) = of {
            seen.named += samples;
            *seen.calls.entry(truth.function.clone()).or_default() +=
                stack["calls"].as_f64().expect("calls");
        }
    }
    seen
}

/// The share of samples of which the report says that the method or its line is not known.
#[track_caller]
fn inexact(report: &Report) -> f64 {
    let callers = report.field("callers");
    let inexact = rows(&callers["declines"]).map(|row| {
        let reason = row["reason"].as_str().unwrap_or_default();
        let number = reason.strip_prefix("of ").and_then(|rest| rest.split(' ').next());
        number.map_or(0, |number| number.parse().expect("a number"))
    });
    share(inexact.max().unwrap_or(0), callers["samples"].as_u64().expect("a number"))
}

fn share(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss)]
    let share = part as f64 / whole.max(1) as f64;
    share
}

/// Traces a service until there are enough samples; gives the report, the sums of its stacks and the true counts.
#[track_caller]
fn service(
    name: &str,
    command: &[OsString],
    after: &[&str],
    first_rounds: u64,
    wanted: u64,
    is_function: fn(&Value, &str) -> bool,
) -> Option<(Report, Seen, Vec<Truth>)> {
    let folder = tempfile::tempdir().expect("make a folder");
    let mut rounds = first_rounds;
    for _ in 0..6 {
        let command = words![command, rounds.to_string(), after];
        let options = ["--via", "none", "--callers", "--freq", "5000"];
        let mut tracing = Tracing::new(&options, &command);
        tracing.command.current_dir(folder.path());
        let traced = tracing.finish().succeeded();
        let report = traced.report();
        report.callers_or_skip()?;
        let (key, truths) = truths(&traced.stdout);
        let calls: u64 = truths.iter().map(|truth| truth.calls).sum();
        let counted = report.vdso_calls(&key);
        // The runtime's own threads read clocks too.
        assert!((calls..calls + 50_000).contains(&counted), "{counted} of {calls}");
        assert!(inexact(&report) <= 1.0, "{report:?}");
        let seen = seen(&report, &key, &truths, is_function);
        if seen.samples >= wanted {
            let whole = share(seen.whole, seen.samples);
            let named = share(seen.named, seen.samples);
            println!(
                "{name}: {} samples, {:.2} % whole, {:.2} % with a function",
                seen.samples,
                whole * 100.0,
                named * 100.0
            );
            assert!(whole >= WHOLE, "{name}: {seen:?}");
            return Some((report, seen, truths));
        }
        rounds = more(rounds, share(wanted, seen.samples));
    }
    panic!("too few samples with {rounds} rounds");
}

#[track_caller]
fn assert_shares(name: &str, seen: &Seen, truths: &[Truth], allowance: f64) {
    assert!(share(seen.named, seen.samples) >= WHOLE, "{name}: {seen:?}");
    let all: f64 = seen.calls.values().sum();
    let true_all: u64 = truths.iter().map(|truth| truth.calls).sum();
    for truth in truths {
        let found = seen.calls.get(&truth.function).unwrap_or(&0.0) * 100.0 / all;
        let right = share(truth.calls, true_all) * 100.0;
        println!("{name}: {} {found:.2} %, truly {right:.2} %", truth.function);
        assert!((found - right).abs() <= allowance, "{name}: {}: {found}", truth.function);
    }
}

fn is_of_java(frame: &Value, name: &str) -> bool {
    frame["module"] == "[java]" && frame["function"] == name
}

/// The program at the first of these places; for `make test-callers` also the ones that a variable names.
fn programs(places: &[&str], variable: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = installed_or_skip(places).into_iter().collect();
    if std::env::var_os("THOROUGH").is_some() {
        let named = std::env::var(variable).unwrap_or_default();
        all.extend(named.split_whitespace().map(PathBuf::from));
    }
    all
}

/// The installed JVM; for `make test-callers` also the JVMs in `JVMS` and below /usr/lib/jvm.
fn jvms() -> Vec<PathBuf> {
    let mut all = programs(&["/usr/bin/java"], "JVMS");
    if all.is_empty() || std::env::var_os("THOROUGH").is_none() {
        return all;
    }
    for folder in std::fs::read_dir("/usr/lib/jvm").expect("list the JVMs") {
        let java = folder.expect("list the JVMs").path().join("bin/java");
        all.extend(java.canonicalize().ok());
    }
    all.sort();
    all.dedup();
    all
}

/// Whether a JVM has virtual threads (version 21 or later, by its `release` file).
fn has_virtual_threads(java: &Path) -> bool {
    let release = java.parent().and_then(Path::parent).map(|home| home.join("release"));
    let release = release.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""));
    let major = version.and_then(|version| version.split(['.', '"']).next()?.parse().ok());
    major.is_some_and(|major: u32| major >= 21)
}

/// Traces the service by each installed JVM, and gives the reports.
fn java(options: &[&str], has_shares: bool) -> Vec<Report> {
    jvms().iter().filter_map(|jvm| java_by(jvm, options, &[], has_shares)).collect()
}

fn java_by(java: &Path, options: &[&str], after: &[&str], has_shares: bool) -> Option<Report> {
    let classes = builds::java_class("Callers")?;
    let name = format!("{} {options:?} {after:?}", java.display());
    let command = words![java, options, "-cp", classes, "Callers"];
    let (report, seen, truths) =
        service(&name, &command, after, 500_000, demand().for_shares, is_of_java)?;
    if has_shares {
        assert_shares(&name, &seen, &truths, demand().allowance);
    }
    Some(report)
}

#[test]
fn java_in_the_interpreter() {
    java(&["-Xint"], true);
}

#[test]
fn java_compiled_with_all_places_described() {
    for report in java(&["-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"], true) {
        let callers = report.field("callers");
        assert_eq!(inexact(&report), 0.0, "{}", callers["declines"]);
        let (mut of_java, mut with_line) = (0, 0);
        for stack in rows(&callers["stacks"]) {
            let is_own = |frame: &&Value| frame["module"] == "[java]";
            let Some(frame) = frames_of(callers, stack).find(is_own) else { continue };
            let samples = stack["samples"].as_u64().expect("a number");
            of_java += samples;
            with_line += if frame["line"].is_u64() { samples } else { 0 };
        }
        assert!(share(with_line, of_java) > WHOLE, "{with_line} of {of_java}");
    }
}

/// The compiler describes only some places of compiled code. Elsewhere the methods inlined into a compiled method are
/// not known, so shares are not compared: stacks are whole, and the compiled method is named.
#[test]
fn java_compiled() {
    java(&[], false);
    java(&["-XX:TieredStopAtLevel=1"], false);
}

#[test]
#[ignore = "needs a JVM of version 21 or later, which Debian 12 does not have"]
fn java_in_virtual_threads() {
    let jvms: Vec<PathBuf> = jvms().into_iter().filter(|java| has_virtual_threads(java)).collect();
    assert!(!jvms.is_empty(), "no JVM with virtual threads");
    for jvm in jvms {
        java_by(&jvm, &["-Xint"], &["virtual"], true);
    }
}

/// Other collectors lay the heap out differently. clockscope reads nothing of it that depends on the layout.
#[test]
#[ignore = "the same as other tests with other collectors: part of make test-callers"]
fn java_with_other_collectors() {
    for collector in ["-XX:+UseParallelGC", "-XX:+UseZGC"] {
        java(&["-Xint", collector], true);
    }
}

fn is_of_javascript(frame: &Value, name: &str) -> bool {
    let file = frame["file"].as_str().unwrap_or_default();
    frame["module"] == "[javascript]" && frame["function"] == name && file.ends_with("/callers.js")
}

/// The installed Node; for `make test-callers` also the ones in `NODES`.
fn nodes() -> Vec<PathBuf> {
    programs(&["/usr/bin/node", "/usr/local/bin/node"], "NODES")
}

fn node(node: &Path, options: &[&str]) -> Option<(Report, Seen, Vec<Truth>)> {
    let name = format!("{} {options:?}", node.display());
    let command = words![node, options, sources().join("callers.js")];
    service(&name, &command, &[], 1_000_000, demand().for_shares, is_of_javascript)
}

#[test]
fn node_without_inlining() {
    let options = [
        "--max-inlined-bytecode-size=0",
        "--max-inlined-bytecode-size-cumulative=0",
        "--max-inlined-bytecode-size-small=0",
    ];
    for program in nodes() {
        let Some((report, seen, truths)) = node(&program, &options) else { return };
        assert_shares(&program.display().to_string(), &seen, &truths, demand().allowance);
        assert_lines(&report);
    }
}

/// The line of a JavaScript function is the one on which the function begins.
#[track_caller]
fn assert_lines(report: &Report) {
    let callers = report.field("callers");
    let line = |name: &str| {
        let mut frames = rows(&callers["frames"]).filter(|frame| is_of_javascript(frame, name));
        frames.next().and_then(|frame| frame["line"].as_u64())
    };
    let source = std::fs::read_to_string(sources().join("callers.js")).expect("read the source");
    for name in ["stamp", "orders", "prices", "serve", "next"] {
        let begins = format!("function {name}(");
        let truly = source.lines().zip(1..).find(|(text, _)| text.starts_with(&begins));
        assert_eq!(line(name), truly.map(|(_, number)| number), "{name}");
    }
}

/// A function of a script that was compiled has the file and line that the source map beside the script tells.
#[test]
fn node_with_a_source_map() {
    /// How much lower lines are in the script than in what it was compiled from.
    const ABOVE: u64 = 16;
    let folder = tempfile::tempdir().expect("make a folder");
    let script = folder.path().join("callers.js");
    let text = std::fs::read_to_string(sources().join("callers.js")).expect("read the source");
    std::fs::write(&script, &text).expect("write the script");
    // The first line begins 16 lines lower, each other one a line below the one before it.
    let mappings = "AAgBA".to_owned() + &";AACA".repeat(text.lines().count() - 1);
    let map = json!({"version": 3, "sources": ["src/callers.ts"], "mappings": mappings});
    std::fs::write(folder.path().join("callers.js.map"), map.to_string()).expect("write the map");
    for program in nodes() {
        let options = ["--via", "none", "--callers"];
        let words = words![program, "--no-turbo-inlining", script, "300000"];
        let report = Tracing::new(&options, &words).finish().report();
        let Some(callers) = report.callers_or_skip() else { return };
        let stamp =
            rows(&callers["frames"]).find(|frame| frame["function"] == "stamp").expect("stamp");
        let begins = text.lines().zip(1..).find(|(line, _)| line.starts_with("function stamp("));
        let (_, begins) = begins.expect("a line");
        assert_eq!(stamp["file"], folder.path().join("src/callers.ts").to_str().expect("a path"));
        assert_eq!(stamp["line"].as_u64(), Some(begins + ABOVE));
    }
}

/// Functions that the optimising compiler has inlined have no frame. The rest of the stack is there.
#[test]
fn node_as_it_is() {
    for program in nodes() {
        let Some((_, seen, _)) = node(&program, &[]) else { return };
        assert!(share(seen.whole, seen.samples) >= WHOLE, "{seen:?}");
    }
}

fn is_of_python(frame: &Value, name: &str) -> bool {
    // Before Python 3.11 a code object does not know its class.
    let function = frame["function"].as_str().unwrap_or_default();
    let is_it = function == name || Some(function) == name.rsplit('.').next();
    let file = frame["file"].as_str().unwrap_or_default();
    frame["module"] == "[python]" && is_it && file.ends_with("/callers.py")
}

/// On a busy machine a thread waits longer for each sample, and the sampler takes so few within its share of the CPU time.
const SAMPLES_LEAST: u64 = 200;

/// A number of samples, and points by which a share may then be off. Fewer samples than elsewhere, because
/// Python's threads wait while they are sampled.
fn demand_of_waiting() -> (u64, f64) {
    if std::env::var_os("THOROUGH").is_some() { (4_000, 3.0) } else { (1_000, 6.0) }
}

/// The installed Python; for `make test-callers` also the ones in `PYTHONS`.
#[test]
fn python() {
    for program in programs(&["/usr/bin/python3"], "PYTHONS") {
        let name = program.display().to_string();
        let command = words![program, sources().join("callers.py")];
        let (samples, points) = demand_of_waiting();
        let found = service(&name, &command, &[], 20_000_000, SAMPLES_LEAST, is_of_python);
        let Some((report, seen, truths)) = found else { return };
        let allowance = points / share(seen.samples.min(samples), samples).sqrt();
        assert_shares(&name, &seen, &truths, allowance);
        assert_python_lines(&report);
        let waits = &report.field("callers")["waits"];
        println!(
            "{name}: {waits}, {} of the processor time",
            report.field("callers")["cost_share"]
        );
        assert!(waits["count"].as_u64() >= Some(seen.samples), "{waits}");
    }
}

/// The line of a Python frame is the one on which the next function is called.
#[track_caller]
fn assert_python_lines(report: &Report) {
    let callers = report.field("callers");
    let source = std::fs::read_to_string(sources().join("callers.py")).expect("read the source");
    let line_of = |text: &str| source.lines().zip(1_u64..).find(|(line, _)| line.trim() == text);
    for (name, text) in [
        ("stamp", "return time.perf_counter_ns()"),
        ("orders", "return stamp()"),
        ("Prices.prices", "return [stamp() for _ in range(1)][0]"),
        ("main", "counts = work(int(sys.argv[1]))"),
    ] {
        let truly = line_of(text).map(|(_, number)| number);
        let mut frames = rows(&callers["frames"]).filter(|frame| is_of_python(frame, name));
        let lines: Vec<Option<u64>> = frames.by_ref().map(|frame| frame["line"].as_u64()).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| *line == truly), "{name}: {lines:?}");
    }
}
