//! The documentation is true as far as a machine can tell: its commands work, and its pages name
//! every option.
//!
//! In a block fenced as `console`, lines that begin with `$ ` are commands and the others are
//! output, which is of one machine and not compared; but the line that refuses a command line, with exit
//! status 2, is. The commands of a page run one after another
//! in a directory of their own, with the repository's `tests`, `fixtures` and `demo` in it. Blocks fenced as
//! `console-root` run as root only. Blocks fenced otherwise (`text`, `console-server`) need a server, a package or
//! minutes, and do not run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use clap::CommandFactory;
use clockscope::cli::Cli;

use crate::support::is_root_or_skip;

/// After this many seconds a command counts as hung.
const HUNG_AFTER: &str = "300";
/// Its commands are tried by `vdso_command.rs`, which knows when the kernel may refuse one.
const TRIED_ELSEWHERE: &str = "vdso.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").to_owned()
}

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

/// A command of a page, the exit status that it must have, and the line that refuses it, if the page has one.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    command: String,
    status: i32,
    refusal: Option<String>,
}

impl Example {
    fn parse(line: &str) -> Self {
        let (command, status) = match line.rsplit_once("# exit ") {
            Some((command, number)) => (command, number.trim().parse().expect("an exit status")),
            None => (line, 0),
        };
        Self { command: command.trim().to_owned(), status, refusal: None }
    }

    /// Whether this is how the command ended.
    fn is_true(&self, output: &Output) -> bool {
        let said = String::from_utf8_lossy(&output.stderr);
        let is_said = |refusal: &String| said.lines().any(|line| line == refusal);
        output.status.code() == Some(self.status) && self.refusal.iter().all(is_said)
    }
}

/// The commands in the `console` blocks of a page, and in those for root if `is_root`.
fn examples_for(page: &str, is_root: bool) -> Vec<Example> {
    let runs = |fence: &str| fence == "console" || fence == "console-root" && is_root;
    let mut fence: Option<&str> = None;
    let mut examples = Vec::new();
    for line in page.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language.trim()),
            (Some(_), Some(_)) => fence = None,
            (None, Some(fence)) if runs(fence) => {
                match (line.strip_prefix("$ "), examples.last_mut()) {
                    (Some(command), _) => examples.push(Example::parse(command)),
                    (None, Some(Example { status: REFUSED, refusal, .. }))
                        if line.starts_with("clockscope: ") =>
                    {
                        refusal.get_or_insert_with(|| line.to_owned());
                    }
                    (None, _) => {}
                }
            }
            (None, _) => {}
        }
    }
    examples
}

/// Those for any user.
fn examples(page: &str) -> Vec<Example> {
    examples_for(page, false)
}

#[test]
fn commands_are_found_in_console_blocks_only() {
    let page = "$ outside\n```text\n$ text\n```\n```console\n$ one\noutput\n$ two  # exit 3\n```\n\
                ```console-server\n$ server\n```\n```console\n$ three # not a status\n$ four # exit 2\nclockscope: no\n```\n";
    let example = |command: &str, status| Example {
        command: command.to_owned(),
        status,
        refusal: (status == REFUSED).then(|| "clockscope: no".to_owned()),
    };
    let expected = [("one", 0), ("two", 3), ("three # not a status", 0), ("four", REFUSED)];
    let expected = expected.map(|(command, status)| example(command, status));
    assert_eq!(examples(page), expected);
    let page = "```console-root\n$ one\n```\n";
    assert_eq!((examples_for(page, false).len(), examples_for(page, true).len()), (0, 1));
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

/// Runs the commands of a page; gives what is wrong.
fn complaints_of(page: &Path) -> Vec<String> {
    let name = page.file_name().expect("has a name").to_string_lossy().into_owned();
    let directory = tempfile::tempdir().expect("make a temporary directory");
    for folder in ["tests", "fixtures", "demo"] {
        symlink(root().join(folder), directory.path().join(folder)).expect("make a link");
    }
    let mut complaints = Vec::new();
    let text = fs::read_to_string(page).expect("read a page");
    let is_root = text.contains("```console-root") && is_root_or_skip();
    for example in examples_for(&text, is_root) {
        let output = shell(&example.command, directory.path());
        if !example.is_true(&output) {
            let [printed, said] =
                [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
            complaints.push(format!("{name}: {example:?}: {}\n{printed}{said}", output.status));
        }
    }
    complaints
}

#[test]
fn commands_in_the_documentation_work() {
    let mut pages = pages();
    pages.retain(|page| !page.ends_with(TRIED_ELSEWHERE));
    let complaints: Vec<String> = thread::scope(|scope| {
        let tries: Vec<_> = pages.iter().map(|page| scope.spawn(|| complaints_of(page))).collect();
        tries.into_iter().flat_map(|tried| tried.join().expect("no page panics")).collect()
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn there_are_commands_to_try() {
    for page in [
        "README.md",
        "docs/coming-from.md",
        "docs/trace.md",
        "docs/run.md",
        "docs/origins.md",
        "docs/hazards.md",
    ] {
        let text = fs::read_to_string(root().join(page)).expect("read a page");
        assert!(examples(&text).len() >= 3, "{page} has too few commands in console blocks");
    }
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
}

/// The options and values of a subcommand that its page does not name; hidden ones are its own.
fn unnamed(subcommand: &clap::Command, page: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for argument in subcommand.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let long = argument.get_long();
        if matches!(long, Some("help" | "version")) {
            continue;
        }
        let mut words: Vec<String> = long.map(|long| format!("--{long}")).into_iter().collect();
        words.extend(argument.get_short().map(|short| format!("`-{short}")));
        if argument.get_action().takes_values() {
            let values = argument.get_possible_values();
            words.extend(values.iter().map(|value| value.get_name().to_owned()));
        }
        missing.extend(words.into_iter().filter(|word| !page.contains(word)));
    }
    missing
}

#[test]
fn each_option_is_described_on_the_page_of_its_subcommand() {
    let command = Cli::command();
    let subcommands: Vec<_> =
        command.get_subcommands().filter(|c| c.get_name() != "help").collect();
    assert!(subcommands.len() >= 3);
    for subcommand in subcommands {
        let name = subcommand.get_name();
        let page = fs::read_to_string(root().join(format!("docs/{name}.md")))
            .unwrap_or_else(|error| panic!("docs/{name}.md: {error}"));
        assert_eq!(unnamed(subcommand, &page), [""; 0], "not named in docs/{name}.md");
        assert!(!unnamed(subcommand, "").is_empty(), "{name} has options");
    }
}
