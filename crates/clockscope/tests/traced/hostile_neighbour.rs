//! A process of the same user that may not look into a program (the program is not dumpable) gains nothing from
//! clockscope's shared memory: the process overwrites everything in its reach, and the program still runs correctly.
//!
//! The tests use user ids of their own, so other tests are not affected.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::attaching::{Image, wait_until};
use crate::support::builds::{self, Link};
use crate::support::clocksource::counter_is_a_clock;
use crate::support::conversation::Conversation;
use crate::support::placed::{self, for_everybody};
use crate::support::running::{clockscope, untraced};
use crate::support::{root_or_skip, skip};

const ROUNDS: &str = "600";
const RIGHT: &str = "result wrong times 0
result wrong order 0
result wrong children 0
result words written to its memory 0
";

/// Programs in a folder that an ordinary user can enter, and the id of that user.
struct Place {
    directory: TempDir,
    user: u32,
}

impl Place {
    /// Prepares the folder for a user id that no other test uses.
    fn new(user: u32) -> Option<Self> {
        root_or_skip()?;
        let hostile = builds::c("hostile", Link::Static)?;
        let files = [(&*hostile, "hostile", 0o755), (&clockscope(), "clockscope", 0o755)];
        let directory = for_everybody(&files);
        Some(Self { directory, user })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn as_user(&self) -> Vec<OsString> {
        let (user, group) = (format!("--reuid={}", self.user), format!("--regid={}", self.user));
        words!["setpriv", user, group, "--clear-groups"]
    }

    fn victim(&self) -> Vec<OsString> {
        words![self.file("hostile"), "victim"]
    }

    /// `clockscope SUBCOMMAND... --format json -o FILE`.
    fn clockscope(&self, words: &[&str]) -> Vec<OsString> {
        let report = self.file("report.json");
        words![self.file("clockscope"), words, "--format", "json", "-o", report]
    }

    /// Makes the victim undumpable, attacks it, and checks that it had right answers all the time. Gives the attacker's
    /// report on its reach.
    #[track_caller]
    fn attack(&self, victim: &mut Conversation, canary: &str) -> String {
        let canary = canary.strip_prefix("canary ").expect("it says where its canary is");
        victim.say("hide");
        assert_eq!(victim.line(), "hidden");
        let attack = words![self.file("hostile"), "attack", canary, ROUNDS];
        let attacked = untraced(&words![self.as_user(), attack]);
        assert_eq!(attacked.status.code(), Some(0), "{attacked:?}");
        assert_eq!(victim.ask("end"), RIGHT);
        String::from_utf8_lossy(&attacked.stdout).into_owned()
    }

    #[track_caller]
    fn assert_reported(&self) {
        let report = fs::read_to_string(self.file("report.json")).expect("a report");
        fs::remove_file(self.file("report.json")).expect("remove it");
        assert!(serde_json::from_str::<Value>(&report).is_ok(), "{report}");
    }
}

fn reached(segments: &str, files: &str) -> String {
    format!(
        "result segments written {segments}\nresult memory files found {files}\n\
         result memory files written 0\n"
    )
}

#[track_caller]
fn launched(place: &Place, command: &[OsString]) -> String {
    let mut victim = Conversation::start_silent(command);
    let canary = victim.line();
    let attacked = place.attack(&mut victim, &canary);
    assert_eq!(victim.status().code(), Some(0), "clockscope ends as its program");
    attacked
}

#[test]
fn a_program_that_a_user_or_root_traces() {
    let Some(place) = Place::new(61_301) else { return };
    let trace = words![place.clockscope(&["trace", "--via", "none"]), "--"];
    for starter in [words![place.as_user(), trace], words![trace, place.as_user()]] {
        let command = words![starter, place.victim()];
        assert_eq!(launched(&place, &command), reached("some", "none"));
        place.assert_reported();
    }
}

#[test]
fn a_program_without_counting_shares_nothing() {
    let Some(place) = Place::new(61_303) else { return };
    for clock in ["kernel", "syscall", "coarse"] {
        let run = words![place.file("clockscope"), "run", "--clock", clock, "--"];
        let attacked = launched(&place, &words![place.as_user(), run, place.victim()]);
        assert_eq!(attacked, reached("none", "none"), "{clock}");
    }
}

#[test]
fn a_program_with_the_clock_by_the_counter_that_a_user_runs() {
    let Some(place) = Place::new(61_304).filter(|_| counter_is_a_clock()) else { return };
    let run = place.clockscope(&["run", "--clock", "tsc", "--stats"]);
    let command = words![place.as_user(), run, "--", place.victim()];
    assert_eq!(launched(&place, &command), reached("some", "some"));
    place.assert_reported();
}

#[test]
fn a_program_with_the_clock_by_the_counter_that_root_runs() {
    let Some(place) = Place::new(61_305).filter(|_| counter_is_a_clock()) else { return };
    let run = words![place.file("clockscope"), "run", "--clock", "tsc", "--"];
    let command = words![run, place.as_user(), place.victim()];
    assert_eq!(launched(&place, &command), reached("none", "none"));
}

#[test]
fn a_program_that_a_user_or_root_attaches_to() {
    let Some(place) = Place::new(61_306) else { return };
    for starter in [place.as_user(), Vec::new()] {
        let mut victim = Conversation::start_silent(&words![place.as_user(), place.victim()]);
        let (pid, canary) = (victim.pid(), victim.line());
        let before = Image::of(pid).expect("it has a vDSO");
        let trace = place.clockscope(&["trace", "--via", "none", "-p", &pid.to_string()]);
        let mut tracer = Conversation::start_silent(&words![starter, trace]);
        wait_until("clockscope has attached", || {
            tracer.is_running() && Image::of(pid).is_some_and(|now| now.entry() != before.entry())
        });
        assert_eq!(place.attack(&mut victim, &canary), reached("some", "none"));
        assert_eq!(victim.status().code(), Some(0));
        assert_eq!(tracer.status().code(), Some(0));
        place.assert_reported();
    }
}

/// If the program cannot open the page's file, or has another `/proc`, it keeps the kernel's clock.
#[test]
fn a_page_that_cannot_be_reached_is_not_believed() {
    let Some(place) = Place::new(61_308).filter(|_| counter_is_a_clock()) else { return };
    let run = words![place.file("clockscope"), "run", "--clock", "tsc", "--"];
    let limits: [&[&str]; 2] = [
        &["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc"],
        &["prlimit", "--nofile=3"],
    ];
    for limit in limits {
        // Try the limit with a static program, because dynamic ones open their libraries.
        let nothing = words![place.file("hostile"), "attack", "0", "0"];
        if !untraced(&words![place.as_user(), limit, nothing]).status.success() {
            skip(format_args!("{limit:?} is not allowed"));
            continue;
        }
        let command = words![place.as_user(), run, limit, place.victim()];
        assert_eq!(launched(&place, &command), reached("none", "some"));
    }
}

/// The System V segments of a user: lines of `/proc/sysvipc/shm`.
fn segments_of(user: u32) -> Vec<String> {
    let text = fs::read_to_string("/proc/sysvipc/shm").expect("read the segments");
    let owned = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(7).is_some_and(|uid| *uid == user.to_string())
    };
    text.lines().filter(owned).map(str::to_owned).collect()
}

#[test]
fn no_segment_stays_whenever_clockscope_is_killed() {
    let Some(place) = Place::new(61_309) else { return };
    let killer = place.file("killer");
    let Some(program) = builds::c("killer", Link::Static) else { return };
    placed::program(&program, &killer, 0o755);
    let mut early = 0;
    for kill in 0..200_u64 {
        let micros = crate::support::moments::random(kill) % 12_000;
        let trace = words![place.file("clockscope"), "trace", "--via", "none", "--"];
        // Ten programs are executed, and clockscope makes a segment for each.
        let traced = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done"];
        let killed = words![killer, micros.to_string()];
        let output = untraced(&words![place.as_user(), killed, trace, traced]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        early += u32::from(said.contains("tool signal 9"));
        assert_eq!(segments_of(place.user), [""; 0], "killed after {micros} us: {said}");
    }
    assert!(early > 20, "{early} kills of 200 came in time");
}
