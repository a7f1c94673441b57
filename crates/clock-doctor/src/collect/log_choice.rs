//! Chooses the log that tells most about the last boot, and adds lines from other logs.
//!
//! - The running kernel's own log comes first, if it is given: files may be of other boots.
//! - Among files, a log of another kernel than `/proc` names comes last. A log that begins at the boot comes before one
//!   that does not. Then count more marks, warps and the like; then more lines about clocks; then the order of
//!   [`crate::root::paths::LOGS`].
//! - Other logs add lines that are missing in the chosen one if they are of the same boot. Proofs of that are shared
//!   lines with the same stamp (to the microsecond), or a log that begins within a boot and continues after the end of
//!   the chosen one: a log of several boots would show the next boot's beginning.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::Read;

use super::Files;
use crate::facts::{Kernel, Known, Log, Unread};
use crate::log::event::{Event, EventKind};
use crate::log::reader;

/// Lines with the same stamp that prove two logs to be of the same boot.
const SHARED: usize = 2;

/// Reads the logs and chooses.
pub(super) fn choose(
    files: &mut Files,
    kernel: Option<&Known<Kernel>>,
    kernel_log: Option<(Box<dyn Read + '_>, &str)>,
) -> Option<Log> {
    let own = kernel_log.and_then(|(mut bytes, name)| {
        let log = reader::read(&mut bytes, name).map_err(|error| Unread::of(name, &error));
        files.noted(name, log.map(Some))
    });
    match own {
        // This log contains the whole boot.
        Some(log) if log.begins_at_boot => Some(log),
        Some(log) => Some(add_all(log, from_files(files, true), by_shared_lines)),
        None => {
            let mut logs = from_files(files, false);
            let best = best(&logs, kernel.map(|known| known.value.release.as_str()))?;
            let chosen = logs.remove(best);
            Some(add_all(chosen, logs, |one, other| {
                by_shared_lines(one, other) || goes_on(one, other)
            }))
        }
    }
}

/// The logs that contain events. Beside the kernel's own log (`has_own`), older ones are of no interest.
fn from_files(files: &mut Files, has_own: bool) -> Vec<Log> {
    let mut logs = Vec::new();
    for below in files.root.logs() {
        if let Some(why) = files.root.leaves_out(&below) {
            files.unread.extend((!has_own).then(|| Unread::new(&below, why)));
            continue;
        }
        let log = files.root.log(&below);
        let log = files.noted(&below, log);
        if let Some(skipped) = log.as_ref().map(|log| log.skipped_bytes).filter(|bytes| *bytes > 0)
        {
            let why = format!("{skipped} bytes of its oldest lines, because it is too long");
            files.unread.push(Unread::new(&below, why));
        }
        logs.extend(log.filter(|log| log.begins_at_boot || !log.events.is_empty()));
    }
    logs
}

fn best(logs: &[Log], release: Option<&str>) -> Option<usize> {
    let rank = |(at, log): &(usize, &Log)| {
        let is_of_other =
            release.is_some_and(|release| log.release().is_some_and(|own| own != release));
        let heavy = log.events.iter().filter(|event| is_heavy(&event.kind)).count();
        (!is_of_other, log.begins_at_boot, heavy, log.events.len(), Reverse(*at))
    };
    logs.iter().enumerate().max_by_key(rank).map(|(at, _)| at)
}

/// Whether a line reports an event rather than hardware.
fn is_heavy(kind: &EventKind) -> bool {
    use EventKind::*;
    match kind {
        Warp(_) | WarpRandom | AdjustCompensated(_) | AdjustDiffers(_) | HotAdded => true,
        Unstable { .. } | Marked { .. } | CpusApart { .. } | BrokenBiosAdvice => true,
        Switched(_) | Override { .. } | RateDiffers | Recalibrated(_) => true,
        Suspended(_) | Restored => true,
        kind => kind.has_figures(),
    }
}

fn add_all(mut chosen: Log, others: Vec<Log>, is_same: impl Fn(&Log, &Log) -> bool) -> Log {
    for other in others {
        if is_same(&chosen, &other) {
            add(&mut chosen, other);
        }
    }
    chosen
}

/// The line's stamp and text, without its place. Lines without a stamp cannot be distinguished from repetitions.
fn stamped(event: &Event) -> Option<(u64, &str)> {
    let at = event.at.filter(|at| *at > 0.0)?;
    Some((at.to_bits(), &event.evidence.text))
}

fn by_shared_lines(one: &Log, other: &Log) -> bool {
    let known: HashSet<_> = one.events.iter().filter_map(stamped).collect();
    let shared = other.events.iter().filter_map(stamped).filter(|line| known.contains(line));
    shared.take(SHARED).count() == SHARED
}

/// Whether `other` begins within a boot, after the last line of `one`.
fn goes_on(one: &Log, other: &Log) -> bool {
    let stamps = |log: &Log| log.events.iter().map(|event| event.at).collect::<Option<Vec<f64>>>();
    let (Some(before), Some(after)) = (stamps(one), stamps(other)) else { return false };
    let last = before.into_iter().fold(0.0, f64::max);
    let is_same_kernel = other.release().is_none_or(|own| one.release() == Some(own));
    !other.begins_at_boot
        && is_same_kernel
        && !after.is_empty()
        && after.iter().all(|at| *at > last)
}

/// Adds the lines of `other` that are missing in the chosen log, by their stamps.
fn add(chosen: &mut Log, other: Log) {
    let known: HashSet<_> = chosen.events.iter().filter_map(stamped).collect();
    let is_new = |event: &Event| stamped(event).is_some_and(|line| !known.contains(&line));
    let new: Vec<Event> = other.events.into_iter().filter(is_new).collect();
    for event in new {
        let later = |one: &Event| one.at.zip(event.at).is_some_and(|(one, new)| one > new);
        let place = chosen.events.iter().rposition(|one| !later(one)).map_or(0, |last| last + 1);
        chosen.events.insert(place, event);
    }
    chosen.begins_at_boot |= other.begins_at_boot;
    chosen.leave_out(other.left_out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Evidence;
    use crate::log::event::Mark;

    fn event(at: Option<f64>, text: &str, kind: EventKind) -> Event {
        Event { evidence: Evidence::of("log", text), at, kind }
    }

    fn registered(at: f64, text: &str) -> Event {
        event(Some(at), text, EventKind::KvmClock)
    }

    fn mark(at: Option<f64>) -> Event {
        let kind = EventKind::Marked { name: "tsc".to_owned(), why: Mark::Skew };
        event(at, "Marking clocksource 'tsc' as unstable", kind)
    }

    fn log(file: &str, begins_at_boot: bool, events: Vec<Event>) -> Log {
        Log { file: file.to_owned(), begins_at_boot, events, ..Log::default() }
    }

    fn version(release: &str) -> Event {
        event(Some(0.0), "Linux version", EventKind::LinuxVersion(format!("{release} (gcc)")))
    }

    #[test]
    fn a_log_that_begins_at_the_boot_goes_before_then_the_one_with_marks() {
        let cut = log("cut", false, vec![mark(None)]);
        let boot = log("boot", true, vec![registered(0.1, "a")]);
        let fuller = log("fuller", true, vec![registered(0.1, "a"), mark(None)]);
        assert_eq!(best(&[cut.clone(), boot.clone(), fuller], None), Some(2));
        assert_eq!(best(&[cut, boot.clone()], None), Some(1));
        assert_eq!(best(&[boot.clone(), boot], None), Some(0));
    }

    #[test]
    fn a_log_of_another_kernel_comes_last() {
        let old = log("old", true, vec![version("4.9.0"), mark(None)]);
        let new = log("new", false, vec![registered(2.0, "a")]);
        assert_eq!(best(&[old.clone(), new.clone()], Some("5.10.0")), Some(1));
        assert_eq!(best(&[old.clone(), new], None), Some(0));
        assert_eq!(best(&[old], Some("5.10.0")), Some(0), "better than none");
    }

    #[test]
    fn the_same_boot_is_known_by_its_stamps() {
        let dmesg = log("dmesg", true, vec![registered(0.1, "a"), registered(0.2, "b")]);
        let lines = [(0.1, "a"), (0.15, "c"), (0.2, "b")].map(|(at, text)| registered(at, text));
        let kern = log("kern.log", true, [&lines[..], &[mark(Some(900.0))]].concat());
        assert!(by_shared_lines(&dmesg, &kern));
        let both = add_all(dmesg.clone(), vec![kern], by_shared_lines);
        let stamps: Vec<_> = both.events.iter().map(|event| event.at.unwrap()).collect();
        assert_eq!(stamps, [0.1, 0.15, 0.2, 900.0]);
        assert_eq!(both.file, "dmesg");
        // A single equal stamp may be chance; a text without its stamp is the same in each boot.
        let other =
            log("other", true, vec![registered(0.1, "a"), registered(0.3, "b"), mark(Some(9.0))]);
        assert_eq!(add_all(dmesg.clone(), vec![other], by_shared_lines), dmesg);
    }

    #[test]
    fn what_goes_on_within_a_boot_is_of_it() {
        let dmesg = log("dmesg", true, vec![version("5.10.0"), registered(0.2, "b")]);
        let rotated = log("kern.log", false, vec![mark(Some(900.0))]);
        assert!(goes_on(&dmesg, &rotated));
        let begins = log("kern.log", true, vec![mark(Some(900.0))]);
        let overlaps = log("kern.log", false, vec![registered(0.15, "x"), mark(Some(900.0))]);
        let unstamped = log("messages", false, vec![mark(None)]);
        for other in [begins, overlaps, unstamped] {
            assert!(!goes_on(&dmesg, &other), "{other:?}");
        }
    }
}
