//! The lines that belong to one decision of the watchdog.
//!
//! The kernel prints up to nine lines for one decision, on any CPU. Other lines come in between, parts are missing or
//! cut, and a fragment may begin in the middle. So a line is added to the open decision if it fits: if its place there
//! is free and its stamp is near.

use crate::rules::{Count, Event, EventKind, Evidence, Facts, Mark, Role, UnstableReason, is_tsc};

/// Maximum distance of one decision's stamps, in seconds: a slow serial console takes some.
const NEAR_S: f64 = 5.0;

/// One decision of the watchdog about a clocksource. `None` means not seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Episode {
    /// Its lines, in the order of the log.
    pub lines: Vec<Evidence>,
    /// Lines with numbers.
    pub numbers: Vec<Evidence>,
    /// Stamp of its first stamped line, in seconds.
    pub at: Option<f64>,
    /// `Marking clocksource NAME as unstable`.
    pub marked: Option<(String, Mark)>,
    /// `Marking TSC unstable due to clocksource watchdog`.
    pub is_declared: bool,
    /// `Clocksource tsc unstable (delta = N ns)`, `skewed N ns`.
    pub delta_ns: Option<i64>,
    /// The reference's counter.
    pub reference: Option<Count>,
    /// The counter of a second reference, in debugging kernels.
    pub second: Option<Count>,
    /// The TSC's counter.
    pub watched: Option<Count>,
    /// `Watchdog NAME interval: Nns`, `over watchdog 'NAME' interval of N ns`.
    pub reference_interval: Option<(String, i64)>,
    /// `Clocksource tsc interval: Nns`, or the reference's with the skew, in nanoseconds.
    pub watched_interval: Option<i64>,
    /// `CPU1 N < CPU2 N (cycles)`.
    pub cycles: Option<(u64, u64)>,
    /// The reference was slow to read: nanoseconds, and whether the line marks the clocksource.
    pub delay: Option<(Option<u64>, bool)>,
    /// The time between two reads of the reference alone, in nanoseconds.
    pub delay_alone: Option<u64>,
    /// The watched clocksource, if a line names it: `tsc`, `tsc-early`, or one that is not the TSC's.
    pub name: Option<String>,
    /// The current clocksource as the kernel printed it.
    pub current: Option<(Option<String>, bool)>,
    /// The first other clocksource that the kernel switched to afterwards, and the line.
    pub fallback: Option<(String, Evidence)>,
    /// The kernel advised `tsc=unstable`.
    pub has_bad_advice: bool,
    /// A line compares the clocksource with its reference.
    has_comparison: bool,
}

impl Episode {
    /// Whether the decision is about the TSC, which is never its own reference: with tsc=watchdog (6.3 and later) the
    /// kernel judges hpet and acpi_pm by the TSC.
    pub(crate) fn is_of_tsc(&self) -> bool {
        self.name.as_deref().is_none_or(is_tsc) && !self.references().any(|name| is_tsc(name))
    }

    /// The names of the reference in its lines.
    pub(crate) fn references(&self) -> impl Iterator<Item = &String> {
        let count = self.reference.as_ref().map(|count| &count.name);
        let interval = self.reference_interval.as_ref().map(|(name, _)| name);
        count.into_iter().chain(interval)
    }

    /// Whether the watchdog gave the clocksource up because of its count.
    pub(crate) fn is_skew(&self) -> bool {
        self.has_comparison || (self.is_declared && self.delay.is_none())
    }

    /// Whether the watchdog gave the TSC up because the reference was slow to read. From 6.2 on the line names the TSC;
    /// before that the next line does.
    pub(crate) fn is_delay(&self) -> bool {
        let names_tsc = self.is_declared || self.name.is_some();
        let marks = self.delay.is_some_and(|(_, marks)| marks);
        names_tsc && marks || self.delay.is_some() && self.is_declared && !self.has_comparison
    }

    /// Adds a line if it fits; `false` if it is not part of this decision.
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
        use EventKind::{Current, ReadDelay, Reading, Unstable};
        let is_beside = matches!(event.kind, ReadDelay { .. } | Current { .. } | Unstable { .. });
        let is_second = matches!(event.kind, Reading(Role::SecondReference, _));
        self.has_comparison |= !is_beside && !is_second;
        true
    }

    /// Stores a line in its place, if that is free.
    fn fits(&mut self, event: &Event) -> bool {
        use EventKind::*;
        match &event.kind {
            Marked { name, why } => self.named(name) && put(&mut self.marked, (name.clone(), *why)),
            OldDelta { name, delta_ns } => self.named(name) && put(&mut self.delta_ns, *delta_ns),
            Reading(role, count) => match role {
                Role::Reference => put(&mut self.reference, count.clone()),
                Role::SecondReference => put(&mut self.second, count.clone()),
                Role::Watched => self.named(&count.name) && put(&mut self.watched, count.clone()),
            },
            Skewed { name, skew_ns, reference, interval_ns } => {
                let fits = self.named(name) && put(&mut self.delta_ns, *skew_ns);
                if fits {
                    self.reference_interval.get_or_insert((reference.clone(), *interval_ns));
                    self.watched_interval.get_or_insert(interval_ns.saturating_add(*skew_ns));
                }
                fits
            }
            Interval(Role::Watched, name, nsec) => {
                self.named(name) && put(&mut self.watched_interval, *nsec)
            }
            Interval(_, name, nsec) => put(&mut self.reference_interval, (name.clone(), *nsec)),
            CpuCycles { first, second } => put(&mut self.cycles, (*first, *second)),
            ReadDelay { name, nsec, alone, marks } => {
                // Harmless delays come several at a time; the last one counts.
                let replaces = self.delay.is_none_or(|(_, before)| !before)
                    && name.as_ref().is_none_or(|name| self.named(name));
                if replaces {
                    self.delay = Some((*nsec, *marks));
                    self.delay_alone = *alone;
                }
                replaces
            }
            Current { name, is_other } => put(&mut self.current, (name.clone(), *is_other)),
            Unstable { reason: UnstableReason::Watchdog, .. } => {
                self.is_of_tsc() && !std::mem::replace(&mut self.is_declared, true)
            }
            _ => false,
        }
    }

    /// Whether the name is the same clocksource as before; stores it.
    fn named(&mut self, name: &str) -> bool {
        let is_other = self.name.as_deref().is_some_and(|before| before != name);
        if is_other || self.is_declared && !is_tsc(name) {
            return false;
        }
        self.name = Some(name.to_owned());
        true
    }
}

/// Stores a value if the place is empty or holds the same value: logs repeat lines.
fn put<T: PartialEq>(place: &mut Option<T>, value: T) -> bool {
    let fits = place.as_ref().is_none_or(|before| *before == value);
    if fits {
        *place = Some(value);
    }
    fits
}

/// Whether a line can be part of a decision at all.
fn belongs(kind: &EventKind) -> bool {
    match kind {
        EventKind::Unstable { reason, .. } => *reason == UnstableReason::Watchdog,
        EventKind::Marked { .. } | EventKind::Current { .. } => true,
        kind => kind.has_figures(),
    }
}

/// All decisions in the log, in its order, including decisions about other clocksources than the TSC (see
/// [`Episode::is_of_tsc`]) and delays without consequence (see [`Episode::is_skew`] and [`Episode::is_delay`]).
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
