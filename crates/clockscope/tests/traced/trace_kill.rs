//! A program goes on as if nothing had happened when clockscope is killed by SIGKILL, at any moment of its launch and
//! run.

use std::process::Output;
use std::time::Instant;

use crate::support::builds::{self, Link};
use crate::support::moments::{Outcome, RunTime, by_workers, random};
use crate::support::running::{Tracing, clockscope, text, trace, untraced};

const KILLS: u64 = 200;

/// The outcome for the processes that a killed clockscope left behind.
fn judge(via: &str, killed: &Output, expected: &Output, micros: u64) -> Outcome {
    let stderr = String::from_utf8_lossy(&killed.stderr);
    let context = format!("{via}, killed after {micros} us: {stderr}");
    assert!(!stderr.contains("left signal"), "a process died by a signal; {context}");
    let survived = stderr.contains("left status 7");
    if killed.stdout.is_empty() && !survived && stderr.contains("tool signal 9") {
        return Outcome::BeforeStart;
    }
    assert_eq!(text(killed), text(expected), "output; {context}");
    if survived { Outcome::Survived } else { Outcome::TooLate }
}

fn survives_a_killed_tracer(via: &str) {
    let options = ["--via", via];
    let Some(program) = builds::c("steady", Link::Dynamic) else { return };
    let Some(killer) = builds::c("killer", Link::Dynamic) else { return };
    let expected = untraced(&words![program]);
    assert_eq!(expected.status.code(), Some(7));
    let start = Instant::now();
    assert_eq!(trace(&options, &words![program]).code(), 7, "{via}");
    let whole = u64::try_from(start.elapsed().as_micros()).expect("is short");
    let time = RunTime::about(whole);
    let kill_at = |micros: u64| {
        let starter = words![killer, micros.to_string(), clockscope()];
        let tracing = Tracing::below(&starter, &options, &words![program]);
        judge(via, &untraced(&tracing.words()), &expected, micros)
    };
    let outcomes = by_workers(4, KILLS, |kill| {
        // Half of the kills fall into the first eighth of the run, in which the program is launched.
        if !(kill / 4).is_multiple_of(2) {
            return kill_at(random(kill) % (time.micros() / 8));
        }
        let outcome = kill_at(random(kill) % time.micros());
        time.learn(outcome);
        outcome
    });
    let survived = outcomes.iter().filter(|outcome| **outcome == Outcome::Survived).count();
    assert!(
        survived >= outcomes.len() / 10,
        "{via}: too few kills hit a running program: {outcomes:?}"
    );
}

#[test]
fn while_counting_in_each_way() {
    for via in ["sites", "none", "ptrace"] {
        survives_a_killed_tracer(via);
    }
}
