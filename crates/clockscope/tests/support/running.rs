//! Runs programs under `clockscope trace` and `clockscope run`, and reads the report.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::places_left;
use super::printed::Key;

/// A limit for a hung run, not for a slow one.
pub(crate) const HUNG_AFTER: Duration = Duration::from_secs(300);

/// The command under test; `CLOCKSCOPE_UNDER_TEST` names another build, such as the release.
pub(crate) fn clockscope() -> PathBuf {
    let other = std::env::var_os("CLOCKSCOPE_UNDER_TEST");
    other.unwrap_or_else(|| env!("CARGO_BIN_EXE_clockscope").into()).into()
}

/// A program and its arguments as `OsString`s, from any path or text types, and lists of them.
macro_rules! words {
    ($($part:expr),* $(,)?) => {{
        let mut words = Vec::new();
        $($crate::support::running::Words::add_to(&$part, &mut words);)*
        words
    }};
}

/// A part of a command line: a word, or several.
pub(crate) trait Words {
    fn add_to(&self, words: &mut Vec<OsString>);
}

macro_rules! is_one_word {
    ($($kind:ty),*) => {$(
        impl Words for $kind {
            fn add_to(&self, words: &mut Vec<OsString>) {
                words.push(OsString::from(self));
            }
        }
    )*};
}
is_one_word!(str, String, OsStr, OsString, Path, PathBuf);

impl<W: Words + ?Sized> Words for &W {
    fn add_to(&self, words: &mut Vec<OsString>) {
        (**self).add_to(words);
    }
}

impl<W: Words> Words for [W] {
    fn add_to(&self, words: &mut Vec<OsString>) {
        self.iter().for_each(|part| part.add_to(words));
    }
}

impl<W: Words, const N: usize> Words for [W; N] {
    fn add_to(&self, words: &mut Vec<OsString>) {
        self.as_slice().add_to(words);
    }
}

impl<W: Words> Words for Vec<W> {
    fn add_to(&self, words: &mut Vec<OsString>) {
        self.as_slice().add_to(words);
    }
}

/// One finished run under `clockscope trace`.
pub(crate) struct Traced {
    /// Exit status of clockscope.
    pub(crate) status: ExitStatus,
    /// Standard output of the program.
    pub(crate) stdout: String,
    /// Standard error of the program and of clockscope.
    pub(crate) stderr: String,
    report: Option<Report>,
}

impl Traced {
    /// Joins the output of a finished run with its report.
    pub(crate) fn of(output: &Output, report: Option<Report>) -> Self {
        Self {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            report,
        }
    }

    /// The report.
    ///
    /// # Panics
    ///
    /// If no report was written.
    #[track_caller]
    pub(crate) fn report(&self) -> Report {
        self.report.clone().unwrap_or_else(|| panic!("no report; {self:?}"))
    }

    /// Checks that the run ended with status 0 and has a report.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!((self.code(), self.has_report()), (0, true), "{self:?}");
        self
    }

    /// Whether a report was written.
    pub(crate) fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// The exit status as a shell shows it.
    pub(crate) fn code(&self) -> i32 {
        code_as_shell(self.status)
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}\nstdout: {}\nstderr: {}", self.status, self.stdout, self.stderr)
    }
}

/// An exit status as a shell shows it: 128+N for signal N.
pub(crate) fn code_as_shell(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().expect("has ended"))
}

/// Runs `clockscope trace OPTIONS -- COMMAND` with an empty standard input.
#[track_caller]
pub(crate) fn trace(options: &[&str], command: &[OsString]) -> Traced {
    let mut tracing = Tracing::new(options, command);
    tracing.command.stdin(Stdio::null());
    tracing.finish()
}

/// Runs `clockscope trace --via none`: for tests with many calls, or with no interest in system calls.
#[track_caller]
pub(crate) fn trace_vdso(command: &[OsString]) -> Traced {
    trace(&["--via", "none"], command)
}

/// Runs a program without clockscope, with an empty standard input.
#[track_caller]
pub(crate) fn untraced(command: &[OsString]) -> Output {
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).stdin(Stdio::null());
    finish(process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start a tracee"))
}

/// Runs `clockscope run OPTIONS -- COMMAND`.
#[track_caller]
pub(crate) fn run(options: &[&str], command: &[OsString]) -> Output {
    untraced(&words![clockscope(), "run", options, "--", command])
}

/// Runs `clockscope run OPTIONS --stats -- COMMAND`; gives its output and the report.
#[track_caller]
pub(crate) fn run_with_stats(options: &[&str], command: &[OsString]) -> (Output, Report) {
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let file = directory.path().join("report.json");
    let stats = ["--stats", "--format", "json", "-o", file.to_str().expect("UTF-8")];
    let output = run(&[options, &stats].concat(), command);
    let report = Report::read(&file).unwrap_or_else(|| panic!("no report: {output:?}"));
    (output, report)
}

/// A run under `clockscope trace` that is being prepared.
pub(crate) struct Tracing {
    /// `clockscope trace OPTIONS -o FILE --format json -- COMMAND`.
    pub(crate) command: Command,
    report_path: PathBuf,
    /// Removed with this value.
    _directory: Option<TempDir>,
}

impl Tracing {
    /// Prepares the command.
    pub(crate) fn new(options: &[&str], command: &[OsString]) -> Self {
        Self::below(&words![clockscope()], options, command)
    }

    /// Prepares the command with words in front: `setpriv ... clockscope`.
    pub(crate) fn below(starter: &[OsString], options: &[&str], traced: &[OsString]) -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        let report_path = directory.path().join("report.json");
        let tracing = Self::reporting_to(&report_path, starter, options, traced);
        Self { _directory: Some(directory), ..tracing }
    }

    /// Prepares the command with a report file of the test's choice.
    pub(crate) fn reporting_to(
        report_path: &Path,
        starter: &[OsString],
        options: &[&str],
        traced: &[OsString],
    ) -> Self {
        let mut command = Command::new(&starter[0]);
        command.args(&starter[1..]).arg("trace").args(options).args(["--format", "json", "-o"]);
        command.arg(report_path).arg("--").args(traced);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, report_path: report_path.to_owned(), _directory: None }
    }

    /// Path of the report file.
    pub(crate) fn report_path(&self) -> &Path {
        &self.report_path
    }

    /// The words of the command, for a shell or another starter.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let program = std::iter::once(self.command.get_program());
        program.chain(self.command.get_args()).map(OsStr::to_owned).collect()
    }

    /// Runs the command to its end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Traced {
        let child = self.command.spawn().expect("start clockscope");
        self.traced(&finish(child))
    }

    /// Runs the command to its end with this standard input.
    #[track_caller]
    pub(crate) fn finish_with_input(mut self, input: &str) -> Traced {
        let output = with_input(&mut self.command, input.as_bytes());
        self.traced(&output)
    }

    /// Joins the output of a finished run with its report.
    pub(crate) fn traced(&self, output: &Output) -> Traced {
        Traced::of(output, Report::read(&self.report_path))
    }
}

/// Runs a command to its end with this standard input.
#[track_caller]
pub(crate) fn with_input(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = command.spawn();
    let mut child =
        started.unwrap_or_else(|error| panic!("{command:?}: {error}; see scripts/setup.sh"));
    let (mut stdin, input) = (child.stdin.take().expect("is piped"), input.to_vec());
    // A program that does not read its input may have ended already.
    thread::spawn(move || stdin.write_all(&input).is_ok());
    finish(child)
}

/// The child processes of a process, sorted.
pub(crate) fn children_of(pid: i32) -> Vec<i32> {
    let listed = untraced(&words!["pgrep", "-P", pid.to_string()]);
    text(&listed).lines().filter_map(|line| line.parse().ok()).collect()
}

/// The only child process of a process; `None` if it has none or several.
pub(crate) fn child_of(pid: i32) -> Option<i32> {
    let [child] = children_of(pid)[..] else { return None };
    Some(child)
}

/// A child process that is killed with this value, so that a failed test leaves none behind.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a process wrote to its standard output.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits for a process and reads its pipes; kills a hung process.
#[track_caller]
pub(crate) fn finish(mut child: Child) -> Output {
    drop(child.stdin.take());
    let pid = child.id().to_string();
    let (sender, ended) = channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match ended.recv_timeout(HUNG_AFTER) {
        Ok(output) => output.expect("wait for a process"),
        Err(_) => {
            // The thread has not waited for the process yet, so its id is not reused.
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
            panic!("still running after {HUNG_AFTER:?}");
        }
    }
}

/// A report of `clockscope trace --format json`.
#[derive(Clone, Debug)]
pub(crate) struct Report(Value);

impl Report {
    /// Reads a report, if the file has one.
    ///
    /// # Panics
    ///
    /// If the file holds something else, or another schema.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok().filter(|text| !text.is_empty())?;
        let report: Value = serde_json::from_str(&text).expect("the report is JSON");
        assert_eq!(report["schema"], 1, "schema of {text}");
        Some(Self(report))
    }

    /// The report as the program's own type.
    pub(crate) fn model(&self) -> clockscope_model::trace::TraceReport {
        serde_json::from_value(self.0.clone()).expect("a report of a trace")
    }

    /// A top-level field of the report.
    pub(crate) fn field(&self, name: &str) -> &Value {
        &self.0[name]
    }

    /// A top-level field that is a number.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_else(|| panic!("{name} is not a number: {}", self.0[name]))
    }

    /// Calls of a vDSO function on a clock, 0 if it has no row.
    pub(crate) fn vdso_calls(&self, key: &Key) -> u64 {
        self.vdso_rows().get(key).copied().unwrap_or(0)
    }

    /// All vDSO rows that are not 0.
    pub(crate) fn vdso_rows(&self) -> BTreeMap<Key, u64> {
        vdso_rows_of(&self.0)
    }

    /// The only entry of `--per-process` for a process.
    #[track_caller]
    pub(crate) fn process(&self, pid: i32) -> &Value {
        let own = rows(&self.0["processes_detail"]).filter(|row| row["pid"] == pid);
        let [own] = own.collect::<Vec<_>>()[..] else {
            panic!("not one entry for {pid}: {self:#?}")
        };
        own
    }

    /// Calls of `clock_gettime` on a clock.
    pub(crate) fn reads_of(&self, clock: &str) -> u64 {
        self.vdso_calls(&("clock_gettime".to_owned(), clock.to_owned()))
    }

    /// `calls` or `errors` of a system call, 0 if it has no row.
    pub(crate) fn syscall(&self, name: &str, what: &str) -> u64 {
        rows(&self.0["syscalls"])
            .filter(|row| row["name"] == name)
            .filter_map(|row| row[what].as_u64())
            .sum()
    }

    /// Whether the report knows the errors of this system call.
    pub(crate) fn knows_errors(&self, name: &str) -> bool {
        let mut of_name = rows(&self.0["syscalls"]).filter(|row| row["name"] == name);
        of_name.all(|row| !row["errors"].is_null())
    }

    /// Whether the report counts system calls.
    pub(crate) fn counts_syscalls(&self) -> bool {
        self.0["via"] != "none"
    }

    /// Reasons why `what` ("vdso" or "syscalls") was not counted, one for each process.
    pub(crate) fn reasons(&self, what: &str) -> Vec<&str> {
        let declines = rows(&self.0["declines"]).filter(|row| row["what"] == what);
        declines.map(|row| row["reason"].as_str().expect("a reason")).collect()
    }

    /// Whether the report has a reason with these words why system calls were not counted.
    pub(crate) fn has_syscall_reason(&self, words: &str) -> bool {
        self.reasons("syscalls").iter().any(|reason| reason.contains(words))
    }

    /// How many instructions of a file the report names as not counted, for a reason that begins with `why`.
    pub(crate) fn left(&self, file: &Path, why: &str) -> usize {
        let file = file.to_string_lossy();
        let reasons = self.reasons("syscalls");
        let of_file = reasons.iter().filter_map(|reason| places_left::clause(reason));
        let counts = of_file.filter(|clause| clause.0 == file).flat_map(|clause| clause.1);
        counts.filter(|(reason, _)| reason.starts_with(why)).map(|(_, count)| count).sum()
    }

    /// The sampled callers; `None` (a skip) if the kernel lets this user sample no process.
    #[track_caller]
    pub(crate) fn callers_or_skip(&self) -> Option<&Value> {
        let callers = self.field("callers");
        if let Some(decline) = rows(&callers["declines"]).find(|row| row["pid"] == 0) {
            assert_eq!(callers["samples"], 0);
            super::skip(format_args!("nobody may be sampled: {}", decline["reason"]));
            return None;
        }
        Some(callers)
    }
}

/// The vDSO rows of a report, process or thread that are not 0.
pub(crate) fn vdso_rows_of(value: &Value) -> BTreeMap<Key, u64> {
    let mut sums = BTreeMap::new();
    for row in rows(&value["vdso"]) {
        let clock = row["clock"].as_str().unwrap_or("-").to_owned();
        let key = (row["function"].as_str().expect("a function has a name").to_owned(), clock);
        *sums.entry(key).or_default() += row["calls"].as_u64().expect("calls is a number");
    }
    sums.retain(|_, calls| *calls > 0);
    sums
}

/// The elements of a JSON array; none if it is missing.
pub(crate) fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
