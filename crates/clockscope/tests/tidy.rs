//! The project's own rules, checked by reading the text of the repository.
//!
//! The checks read text, not syntax, so they can be evaded. Each rule is a function from files to complaints. Its test
//! runs on the repository and on a text that breaks the rule.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only places with unsafe code.
const UNSAFE_IN: [&str; 5] = [
    "crates/clockscope-sys/src/",
    "crates/vdso-image/src/",
    "crates/fastclock/src/arch/",
    "crates/fastclock/src/sys/",
    "crates/fastclock-c/src/",
];
/// The only places that test for the architecture: folders with the code of one, and this file, which has the word.
const ARCHITECTURE_IN: [&str; 2] = ["/arch/", "crates/clockscope/tests/tidy.rs"];
/// Tests that may sleep: path, and the reason why the test cannot wait for an event instead.
const MAY_SLEEP: [(&str, &str); 4] = [
    (
        "crates/clockscope/tests/support/running.rs",
        "waits for a child with a deadline, which waitpid cannot",
    ),
    (
        "crates/clockscope/tests/support/attaching.rs",
        "looks at another process, which tells nobody what has changed in it, and kills at any moment",
    ),
    (
        "crates/clockscope-timekeeper/src/tests.rs",
        "reads the page as programs do, which nobody tells that it was written",
    ),
    (
        "crates/fastclock/tests/page/kill.rs",
        "waits for nothing; its readers leave the CPUs to the writers now and then",
    ),
];
/// File names that say nothing about the content.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "misc", "type", "types"];
const SOURCES: [&str; 14] =
    ["rs", "c", "h", "cpp", "hpp", "S", "py", "pl", "js", "go", "java", "sh", "mk", "toml"];

/// A text file of the repository.
#[derive(Clone, Debug)]
struct File {
    path: String,
    text: String,
}

impl File {
    fn new(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|e| e.to_str()).unwrap_or("")
    }

    fn is_source(&self) -> bool {
        SOURCES.contains(&self.extension()) || self.path == "Makefile" || self.path == ".ci/run"
    }

    /// Lines with their number, cut at a `//` outside of a string.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().map(without_comment).enumerate().map(|(index, line)| (index + 1, line))
    }
}

fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let bytes = line.as_bytes();
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' if index == 0 || bytes[index - 1] != b'\\' => quoted = !quoted,
            b'/' if !quoted && bytes.get(index + 1) == Some(&b'/') => return &line[..index],
            _ => {}
        }
    }
    line
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").to_owned()
}

/// All text files that git tracks or would add; without git, all files below the root except build output.
fn repository() -> Vec<File> {
    let root = root();
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let paths: Vec<String> = match listed {
        Some(names) => names.split('\0').filter(|n| !n.is_empty()).map(str::to_owned).collect(),
        None => walk(&root, &root),
    };
    let files: Vec<File> = paths
        .into_iter()
        .filter(|path| !path.ends_with("Cargo.lock"))
        .filter_map(|path| {
            let text = std::fs::read_to_string(root.join(&path)).ok()?;
            Some(File { path, text })
        })
        .collect();
    assert!(files.len() > 20, "only {} files were found below {}", files.len(), root.display());
    files
}

fn walk(root: &Path, folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of the repository").flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !matches!(entry.file_name().to_str(), Some(".git" | "target")) {
                paths.extend(walk(root, &path));
            }
        } else if let Some(path) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// Fails with a rule's complaints about the repository.
fn check(rule: impl Fn(&[File]) -> Vec<String>) {
    let complaints = rule(&repository());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Fails unless the rule complains about `bad` as a file at this path, and not about `good`.
fn bites(rule: impl Fn(&[File]) -> Vec<String>, path: &str, bad: &str, good: &str) {
    let complaints = rule(&[File::new(path, bad)]);
    assert_eq!(complaints.len(), 1, "{path} with {bad:?}: {complaints:?}");
    let complaints = rule(&[File::new(path, good)]);
    assert!(complaints.is_empty(), "{path} with {good:?}: {complaints:?}");
}

/// Whether `word` stands in `text` with no letter, digit or `_` beside it.
fn has_word(text: &str, word: &str) -> bool {
    let joined = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(joined) && !text[at + word.len()..].starts_with(joined)
    })
}

/// A complaint for each line, comments included, for which there is one.
fn complaints<'a>(
    files: impl IntoIterator<Item = &'a File>,
    about: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let lines =
        files.into_iter().flat_map(|file| file.text.lines().zip(1..).map(move |l| (file, l)));
    lines
        .filter_map(|(file, (line, number))| {
            Some(format!("{}:{number}: {}", file.path, about(line)?))
        })
        .collect()
}

/// A complaint for each line of code that `is_wrong`, in the files that `is_meant`.
fn lines_where(
    files: &[File],
    is_meant: impl Fn(&File) -> bool,
    what: &str,
    is_wrong: impl Fn(&str) -> bool,
) -> Vec<String> {
    let meant = files.iter().filter(|file| is_meant(file));
    let lines = meant.flat_map(|file| file.code().map(move |line| (file, line)));
    lines
        .filter(|(_, (_, line))| is_wrong(line))
        .map(|(file, (number, _))| format!("{}:{number}: {what}", file.path))
        .collect()
}

fn unsafe_has_its_place(files: &[File]) -> Vec<String> {
    let is_meant = |f: &File| {
        let is_of_a_crate = f.extension() == "rs" && f.path.starts_with("crates/");
        let is_its_place = UNSAFE_IN.iter().any(|place| f.path.starts_with(place));
        is_of_a_crate && !f.path.contains("/tests/") && !is_its_place
    };
    let lifted = ["allow(unsafe_code)", "expect(unsafe_code)", "warn(unsafe_code)"];
    lines_where(files, is_meant, "unsafe code outside of its places", |line| {
        has_word(line, "unsafe") || lifted.iter().any(|words| line.contains(words))
    })
}

#[test]
fn unsafe_code_has_its_place() {
    check(unsafe_has_its_place);
    let path = "crates/clockscope-report/src/text.rs";
    bites(unsafe_has_its_place, path, "unsafe { f() }", "// unsafe is elsewhere");
    bites(unsafe_has_its_place, path, "#![allow(unsafe_code)]", "#![forbid(unsafe_code)]");
    assert!(unsafe_has_its_place(&[File::new(UNSAFE_IN[0], "unsafe {}")]).is_empty());
}

fn architectures_have_folders(files: &[File]) -> Vec<String> {
    let is_meant = |f: &File| {
        let may_ask = ARCHITECTURE_IN.iter().any(|place| f.path.contains(place));
        matches!(f.extension(), "rs" | "toml") && !may_ask
    };
    let what = "put what differs between architectures into `arch/`";
    lines_where(files, is_meant, what, |line| has_word(line, "target_arch"))
}

#[test]
fn only_those_folders_ask_for_the_architecture() {
    check(architectures_have_folders);
    let bad = "#[cfg(target_arch = \"aarch64\")]";
    for path in ["crates/clockscope-sys/src/tsc.rs", "crates/fastclock/src/lib.rs", "fuzz/page.rs"]
    {
        bites(architectures_have_folders, path, bad, "// target_arch");
        bites(
            architectures_have_folders,
            path,
            "if cfg!(target_arch = \"x86_64\") {",
            "arch::NAME",
        );
    }
    let path = "crates/fastclock/Cargo.toml";
    let bad_dependency = "[target.'cfg(target_arch = \"x86_64\")'.dependencies]";
    bites(architectures_have_folders, path, bad_dependency, "[target.'cfg(unix)'.dependencies]");
    for path in ["crates/clockscope-sys/src/arch/mod.rs", "crates/fastclock/tests/page/arch/mod.rs"]
    {
        assert!(architectures_have_folders(&[File::new(path, bad)]).is_empty(), "{path}");
    }
}

fn names_say_something(files: &[File]) -> Vec<String> {
    let is_empty = |part: &str| {
        let stem = part.split('.').next().unwrap_or(part);
        EMPTY_NAMES.contains(&stem)
    };
    files
        .iter()
        .filter(|f| f.path.split('/').any(is_empty))
        .map(|f| format!("{}: name the file after what is in it", f.path))
        .collect()
}

#[test]
fn files_are_named_after_what_is_in_them() {
    check(names_say_something);
    for path in ["src/util.rs", "tests/common/mod.rs", "types.h"] {
        assert_eq!(names_say_something(&[File::new(path, "")]).len(), 1, "{path}");
    }
    assert!(names_say_something(&[File::new("src/clock_types.rs", "")]).is_empty());
}

/// The words are joined here, so that this file does not break the rule.
fn unfinished_words() -> Vec<String> {
    [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("unimplemented", "!"), ("todo", "!")]
        .map(|(a, b)| format!("{a}{b}"))
        .to_vec()
}

fn sources_are_finished(files: &[File]) -> Vec<String> {
    let words = unfinished_words();
    complaints(files.iter().filter(|f| f.is_source()), |line| {
        let word = words.iter().find(|word| has_word(line, word))?;
        Some(format!("{word} left in"))
    })
}

/// The marks that a merge leaves where both sides have changed the same lines.
fn merges_are_done(files: &[File]) -> Vec<String> {
    let is_mark = |line: &str| ["<", ">"].iter().any(|mark| line.starts_with(&mark.repeat(7)));
    complaints(files, |line| is_mark(line).then(|| "two versions stand here".to_owned()))
}

#[test]
fn no_merge_is_left_half_done() {
    check(merges_are_done);
    bites(merges_are_done, "docs/a.md", &format!("{} HEAD", "<".repeat(7)), "    <<<<<<<");
}

#[test]
fn nothing_is_left_to_be_done() {
    check(sources_are_finished);
    for word in unfinished_words() {
        bites(sources_are_finished, "a.c", &format!("// {word}: later"), "mkstemp(\"XXXXXX\")");
    }
}

/// Paths of the crates that make up the command.
const OF_THE_COMMAND: [&str; 3] =
    ["crates/clockscope", "crates/clock-doctor/", "crates/vdso-reader/"];
/// The only files of the command that write to standard output and error: `streams.rs`, and a launch of
/// `bench`, whose numbers `bench` itself reads.
const SPEAKERS: [&str; 2] =
    ["crates/clockscope/src/printing/streams.rs", "crates/clockscope/src/commands/bench.rs"];

fn only_one_module_prints(files: &[File]) -> Vec<String> {
    let is_meant = |f: &File| {
        let is_below = OF_THE_COMMAND.iter().any(|start| f.path.starts_with(start));
        let is_source = f.path.contains("/src/") && f.extension() == "rs";
        is_below && is_source && !SPEAKERS.contains(&f.path.as_str())
    };
    let words = ["stdout().lock(", "stderr().lock(", "println!(", "print!("];
    lines_where(files, is_meant, "print by printing/streams.rs", |line| {
        words.iter().any(|word| line.contains(word))
    })
}

#[test]
fn only_one_module_leads_to_the_terminal() {
    check(only_one_module_prints);
    let path = "crates/clockscope/src/commands/trace.rs";
    for speech in ["    println!(\"{name}\");", "    eprint!(\"a\");", "    io::stdout().lock()"] {
        bites(only_one_module_prints, path, speech, "    streams::print(&text)?;");
    }
}

/// Programs to be traced may sleep; tests may not.
fn tests_do_not_sleep(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|f| f.extension() == "rs") {
        let is_tracee = file.path.contains("tests/tracees/");
        if is_tracee || MAY_SLEEP.iter().any(|(path, _)| *path == file.path) {
            continue;
        }
        let mut in_tests = file.path.contains("/tests") || file.path.ends_with("_tests.rs");
        for (number, line) in file.code() {
            in_tests |= line.trim() == "#[cfg(test)]";
            // Quotation marks excuse the texts that try out this rule.
            let sleeps = ["thread::sleep", "park_timeout"].iter().any(|call| line.contains(call));
            let sleeps = sleeps && !line.contains('"');
            if in_tests && sleeps {
                complaints.push(format!("{}:{number}: wait for the event instead", file.path));
            }
        }
    }
    complaints
}

#[test]
fn no_test_sleeps_until_it_passes() {
    check(tests_do_not_sleep);
    let sleep = "use std::thread::sleep;";
    bites(tests_do_not_sleep, "crates/clockscope/tests/trace.rs", sleep, "// thread::sleep");
    let park = format!("{}_timeout(limit);", "thread::park");
    bites(tests_do_not_sleep, "crates/clockscope/tests/trace.rs", &park, "thread::park();");
    bites(tests_do_not_sleep, "src/a.rs", &format!("#[cfg(test)]\n{sleep}"), sleep);
    assert!(MAY_SLEEP.iter().all(|(_, reason)| reason.len() > 10), "each with a reason");
}

/// The kernel cannot execute a file that some process has open for writing, and tests mostly copy a program in order to
/// execute it.
fn tests_do_not_copy_programs(files: &[File]) -> Vec<String> {
    let copies = concat!("fs::", "copy(");
    let is_test = |f: &File| f.extension() == "rs" && f.path.contains("/tests/");
    lines_where(files, is_test, "use support::placed", |line| line.contains(copies))
}

#[test]
fn no_test_holds_a_program_open_that_it_executes() {
    check(tests_do_not_copy_programs);
    let copy = concat!("    std::fs::", "copy(&program, &copy).unwrap();");
    bites(tests_do_not_copy_programs, "crates/clockscope/tests/a.rs", copy, "// copies");
}

fn docs_are_linked(files: &[File]) -> Vec<String> {
    let maps: Vec<&File> = files
        .iter()
        .filter(|f| matches!(f.path.as_str(), "README.md" | "ARCHITECTURE.md"))
        .collect();
    if maps.is_empty() {
        return Vec::new();
    }
    files
        .iter()
        .filter(|f| f.path.starts_with("docs/") && f.extension() == "md")
        .filter(|f| !maps.iter().any(|map| map.text.contains(&format!("({}", f.path))))
        .map(|f| format!("{}: linked neither from README.md nor from ARCHITECTURE.md", f.path))
        .collect()
}

#[test]
fn each_page_of_the_docs_is_linked() {
    check(docs_are_linked);
    let page = File::new("docs/trace.md", "");
    let with = |readme: &str| docs_are_linked(&[File::new("README.md", readme), page.clone()]);
    assert_eq!(with("see docs").len(), 1);
    assert!(with("see [trace](docs/trace.md)").is_empty());
    assert!(with("see [columns](docs/trace.md#columns)").is_empty());
}

/// The last part of a name in backticks, if only a test can have such a name.
fn named_test(span: &str) -> Option<&str> {
    let name = span.rsplit("::").next()?;
    let is_word = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'));
    let is_sentence = name.matches('_').count() >= 3;
    (is_word && (name.len() < span.len() || is_sentence)).then_some(name)
}

fn named_tests_exist(files: &[File]) -> Vec<String> {
    let functions: HashSet<&str> = files
        .iter()
        .filter(|f| f.path.starts_with("crates/") && f.extension() == "rs")
        .flat_map(|f| f.text.split("fn ").skip(1))
        .filter_map(|rest| rest.split('(').next())
        .collect();
    files
        .iter()
        .filter(|f| f.path == "docs/hazards.md")
        .flat_map(|f| f.text.split('`').skip(1).step_by(2))
        .filter_map(named_test)
        .filter(|name| !functions.contains(name))
        .map(|name| format!("docs/hazards.md: there is no test {name}"))
        .collect()
}

#[test]
fn each_test_that_the_hazards_name_exists() {
    check(named_tests_exist);
    let sources = File::new("crates/a/tests/trees.rs", "fn posix_spawn() {}");
    let complaints = |page: &str| {
        named_tests_exist(&[File::new("docs/hazards.md", page), sources.clone()]).len()
    };
    assert_eq!(complaints("`trees::posix_spawn`, `trees.rs`, `make test`, `set_robust_list`"), 0);
    assert_eq!(complaints("`trees::spawn`, `…::other`, `a_test_that_is_gone`"), 3);
}

/// Beginnings of paths that exist on one machine only.
fn local_paths() -> Vec<String> {
    ["work", "root", "home"].map(|name| format!("/{name}")).to_vec()
}

fn registry_hosts() -> Vec<String> {
    [
        "index.crates",
        "static.crates",
        "proxy.golang",
        "registry.npmjs",
        "deb.debian",
        "files.pythonhosted",
    ]
    .map(|host| format!("{host}."))
    .to_vec()
}

fn files_fit_every_machine(files: &[File]) -> Vec<String> {
    let (paths, hosts) = (local_paths(), registry_hosts());
    complaints(files, |line| {
        let is_local = paths.iter().any(|path| {
            line.match_indices(path.as_str()).any(|(at, _)| {
                let inside = |c: char| c.is_alphanumeric() || ".-_~*<>{}$/)".contains(c);
                !line[..at].ends_with(inside) && line[at + path.len()..].starts_with('/')
            })
        });
        if is_local {
            return Some("a path of one machine".to_owned());
        }
        let host = hosts.iter().find(|host| line.contains(host.as_str()))?;
        Some(format!("names the host {host}"))
    })
}

#[test]
fn nothing_belongs_to_one_machine() {
    check(files_fit_every_machine);
    for path in local_paths() {
        let good = format!("network{path}/x $HOME{path}/x {path}ing/x");
        bites(files_fit_every_machine, "a.md", &format!("see \"{path}/x\""), &good);
        bites(files_fit_every_machine, "a.md", &format!("{path}/x"), "x");
    }
    for host in registry_hosts() {
        bites(files_fit_every_machine, "a.toml", &format!("url = \"https://{host}\""), "crates.io");
    }
}

/// The text of a file; empty if there is no such file.
fn text_of<'a>(files: &'a [File], path: &str) -> &'a str {
    files.iter().find(|f| f.path == path).map_or("", |f| f.text.as_str())
}

/// Paths of the workspace's members, in the order of its manifest.
fn members(manifest: &str) -> Vec<String> {
    let list = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let list = list.map_or("", |(list, _)| list);
    list.split(',')
        .map(|member| member.trim().trim_matches('"').to_owned())
        .filter(|member| !member.is_empty())
        .collect()
}

fn crates_use_only_those_above(files: &[File]) -> Vec<String> {
    let members = members(text_of(files, "Cargo.toml"));
    if members.is_empty() {
        return vec!["Cargo.toml: no members".to_owned()];
    }
    let mut complaints = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let manifest = text_of(files, &format!("{member}/Cargo.toml"));
        for below in &members[index..] {
            let name = below.rsplit('/').next().unwrap_or(below);
            let uses = manifest.lines().any(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
            });
            if uses {
                complaints.push(format!("{member}/Cargo.toml: {name} does not stand above it"));
            }
        }
    }
    complaints
}

#[test]
fn crates_stand_in_dependency_order() {
    check(crates_use_only_those_above);
    let workspace =
        File::new("Cargo.toml", "members = [\n    \"crates/a\",\n    \"crates/b\",\n]\n");
    let with = |path: &str, line: &str| {
        crates_use_only_those_above(&[workspace.clone(), File::new(path, line)])
    };
    assert_eq!(with("crates/a/Cargo.toml", "b.workspace = true").len(), 1);
    assert_eq!(with("crates/a/Cargo.toml", "b = { path = \"../b\" }").len(), 1);
    assert!(with("crates/b/Cargo.toml", "a.workspace = true").is_empty());
    assert!(with("crates/a/Cargo.toml", "bitflags = \"2\"").is_empty());
    assert_eq!(crates_use_only_those_above(&[]).len(), 1);
}

fn changelog_has_the_version(files: &[File]) -> Vec<String> {
    let version = text_of(files, "Cargo.toml")
        .lines()
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        .unwrap_or("without a version");
    let heads: Vec<&str> =
        text_of(files, "CHANGELOG.md").lines().filter(|line| line.starts_with("## ")).collect();
    let known = heads
        .iter()
        .any(|head| head.contains("Unreleased") || head.contains(&format!("[{version}]")));
    if known { Vec::new() } else { vec![format!("CHANGELOG.md: nothing about {version}")] }
}

#[test]
fn the_changelog_has_the_version() {
    check(changelog_has_the_version);
    let manifest = File::new("Cargo.toml", "[workspace.package]\nversion = \"0.3.0\"\n");
    let with =
        |log: &str| changelog_has_the_version(&[manifest.clone(), File::new("CHANGELOG.md", log)]);
    assert_eq!(with("## [0.2.0]\n0.3.0 is next\n").len(), 1);
    assert!(with("## [0.3.0] - 2027-01-01\n").is_empty());
    assert!(with("## [Unreleased]\n").is_empty());
}
