//! The lines that belong to one decision of the watchdog.
//!
//! The kernel prints up to nine lines for one, on whichever CPU it runs; others come in between,
//! parts are missing or cut, and a fragment may begin in the middle. So a line is taken for the
//! decision that is open if it fits: if its place there is free and its stamp is near.

use crate::facts::{Evidence, Facts};
use crate::log::event::{Count, Event, EventKind, Mark, Role, UnstableReason};
use crate::rules::state::source::is_tsc;

/// Seconds between stamps of one decision's lines at most: a slow serial console needs some.
const NEAR_S: f64 = 5.0;

/// One decision of the watchdog on a clocksource. What is `None` was not seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Episode {
    /// Its lines, in the order of the log.
    pub lines: Vec<Evidence>,
    /// Lines with numbers.
    pub numbers: Vec<Evidence>,
    /// Stamp of its first line that has one, in seconds.
    pub at: Option<f64>,
    /// `Marking clocksource NAME as unstable`.
    pub marked: Option<(String, Mark)>,
    /// `Marking TSC unstable due to clocksource watchdog`.
    pub is_declared: bool,
    /// `Clocksource tsc unstable (delta = N ns)`.
    pub delta_ns: Option<i64>,
    /// The reference's counter.
    pub reference: Option<Count>,
    /// A second reference's, of debugging kernels.
    pub second: Option<Count>,
    /// The TSC.
    pub watched: Option<Count>,
    /// `skewed N ns over watchdog 'NAME' interval of N ns`: skew, reference, interval.
    pub skewed: Option<(i64, String, i64)>,
    /// `Watchdog NAME interval: Nns`.
    pub reference_interval: Option<(String, i64)>,
    /// `Clocksource tsc interval: Nns`, in nanoseconds.
    pub watched_interval: Option<i64>,
    /// `CPU1 N < CPU2 N (cycles)`.
    pub cycles: Option<(u64, u64)>,
    /// The reference was slow to read: nanoseconds, and whether the line says that it marks.
    pub delay: Option<(u64, bool)>,
    /// The clocksource that was watched, where a line says so: `tsc`, `tsc-early`, or one that is not the TSC's.
    pub name: Option<String>,
    /// The current clocksource, by the kernel's words.
    pub current: Option<(Option<String>, bool)>,
    /// The first other clocksource that was switched to afterwards, and the line.
    pub fallback: Option<(String, Evidence)>,
    /// The kernel advised `tsc=unstable`.
    pub has_bad_advice: bool,
}

impl Episode {
    /// It is about the TSC, which is never its own reference: with tsc=watchdog (6.3 and later) the kernel judges
    /// hpet and acpi_pm by the TSC.
    pub(crate) fn is_of_tsc(&self) -> bool {
        let count = self.reference.as_ref().map(|count| &count.name);
        let skewed = self.skewed.as_ref().map(|(_, name, _)| name);
        let interval = self.reference_interval.as_ref().map(|(name, _)| name);
        self.name.as_deref().is_none_or(is_tsc)
            && !count.into_iter().chain(skewed).chain(interval).any(|name| is_tsc(name))
    }

    /// The watchdog gave the clocksource up for how it counted.
    pub(crate) fn is_skew(&self) -> bool {
        self.has_comparison() || (self.is_declared && self.delay.is_none())
    }

    /// The watchdog gave the TSC up because the reference was slow to read: from 6.2 on the line names the TSC, before
    /// that the next one does.
    pub(crate) fn is_delay(&self) -> bool {
        let names_tsc = self.is_declared || self.name.is_some();
        let marks = self.delay.is_some_and(|(_, marks)| marks);
        names_tsc && marks || self.delay.is_some() && self.is_declared && !self.has_comparison()
    }

    fn has_comparison(&self) -> bool {
        self.marked.is_some()
            || self.delta_ns.is_some()
            || self.reference.is_some()
            || self.watched.is_some()
            || self.skewed.is_some()
            || self.reference_interval.is_some()
            || self.watched_interval.is_some()
            || self.cycles.is_some()
    }

    /// Takes a line if it fits; `false` if it is not part of this.
    fn take(&mut self, event: &Event) -> bool {
        let near = match (self.at, event.at) {
            (Some(one), Some(other)) => (one - other).abs() <= NEAR_S,
            _ => true,
        };
        if !near || !self.fits(event) {
            return false;
        }
        self.at = self.at.or(event.at);
        self.lines.push(event.evidence.clone());
        if event.kind.has_figures() {
            self.numbers.push(event.evidence.clone());
        }
        true
    }

    /// Puts a line in its place, if that is free.
    fn fits(&mut self, event: &Event) -> bool {
        match &event.kind {
            EventKind::Marked { name, why } => {
                self.named(name) && put(&mut self.marked, (name.clone(), *why))
            }
            EventKind::OldDelta { name, delta_ns } => {
                self.named(name) && put(&mut self.delta_ns, *delta_ns)
            }
            EventKind::Reading(role, count) => match role {
                Role::Reference => put(&mut self.reference, count.clone()),
                Role::SecondReference => put(&mut self.second, count.clone()),
                Role::Watched => self.named(&count.name) && put(&mut self.watched, count.clone()),
            },
            EventKind::Skewed { name, skew_ns, reference, interval_ns } => {
                let skewed = (*skew_ns, reference.clone(), *interval_ns);
                self.named(name) && put(&mut self.skewed, skewed)
            }
            EventKind::ReferenceInterval { name, nsec } => {
                put(&mut self.reference_interval, (name.clone(), *nsec))
            }
            EventKind::WatchedInterval { name, nsec } => {
                self.named(name) && put(&mut self.watched_interval, *nsec)
            }
            EventKind::CpuCycles { first, second } => put(&mut self.cycles, (*first, *second)),
            EventKind::ReadDelay { name, nsec, marks } => {
                // Harmless ones come in rows; the last one counts.
                let replaces = self.delay.is_none_or(|(_, before)| !before)
                    && name.as_ref().is_none_or(|name| self.named(name));
                if replaces {
                    self.delay = Some((*nsec, *marks));
                }
                replaces
            }
            EventKind::Current { name, is_other } => {
                put(&mut self.current, (name.clone(), *is_other))
            }
            EventKind::Unstable { reason: UnstableReason::Watchdog, .. } => {
                self.is_of_tsc() && !std::mem::replace(&mut self.is_declared, true)
            }
            _ => false,
        }
    }

    /// Whether the name is that of no other clocksource than before; notes it.
    fn named(&mut self, name: &str) -> bool {
        let is_other = self.name.as_deref().is_some_and(|before| before != name);
        if is_other || self.is_declared && !is_tsc(name) {
            return false;
        }
        self.name = Some(name.to_owned());
        true
    }
}

/// Puts a value where there is none, or the same: logs repeat lines.
fn put<T: PartialEq>(place: &mut Option<T>, value: T) -> bool {
    match place {
        Some(before) => *before == value,
        None => {
            *place = Some(value);
            true
        }
    }
}

/// Whether a line can be part of a decision at all.
fn belongs(kind: &EventKind) -> bool {
    match kind {
        EventKind::Unstable { reason, .. } => *reason == UnstableReason::Watchdog,
        EventKind::Marked { .. } | EventKind::Current { .. } => true,
        kind => kind.has_figures(),
    }
}

/// All decisions that the log tells of, in its order, also those on other clocksources than the TSC:
/// see [`Episode::is_of_tsc`]. Delays without consequence are among them: see [`Episode::is_skew`] and
/// [`Episode::is_delay`].
pub(crate) fn gather(facts: &Facts) -> Vec<Episode> {
    let mut episodes: Vec<Episode> = Vec::new();
    for event in facts.events() {
        match &event.kind {
            EventKind::Switched(name) if !is_tsc(name) => {
                if let Some(last) = episodes.last_mut().filter(|last| last.is_skew()) {
                    last.fallback.get_or_insert((name.clone(), event.evidence.clone()));
                }
            }
            EventKind::BrokenBiosAdvice => {
                if let Some(last) = episodes.last_mut() {
                    last.has_bad_advice = true;
                }
            }
            kind if !belongs(kind) => {}
            _ if episodes.last_mut().is_some_and(|last| last.take(event)) => {}
            _ => {
                let mut episode = Episode::default();
                if episode.take(event) {
                    episodes.push(episode);
                }
            }
        }
    }
    episodes
}
