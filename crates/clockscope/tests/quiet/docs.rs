//! The documentation is true as far as a machine can tell: its commands work.
//!
//! In a block fenced as `console`, lines that begin with `$ ` are commands. The other lines are output. That of
//! `clockscope doctor` about files is compared: `...` stands for any lines, and at a line's end for the rest of it. All
//! other output is that of one machine, and only the line that refuses a command line (exit status 2) is compared. The
//! commands of a page run one
//! after another in their own directory, with the repository's `tests`, `fixtures` and `demo` in it. Blocks fenced as
//! `console-root` run as root only, those fenced as `console-x86-64` on that architecture only. Blocks fenced otherwise
//! (`text`, `console-server`) need a server, a package or minutes, and do not run.

use std::env::consts::ARCH;
use std::fs;
use std::iter;
use std::num::NonZero;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::support::command::root;
use crate::support::root_or_skip;

/// After this many seconds a command counts as hung.
const HUNG_AFTER: &str = "300";
/// Emulated machines set this to a divisor for large numbers in commands, which give how often something is done.
const SMALLER: &str = "CLOCKSCOPE_DOCS_SMALLER";
/// Numbers from this one on are divided.
const LARGE: u64 = 100_000;

/// The pages: README.md and everything in docs/.
fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).expect("list docs");
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.expect("a page").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    pages
}

/// The exit status of a command line that is refused.
const REFUSED: i32 = 2;

/// A command of a page, its expected exit status, the line that refuses it if the page has one, and all lines that the
/// page shows.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    command: String,
    status: i32,
    refusal: Option<String>,
    shown: Vec<String>,
}

/// Whether these lines of a page are what a command printed.
fn is_printed(shown: &[String], printed: &str) -> bool {
    let mut lines = printed.lines();
    let mut is_gap = false;
    for wanted in shown {
        let begin = wanted.strip_suffix("...");
        if begin.is_some_and(|begin| begin.trim().is_empty()) {
            is_gap = true;
            continue;
        }
        let fits = |line: &str| match begin {
            Some(begin) => line.starts_with(begin.trim_end()),
            None => line == wanted,
        };
        let is_found = if is_gap { lines.any(fits) } else { lines.next().is_some_and(fits) };
        if !is_found {
            return false;
        }
        is_gap = begin.is_some();
    }
    is_gap || lines.next().is_none()
}

impl Example {
    fn parse(line: &str) -> Self {
        let (command, status) = match line.rsplit_once("# exit ") {
            Some((command, number)) => (command, number.trim().parse().expect("an exit status")),
            None => (line, 0),
        };
        let (refusal, shown) = (None, Vec::new());
        Self { command: command.trim().to_owned(), status, refusal, shown }
    }

    /// Whether the command ended as the page says. Emulated machines may differ in `wrongness`.
    fn is_true(&self, output: &Output, is_emulated: bool) -> bool {
        let said = String::from_utf8_lossy(&output.stderr);
        let is_said = |refusal: &String| said.lines().any(|line| line == refusal);
        // `wrongness` ends with 1 if a clock of the machine is wrong. An emulated clock stands still now and then.
        let is_wrongness = self.command.starts_with("clockscope wrongness ");
        let of_machine = is_emulated && self.status == 0 && is_wrongness;
        let is_right = |code| code == self.status || of_machine && code == 1;
        let is_of_files = self.command.starts_with("clockscope doctor ");
        let printed = || String::from_utf8_lossy(&output.stdout) + said.clone();
        let is_shown = !is_of_files || self.shown.is_empty() || is_printed(&self.shown, &printed());
        output.status.code().is_some_and(is_right) && self.refusal.iter().all(is_said) && is_shown
    }
}

/// The commands in the `console` blocks of a page, plus those for root if `is_root` and those for this architecture.
fn examples_for(page: &str, is_root: bool, architecture: &str) -> Vec<Example> {
    let runs = |fence: &str| match fence {
        "console" => true,
        "console-root" => is_root,
        "console-x86-64" => architecture == "x86_64",
        _ => false,
    };
    let mut fence: Option<&str> = None;
    let mut examples = Vec::new();
    for line in page.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language.trim()),
            (Some(_), Some(_)) => fence = None,
            (None, Some(fence)) if runs(fence) => {
                match (line.strip_prefix("$ "), examples.last_mut()) {
                    (Some(command), _) => examples.push(Example::parse(command)),
                    (None, Some(example)) => {
                        if example.status == REFUSED && line.starts_with("clockscope: ") {
                            example.refusal.get_or_insert_with(|| line.to_owned());
                        }
                        example.shown.push(line.to_owned());
                    }
                    (None, None) => {}
                }
            }
            (None, _) => {}
        }
    }
    examples
}

#[test]
fn commands_are_found_in_console_blocks_only() {
    let page = "$ outside\n```text\n$ text\n```\n```console\n$ one\noutput\n$ two  # exit 3\n```\n\
                ```console-server\n$ server\n```\n```console\n$ three # not a status\n$ four # exit 2\nclockscope: no\n```\n";
    let example = |command: &str, status, shown: &[&str]| Example {
        command: command.to_owned(),
        status,
        refusal: (status == REFUSED).then(|| "clockscope: no".to_owned()),
        shown: shown.iter().map(|&line| line.to_owned()).collect(),
    };
    let expected = [
        example("one", 0, &["output"]),
        example("two", 3, &[]),
        example("three # not a status", 0, &[]),
        example("four", REFUSED, &["clockscope: no"]),
    ];
    assert_eq!(examples_for(page, false, ARCH), expected);
    let page = "```console-root\n$ one\n```\n```console-x86-64\n$ two\n```\n";
    let found = |is_root, architecture| {
        let examples = examples_for(page, is_root, architecture);
        examples.into_iter().map(|example| example.command).collect::<Vec<_>>()
    };
    assert_eq!(found(false, "x86_64"), ["two"]);
    assert_eq!(found(true, "x86_64"), ["one", "two"]);
    assert_eq!(found(true, "aarch64"), ["one"]);
}

#[test]
fn what_a_page_shows_is_all_that_is_printed_but_for_what_it_leaves_out() {
    let is_printed = |shown: &str| {
        let shown: Vec<String> = shown.split('|').map(str::to_owned).collect();
        is_printed(&shown, "one\ntwo three\n\nfour\n")
    };
    for shown in ["one|two three||four", "...|four", "one|...", "one|two ...", "one|  ...|four"] {
        assert!(is_printed(shown), "{shown}");
    }
    for shown in ["one", "one|two three|four", "two three||four", "...|one|four", "one|tw ...|six"]
    {
        assert!(!is_printed(shown), "{shown}");
    }
}

fn shell(command: &str, directory: &Path) -> Output {
    let tool = Path::new(env!("CARGO_BIN_EXE_clockscope")).parent().expect("lies in a folder");
    let path = std::env::var("PATH").expect("PATH is set");
    Command::new("timeout")
        .args([HUNG_AFTER, "sh", "-c", command])
        .current_dir(directory)
        .env("PATH", format!("{}:{path}", tool.display()))
        .stdin(Stdio::null())
        .output()
        .expect("run timeout(1)")
}

/// Divides the large numbers in a command that runs a program.
fn with_smaller_numbers(command: &str, divisor: u64) -> String {
    if !["clockscope ", "./"].iter().any(|begin| command.starts_with(begin)) {
        return command.to_owned();
    }
    let smaller = |word: &str| match word.trim_end_matches('\'').parse::<u64>() {
        Ok(number) if number >= LARGE => {
            word.replace(&number.to_string(), &(number / divisor).to_string())
        }
        _ => word.to_owned(),
    };
    command.split(' ').map(smaller).collect::<Vec<_>>().join(" ")
}

#[test]
fn large_numbers_are_divided_and_no_others() {
    let command = "clockscope run --clock slow sh -c './reads 20000000' -F 99 1.2us";
    let smaller = "clockscope run --clock slow sh -c './reads 200000' -F 99 1.2us";
    assert_eq!(with_smaller_numbers(command, 100), smaller);
    assert_eq!(with_smaller_numbers(command, 1), command);
    let text = "echo 'Measured 4051839702 cycles' > log";
    assert_eq!(with_smaller_numbers(text, 100), text);
}

/// Runs the commands of a page; gives the commands that ended otherwise, with their output.
fn complaints_of(page: &Path) -> Vec<String> {
    let divisor = std::env::var(SMALLER).map_or(1, |by| by.parse().expect("a number"));
    let name = page.file_name().expect("has a name").to_string_lossy().into_owned();
    let directory = tempfile::tempdir().expect("make a temporary directory");
    for folder in ["tests", "fixtures", "demo"] {
        symlink(root().join(folder), directory.path().join(folder)).expect("make a link");
    }
    let mut complaints = Vec::new();
    let text = fs::read_to_string(page).expect("read a page");
    let is_root = text.contains("```console-root") && root_or_skip().is_some();
    for example in examples_for(&text, is_root, ARCH) {
        let output = shell(&with_smaller_numbers(&example.command, divisor), directory.path());
        if !example.is_true(&output, divisor > 1) {
            let [printed, said] =
                [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
            complaints.push(format!("{name}: {example:?}: {}\n{printed}{said}", output.status));
        }
    }
    complaints
}

#[test]
fn commands_in_the_documentation_work() {
    // Most commands spend their time waiting, so more pages than CPUs run at once.
    let at_once = 4 * thread::available_parallelism().map_or(1, NonZero::get);
    let pages = Mutex::new(pages());
    let next = || pages.lock().expect("no page panics").pop();
    let try_pages = || iter::from_fn(next).flat_map(|page| complaints_of(&page)).collect();
    let complaints: Vec<String> = thread::scope(|scope| {
        let tries: Vec<_> = (0..at_once).map(|_| scope.spawn(try_pages)).collect();
        tries
            .into_iter()
            .flat_map(|tried| -> Vec<String> { tried.join().expect("no page panics") })
            .collect()
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_failing_command_is_noticed() {
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let page = directory.path().join("page.md");
    fs::write(
        &page,
        "```console\n$ true\n$ true # exit 1\n$ exit 3 # exit 3\n$ false\n\
                     $ echo clockscope: no >&2; exit 2 # exit 2\nclockscope: no\n\
                     $ echo clockscope: no >&2; exit 2 # exit 2\nclockscope: yes\n```\n",
    )
    .expect("write a page");
    assert_eq!(complaints_of(&page).len(), 3);
    let ended = |command: &str, code: i32, is_emulated| {
        let status = ExitStatus::from_raw(code << 8);
        let output = Output { status, stdout: Vec::new(), stderr: Vec::new() };
        Example::parse(command).is_true(&output, is_emulated)
    };
    let wrongness = "clockscope wrongness --time 2";
    assert!(ended(wrongness, 1, true) && !ended(wrongness, 2, true));
    assert!(!ended(wrongness, 1, false) && !ended("clockscope trace date", 1, true));
}
