//! `doctor --watch`: one line whenever something changes.

mod changes;
mod machine;

use std::fmt::Display;
use std::io;

use self::changes::{Change, Snapshot, changes, weighty};
use self::machine::Machine;
use clockscope_text::foreign::printable;

/// What happened while the watch waited.
#[derive(Debug, Default)]
struct Woken {
    /// Somebody asked to end.
    is_over: bool,
    /// `CLOCK_REALTIME` was set.
    was_set: bool,
    /// New lines of the kernel's log, each with its stamp and its end.
    log: String,
    /// Lines of the log were overwritten before they were read.
    has_lost_lines: bool,
}

/// A machine that can be watched: this one, or a test's.
trait Watched {
    /// How it is now.
    fn snapshot(&mut self) -> Snapshot;
    /// Waits for something to happen, or for the time to look again.
    fn wait(&mut self) -> io::Result<Woken>;
    /// The time, RFC 3339, UTC.
    fn stamp(&self) -> String;
    /// What is not watched, and why: one clause each.
    fn unwatched(&self) -> Vec<String>;
}

/// Watches this machine until it is interrupted; gives the lines to `out`.
///
/// The clocksource is looked at once a second, because the kernel gives no notice of it.
///
/// # Errors
///
/// Those of `out`, or when the signals that end the watch cannot be caught.
pub fn run(out: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    watch(&mut Machine::new()?, out)
}

/// Prints the first state and then each change, until the machine says that it is over.
fn watch(machine: &mut dyn Watched, out: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let mut say = |stamp: &str, what: &dyn Display| {
        out(&format!("{stamp} {}\n", printable(&what.to_string())))
    };
    let mut before = machine.snapshot();
    let stamp = machine.stamp();
    say(&stamp, &format_args!("watching: {before}"))?;
    for clause in machine.unwatched() {
        say(&stamp, &format_args!("not watched: {clause}"))?;
    }
    loop {
        let woken = machine.wait()?;
        let after = machine.snapshot();
        let mut found: Vec<Change> = weighty(&woken.log).into_iter().map(Change::Log).collect();
        found.extend(woken.has_lost_lines.then_some(Change::LostLines));
        found.extend(changes(&before, &after, woken.was_set));
        if !found.is_empty() {
            let stamp = machine.stamp();
            for change in found {
                say(&stamp, &change)?;
            }
        }
        if woken.is_over {
            return Ok(());
        }
        before = after;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::Write as _;

    use super::*;

    /// A machine to which these things happen, one after the other.
    struct Played {
        now: Snapshot,
        happens: VecDeque<(Woken, Snapshot)>,
    }

    impl Watched for Played {
        fn snapshot(&mut self) -> Snapshot {
            self.now.clone()
        }

        fn wait(&mut self) -> io::Result<Woken> {
            let Some((woken, now)) = self.happens.pop_front() else {
                return Ok(Woken { is_over: true, ..Woken::default() });
            };
            self.now = now;
            Ok(woken)
        }

        fn stamp(&self) -> String {
            "2026-11-21T12:17:31Z".to_owned()
        }

        fn unwatched(&self) -> Vec<String> {
            vec!["the kernel's log: not permitted; try as root".to_owned()]
        }
    }

    fn good() -> Snapshot {
        Snapshot {
            current: Some("tsc".to_owned()),
            available: vec!["tsc".to_owned(), "hpet".to_owned()],
            is_synchronised: Some(true),
            realtime_ns: 1_000_000_000_000,
            suspended_ns: 0,
        }
    }

    fn played(happens: Vec<(Woken, Snapshot)>) -> String {
        let mut out = String::new();
        let mut machine = Played { now: good(), happens: happens.into() };
        let mut write = |line: &str| {
            out.push_str(line);
            Ok(())
        };
        watch(&mut machine, &mut write).unwrap();
        out
    }

    #[test]
    fn nothing_is_printed_while_nothing_changes() {
        let quiet = (0..5).map(|_| (Woken::default(), good())).collect();
        insta::assert_snapshot!(played(quiet), @"
        2026-11-21T12:17:31Z watching: the clocksource is tsc (available: tsc hpet), the clock is synchronised
        2026-11-21T12:17:31Z not watched: the kernel's log: not permitted; try as root
        ");
    }

    #[test]
    fn each_change_is_one_line() {
        let slow = Snapshot {
            current: Some("hpet".to_owned()),
            available: vec!["hpet".to_owned()],
            ..good()
        };
        let set = Snapshot { realtime_ns: slow.realtime_ns + 12_345_000_000, ..slow.clone() };
        let awake = Snapshot { suspended_ns: 60_000_000_000, ..set.clone() };
        let alone = Snapshot { is_synchronised: Some(false), ..awake.clone() };
        let was_set = || Woken { was_set: true, ..Woken::default() };
        let lost = Woken { has_lost_lines: true, ..Woken::default() };
        let happens = vec![
            (Woken::default(), slow.clone()),
            (Woken::default(), slow),
            (was_set(), set),
            (was_set(), awake),
            (lost, alone),
        ];
        insta::assert_snapshot!(played(happens), @"
        2026-11-21T12:17:31Z watching: the clocksource is tsc (available: tsc hpet), the clock is synchronised
        2026-11-21T12:17:31Z not watched: the kernel's log: not permitted; try as root
        2026-11-21T12:17:31Z the clocksource is hpet now, it was tsc; `clockscope doctor` says why
        2026-11-21T12:17:31Z available clocksources: tsc is gone; there are hpet
        2026-11-21T12:17:31Z CLOCK_REALTIME was set, by +12.345000 s
        2026-11-21T12:17:31Z the machine slept for 60.0 s
        2026-11-21T12:17:31Z kernel: lines were overwritten before they were read
        2026-11-21T12:17:31Z the clock is no longer synchronised
        ");
    }

    #[test]
    fn a_reader_that_leaves_ends_the_watch() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let mut machine = Played { now: good(), happens: VecDeque::new() };
        let mut write = |line: &str| writer.write_all(line.as_bytes());
        let error = watch(&mut machine, &mut write).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
