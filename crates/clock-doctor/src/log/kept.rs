//! Keeps the first and the last events of each kind, to limit memory use.

use std::collections::{HashMap, VecDeque};
use std::mem::{Discriminant, discriminant};

use super::event::{Event, EventKind};

/// Number of first events and number of last events kept of each kind. Lines printed once for each of 512 CPUs all fit.
const EACH_END: usize = 256;
/// The same number for episodes of the watchdog.
const EPISODES_EACH_END: usize = 128;

/// An event and its unit. A unit is kept or left out as a whole: one event, or the lines that the watchdog prints
/// together. Unit numbers increase in the order of the file.
#[derive(Debug)]
struct Entry {
    unit: u64,
    order: u64,
    event: Event,
}

/// First and last units.
#[derive(Debug, Default)]
struct Ends {
    first: Vec<Entry>,
    last: VecDeque<Entry>,
    /// Number of units in each end.
    held: [usize; 2],
    /// The newest unit.
    unit: u64,
}

impl Ends {
    /// Adds an event to the newest unit, or to a new one. Returns the events that are dropped for it.
    fn push(&mut self, order: u64, event: Event, continues: bool, each_end: usize) -> Vec<Entry> {
        if !continues {
            self.unit = order;
            let end = usize::from(self.held[0] == each_end);
            self.held[end] += 1;
        }
        let entry = Entry { unit: self.unit, order, event };
        if self.held[1] == 0 {
            self.first.push(entry);
            return Vec::new();
        }
        self.last.push_back(entry);
        if self.held[1] <= each_end {
            return Vec::new();
        }
        self.held[1] -= 1;
        let oldest = self.last[0].unit;
        let end = self.last.iter().take_while(|entry| entry.unit == oldest).count();
        self.last.drain(..end).collect()
    }

    /// The events of the newest unit, the newest first.
    fn newest(&self) -> impl Iterator<Item = &Event> {
        let all = self.last.iter().rev().chain(self.first.iter().rev());
        all.take_while(|entry| entry.unit == self.unit).map(|entry| &entry.event)
    }
}

/// Events of a boot.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    kinds: HashMap<Discriminant<EventKind>, Ends>,
    episodes: Ends,
    count: u64,
    left_out: LeftOut,
}

/// Numbers of events left out, by their kinds.
pub(crate) type LeftOut = HashMap<Discriminant<EventKind>, u64>;

impl Kept {
    /// Keeps `event`, and may drop another one.
    pub(crate) fn push(&mut self, event: Event) {
        self.count += 1;
        let dropped = if is_of_episode(&event.kind) {
            let continues = continues(&self.episodes, &event);
            self.episodes.push(self.count, event, continues, EPISODES_EACH_END)
        } else {
            let ends = self.kinds.entry(discriminant(&event.kind)).or_default();
            ends.push(self.count, event, false, EACH_END)
        };
        let kinds = dropped.into_iter().map(|entry| entry.event.kind);
        for kind in kinds.filter(|kind| !says_the_same_again(kind)) {
            *self.left_out.entry(discriminant(&kind)).or_default() += 1;
        }
    }

    /// The events in their original order, and the numbers of events left out.
    pub(crate) fn into_events(self) -> (Vec<Event>, LeftOut) {
        let ends = self.kinds.into_values().chain([self.episodes]);
        let mut entries: Vec<Entry> =
            ends.flat_map(|ends| ends.first.into_iter().chain(ends.last)).collect();
        entries.sort_unstable_by_key(|entry| entry.order);
        (entries.into_iter().map(|entry| entry.event).collect(), self.left_out)
    }

    /// Whether all events so far fulfil `is_one`.
    pub(crate) fn has_only(&self, is_one: impl Fn(&EventKind) -> bool) -> bool {
        let mut ends = self.kinds.values().chain([&self.episodes]);
        ends.all(|ends| ends.first.iter().chain(&ends.last).all(|e| is_one(&e.event.kind)))
    }
}

/// Whether a repeated line of this kind contains no new information.
fn says_the_same_again(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::KvmClock
            | EventKind::ArmBoot
            | EventKind::ArmTrapping
            | EventKind::SyncCheck(_)
            | EventKind::OfPlatform(_)
            | EventKind::SyncSkipped
            | EventKind::CalibrationNote
    )
}

/// Whether the watchdog prints this line together with others.
fn is_of_episode(kind: &EventKind) -> bool {
    match kind {
        EventKind::OldDelta { .. } | EventKind::ReadDelay { .. } => false,
        EventKind::Marked { .. } | EventKind::Current { .. } => true,
        kind => kind.has_figures(),
    }
}

/// Whether `event` continues the newest episode or begins another.
fn continues(episodes: &Ends, event: &Event) -> bool {
    if episodes.unit == 0 || matches!(event.kind, EventKind::Marked { .. }) {
        return false;
    }
    let slot = |kind: &EventKind| match kind {
        EventKind::Reading(role, _) | EventKind::Interval(role, ..) => {
            (discriminant(kind), Some(*role))
        }
        _ => (discriminant(kind), None),
    };
    // An episode contains each kind of line once, so that its size is bounded.
    let slot_of_event = slot(&event.kind);
    episodes.newest().all(|before| slot(&before.kind) != slot_of_event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Evidence;
    use crate::log::event::{Count, Mark, Role};

    fn event(line: u64, kind: EventKind) -> Event {
        Event { evidence: Evidence { line: Some(line), ..Evidence::default() }, at: None, kind }
    }

    fn mark() -> EventKind {
        EventKind::Marked { name: "tsc".into(), why: Mark::Skew }
    }

    fn reading(role: Role) -> EventKind {
        EventKind::Reading(role, Count { name: "tsc".into(), nsec: None, now: 2, last: 1, mask: 3 })
    }

    #[test]
    fn the_first_and_the_last_of_a_kind_stay() {
        let mut kept = Kept::default();
        let all = 3 * EACH_END as u64;
        for line in 0..all {
            kept.push(event(line, EventKind::Warp(line)));
        }
        kept.push(event(all, EventKind::WarpRandom));
        let (events, left_out) = kept.into_events();
        let left_out: u64 = left_out.values().sum();
        assert_eq!((events.len(), left_out), (2 * EACH_END + 1, EACH_END as u64));
        let lines: Vec<u64> = events.iter().filter_map(|event| event.evidence.line).collect();
        let middle = EACH_END as u64;
        assert_eq!(lines, (0..middle).chain(2 * middle..=all).collect::<Vec<u64>>());
    }

    #[test]
    fn copies_of_what_says_nothing_are_not_missed() {
        let mut kept = Kept::default();
        (0..10_000).for_each(|line| kept.push(event(line, EventKind::KvmClock)));
        assert!(kept.into_events().1.is_empty());
    }

    #[test]
    fn episodes_stay_whole() {
        let mut kept = Kept::default();
        let lines = [mark(), reading(Role::Reference), reading(Role::Watched)];
        for (line, kind) in (0..3000).zip(lines.iter().cycle()) {
            kept.push(event(line, kind.clone()));
        }
        // A second pair of readings without its mark is another episode.
        kept.push(event(3000, reading(Role::Reference)));
        let (events, left_out) = kept.into_events();
        let last = &events[events.len() - 4..];
        assert_eq!(
            last.iter().map(|e| e.evidence.line).collect::<Vec<_>>(),
            [2997, 2998, 2999, 3000].map(Some)
        );
        assert_eq!(events.len() as u64 + left_out.values().sum::<u64>(), 3001);
        let marks = events.iter().filter(|event| event.kind == mark()).count();
        assert_eq!(events.len(), 3 * marks + 1);
    }
}
