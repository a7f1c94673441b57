//! `libfastclock-preload.so` instead of the C library's clock.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::prefix::{installed, source};

const LIBRARY: &str = "lib/libfastclock-preload.so";

fn run(mut command: Command, preload: &str) -> Output {
    command.env("LD_PRELOAD", preload);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// The output of a program with the library; fails if the program reports an error.
fn preloaded(program: &str, arguments: &[&str]) -> String {
    let prefix = installed();
    let library = prefix.path(LIBRARY);
    let mut command = Command::new(program);
    command.args(arguments);
    let output = run(command, library.to_str().expect("UTF-8"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.is_empty(), "{program}: {said}");
    String::from_utf8(output.stdout).expect("prints UTF-8")
}

fn compile(folder: &Path, name: &str, options: &[&str]) -> String {
    let made = folder.join(name);
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=gnu11", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror"]).args(options);
    compiler.arg("-o").arg(&made).arg(source(&format!("tests/programs/preloaded/{name}.c")));
    run(compiler, "");
    made.to_str().expect("UTF-8").to_owned()
}

#[test]
fn every_argument_has_the_answer_of_the_c_library() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let program = compile(folder.path(), "answers", &["-Wno-nonnull"]);
    let prefix = installed();
    let library = prefix.path(LIBRARY);
    let [plain, ours] =
        ["", library.to_str().expect("UTF-8")].map(|preload| run(Command::new(&program), preload));
    let [plain_said, said] =
        [&plain.stderr, &ours.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(plain_said, "libc\n");
    // Where the counter cannot be trusted, both programs can only give the kernel's answers.
    assert!(said == "fastclock\n" || !is_fast_here(), "{said}");
    assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&plain.stdout));
}

/// Whether a clock of this process answers by itself.
fn is_fast_here() -> bool {
    fastclock::Clock::new().calibrate(Duration::from_secs(2)).is_fast()
}

#[test]
fn constructors_of_other_libraries_read_the_clock() {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let early = compile(folder.path(), "early", &["-shared", "-fPIC"]);
    let prefix = installed();
    let library = prefix.path(LIBRARY);
    let library = library.display();
    for order in [format!("{early}:{library}"), format!("{library}:{early}")] {
        let mut command = Command::new("date");
        command.arg("+%s");
        run(command, &order);
    }
}

#[test]
fn scripts_read_the_clock_between_two_system_calls() {
    for (program, script, said) in
        [("python3", "sandwich.py", "python: 10 ways\n"), ("perl", "sandwich.pl", "perl: 4 ways\n")]
    {
        assert_eq!(preloaded(program, &[&script_of(script)]), said);
    }
}

/// Path of a program in a language that its interpreter reads.
fn script_of(name: &str) -> String {
    source("tests/programs/preloaded").join(name).to_str().expect("UTF-8").to_owned()
}

/// Checks that a program prints a millisecond of CLOCK_REALTIME between two of this process's.
fn wall_clock_of(program: &str, arguments: &[&str]) {
    let millis = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        i64::try_from(now.as_millis()).expect("is small")
    };
    let before = millis();
    let output = preloaded(program, arguments);
    let after = millis();
    let said: Vec<i64> = output.split_whitespace().map(|word| word.parse().expect(word)).collect();
    assert!(!said.is_empty(), "{program} says nothing");
    for time in &said {
        assert!((before - 2..=after + 2).contains(time), "{program}: {before} {said:?} {after}");
    }
    assert!(said.is_sorted(), "{program}: {said:?}");
}

#[test]
fn other_languages_read_the_clock() {
    let select = "select cast((julianday('now') - 2440587.5) * 86400000 as integer);";
    wall_clock_of("sqlite3", &[":memory:", select]);
    wall_clock_of("node", &[&script_of("read.js")]);
    wall_clock_of("java", &[&script_of("Read.java")]);
}

#[test]
fn a_script_of_many_short_programs_runs_as_without() {
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do date +%s | grep -c .; done";
    assert_eq!(preloaded("sh", &["-c", script]), "1\n".repeat(10));
}
