//! Keeps the first and the last events of each kind, to limit memory use.

use std::collections::{HashMap, VecDeque};
use std::mem::{Discriminant, discriminant};

use super::event::{Event, EventKind};

/// Number of first events and number of last events kept of each kind. Lines printed once for each of 512 CPUs all fit.
const EACH_END: usize = 256;
/// The same number for all lines of the watchdog's decisions together: at most nine lines a decision.
const OF_DECISIONS: usize = 1024;

/// First and last events, with their numbers in the order of the file.
#[derive(Debug, Default)]
struct Ends {
    first: Vec<(u64, Event)>,
    last: VecDeque<(u64, Event)>,
}

/// Events of a boot.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// By kind; `None` for the lines that the watchdog prints together.
    kinds: HashMap<Option<Discriminant<EventKind>>, Ends>,
    count: u64,
    left_out: LeftOut,
}

/// Numbers of events left out, by their kinds.
pub(crate) type LeftOut = HashMap<Discriminant<EventKind>, u64>;

impl Kept {
    /// Keeps `event`, and may drop another one.
    pub(crate) fn push(&mut self, event: Event) {
        self.count += 1;
        let kind = (!is_of_decision(&event.kind)).then(|| discriminant(&event.kind));
        let most = if kind.is_some() { EACH_END } else { OF_DECISIONS };
        let ends = self.kinds.entry(kind).or_default();
        if ends.first.len() < most {
            return ends.first.push((self.count, event));
        }
        ends.last.push_back((self.count, event));
        if ends.last.len() > most {
            let dropped = ends.last.pop_front();
            leave_out(&mut self.left_out, dropped);
        }
    }

    /// The events in their original order, and the numbers of events left out.
    pub(crate) fn into_events(mut self) -> (Vec<Event>, LeftOut) {
        let is_mark = |(_, event): &(u64, Event)| matches!(event.kind, EventKind::Marked { .. });
        let decisions = self.kinds.get_mut(&None);
        if let Some(ends) = decisions.filter(|ends| ends.last.len() == OF_DECISIONS) {
            // A decision next to the gap may lack lines, so it is left out as a whole.
            let begun = ends.first.iter().rposition(is_mark).unwrap_or(OF_DECISIONS);
            let next = ends.last.iter().position(is_mark).unwrap_or_default();
            let cut = ends.first.drain(begun..).chain(ends.last.drain(..next));
            leave_out(&mut self.left_out, cut);
        }
        let ends = self.kinds.into_values();
        let mut events: Vec<_> =
            ends.flat_map(|one| one.first.into_iter().chain(one.last)).collect();
        events.sort_unstable_by_key(|(number, _)| *number);
        (events.into_iter().map(|(_, event)| event).collect(), self.left_out)
    }

    /// Whether all events so far fulfil `is_one`.
    pub(crate) fn has_only(&self, is_one: impl Fn(&EventKind) -> bool) -> bool {
        let mut events = self.kinds.values().flat_map(|ends| ends.first.iter().chain(&ends.last));
        events.all(|(_, event)| is_one(&event.kind))
    }
}

/// Counts dropped events, but those whose repetition contains no new information.
fn leave_out(left_out: &mut LeftOut, dropped: impl IntoIterator<Item = (u64, Event)>) {
    use EventKind::*;
    for (_, Event { kind, .. }) in dropped {
        match kind {
            KvmClock | ArmBoot | ArmTrapping | SyncCheck(_) => {}
            OfPlatform(_) | SyncSkipped | CalibrationNote => {}
            kind => *left_out.entry(discriminant(&kind)).or_default() += 1,
        }
    }
}

/// Whether the watchdog prints this line together with others.
fn is_of_decision(kind: &EventKind) -> bool {
    match kind {
        EventKind::OldDelta { .. } | EventKind::ReadDelay { .. } => false,
        EventKind::Marked { .. } | EventKind::Current { .. } => true,
        kind => kind.has_figures(),
    }
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
        // A second reading without its mark belongs to another decision.
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
