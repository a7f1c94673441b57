//! Checks before the start whether this machine's counter may be used as a clock.
//!
//! The judgement is pure; [`counter_probe`](super::counter_probe) collects its data.

use std::fmt;

use fastclock::Decline;

use super::counter_probe::{CounterProbe, WarpOfAll, is_the_counter};

/// The counter may not be used. Prints as a clause: the reason, and the arguments for and against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The most important reason.
    pub reason: Decline,
    /// Arguments against the counter, as clauses; that of `reason` first.
    pub against: Vec<String>,
    /// Arguments for the counter.
    pub in_favour: Vec<String>,
    /// Whether `--force` would use the counter nevertheless.
    pub can_be_forced: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.against.join("; "))?;
        if !self.in_favour.is_empty() {
            write!(f, " (for it: {})", self.in_favour.join("; "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Checks this machine, in less than 100 ms. Gives the objections that were overridden, as clauses; none without
/// `force`.
///
/// `force` overrides objections from the clocksource and the CPU's flags, but never a measured fault.
///
/// # Errors
///
/// The objections to the counter.
pub fn check(force: bool) -> Result<Vec<String>, Refusal> {
    judge(&CounterProbe::collect(), force)
}

/// Whether the kernel's own clock is the CPU's counter or made from it; true if the clocksource is not known.
pub fn kernel_uses_the_counter() -> bool {
    let source = fastclock::sys::clocksource();
    source.is_none_or(|source| {
        is_the_counter(source.name()) || is_made_from_the_counter(source.name())
    })
}

/// One argument against the counter.
struct Objection {
    reason: Decline,
    words: String,
    can_be_forced: bool,
}

/// Judges the collected data.
///
/// # Errors
///
/// As [`check`].
pub fn judge(probe: &CounterProbe, force: bool) -> Result<Vec<String>, Refusal> {
    let mut in_favour = Vec::new();
    let mut objections = Vec::new();
    let points = [permission, warp, invariance, clocksource];
    for point in points {
        match point(probe) {
            Ok(words) => in_favour.extend(words),
            Err(objection) => objections.push(objection),
        }
    }
    let refused = objections.iter().find(|objection| !force || !objection.can_be_forced);
    let words = || objections.iter().map(|objection| objection.words.clone()).collect();
    match refused {
        None => Ok(words()),
        Some(refused) => Err(Refusal {
            reason: refused.reason,
            against: words(),
            in_favour,
            can_be_forced: objections.iter().all(|objection| objection.can_be_forced),
        }),
    }
}

/// The result of a check: an argument for the counter, if any, or an objection.
type Point = Result<Option<String>, Objection>;

fn permission(probe: &CounterProbe) -> Point {
    if probe.may_read != Some(false) {
        return Ok(None);
    }
    let words = Decline::Forbidden.to_string();
    Err(Objection { reason: Decline::Forbidden, words, can_be_forced: false })
}

/// Minimum number of hand-overs between CPUs for an argument in favour: on a busy host the threads may have run at once
/// only now and then.
const ENOUGH: u64 = 1_000;

fn warp(probe: &CounterProbe) -> Point {
    let Some(WarpOfAll { others, warp }) = probe.warp else { return Ok(None) };
    if warp.count() == 0 {
        let pairs = if others == 1 { "pair" } else { "pairs" };
        return Ok((warp.handovers >= ENOUGH).then(|| {
            format!("no warp in {} hand-overs between {others} {pairs} of CPUs", warp.handovers)
        }));
    }
    let words = format!(
        "{}: a reading was less than an earlier one {} times in {}, by up to {} ticks",
        Decline::Warp,
        warp.count(),
        warp.handovers,
        warp.max
    );
    Err(Objection { reason: Decline::Warp, words, can_be_forced: false })
}

fn invariance(probe: &CounterProbe) -> Point {
    let missing = &probe.missing_flags;
    if missing.is_empty() {
        return Ok(Some("the CPU says that its rate is constant".to_owned()));
    }
    let words = format!("{} (missing: {})", Decline::NotInvariant, missing.join(", "));
    Err(Objection { reason: Decline::NotInvariant, words, can_be_forced: true })
}

fn clocksource(probe: &CounterProbe) -> Point {
    let refuse =
        |words| Err(Objection { reason: Decline::Clocksource, words, can_be_forced: true });
    match probe.clocksource.as_deref() {
        None => refuse("it is not known what the kernel's clocksource is".to_owned()),
        Some(name) if is_the_counter(name) => {
            Ok(Some(format!("the kernel's clocksource is {name}")))
        }
        Some(name) if is_made_from_the_counter(name) => match probe.vdso_answers {
            Some(true) => {
                Ok(Some(format!("the kernel's clocksource is {name}, without a system call")))
            }
            Some(false) => refuse(format!(
                "the kernel's clocksource is {name}, whose host does not vouch for the counter: its vDSO makes system calls"
            )),
            None => refuse(format!(
                "the kernel's clocksource is {name}, and whether its vDSO answers by itself cannot be tested"
            )),
        },
        Some(name) => refuse(format!("the kernel's clocksource is {name}, not the counter")),
    }
}

/// Clocksources of hypervisors that correct the counter by a page. They answer in user space only while the host states
/// that one correction holds for all CPUs (`PVCLOCK_TSC_STABLE_BIT`; a sequence number other than zero in Hyper-V's
/// page).
pub(crate) fn is_made_from_the_counter(clocksource: &str) -> bool {
    matches!(clocksource, "kvm-clock" | "hyperv_clocksource_tsc_page")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_sys::warp::Warp;

    fn healthy() -> CounterProbe {
        CounterProbe {
            may_read: Some(true),
            missing_flags: Vec::new(),
            clocksource: Some("tsc".to_owned()),
            vdso_answers: None,
            warp: Some(WarpOfAll { others: 3, warp: Warp { handovers: 9_000, ..Warp::default() } }),
        }
    }

    fn on(clocksource: &str) -> CounterProbe {
        CounterProbe { clocksource: Some(clocksource.to_owned()), ..healthy() }
    }

    #[test]
    fn a_healthy_machine_passes() {
        for source in ["tsc", "arch_sys_counter"] {
            assert_eq!(judge(&on(source), false), Ok(vec![]));
        }
        let unknown = CounterProbe { may_read: None, warp: None, ..healthy() };
        assert!(judge(&unknown, false).is_ok());
    }

    #[test]
    fn another_clocksource_is_refused_but_can_be_forced() {
        for source in ["hpet", "acpi_pm", "jiffies", "xen", "hyperv_clocksource_msr"] {
            let refusal = judge(&on(source), false).unwrap_err();
            assert_eq!(refusal.reason, Decline::Clocksource);
            assert!(refusal.can_be_forced && refusal.to_string().contains(source), "{refusal}");
            assert!(refusal.to_string().contains("no warp in 9000 hand-overs"), "{refusal}");
            assert_eq!(judge(&on(source), true).as_ref(), Ok(&refusal.against));
        }
        let unknown = CounterProbe { clocksource: None, ..healthy() };
        assert_eq!(judge(&unknown, false).unwrap_err().reason, Decline::Clocksource);
    }

    #[test]
    fn a_hypervisors_clock_passes_while_its_vdso_answers() {
        for source in ["kvm-clock", "hyperv_clocksource_tsc_page"] {
            let answers = |answers| CounterProbe { vdso_answers: answers, ..on(source) };
            assert!(judge(&answers(Some(true)), false).is_ok());
            for bad in [Some(false), None] {
                let refusal = judge(&answers(bad), false).unwrap_err();
                assert_eq!((refusal.reason, refusal.can_be_forced), (Decline::Clocksource, true));
            }
        }
    }

    #[test]
    fn force_overrides_flags_but_not_what_was_measured() {
        let flags = CounterProbe { missing_flags: vec!["nonstop_tsc"], ..healthy() };
        let refusal = judge(&flags, false).unwrap_err();
        assert_eq!(refusal.reason, Decline::NotInvariant);
        assert!(refusal.to_string().contains("missing: nonstop_tsc"), "{refusal}");
        assert!(judge(&flags, true).is_ok());

        let warp = Warp { handovers: 50, seen: [2, 0], max: 777, floor: None };
        let warped = WarpOfAll { others: 1, warp };
        let measured = [
            (CounterProbe { warp: Some(warped), ..on("hpet") }, Decline::Warp),
            (CounterProbe { may_read: Some(false), ..on("hpet") }, Decline::Forbidden),
        ];
        for (probe, reason) in measured {
            for force in [false, true] {
                let refusal = judge(&probe, force).unwrap_err();
                assert_eq!((refusal.reason, refusal.can_be_forced), (reason, false));
                assert_eq!(refusal.against.len(), 2, "{refusal}");
            }
        }
    }
}
