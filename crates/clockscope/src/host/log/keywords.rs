//! Words of which every line of interest has one. Lines without are never looked at.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, Match, MatchKind};

use super::event::Kind;
use super::parse::{arm, hosts, platform, references, tsc, watchdog};

/// Understands a message that holds a keyword; the number is where the keyword begins.
pub(crate) type Parser = fn(&str, usize) -> Option<Kind>;

/// Each keyword and what understands lines with it. A line may hold several: the first parser that
/// understands it decides.
pub(crate) const KEYWORDS: &[(&str, Parser)] = &[
    ("_now:", watchdog::reading),
    ("_nsec:", watchdog::reading_with_interval),
    // Without the `: ` in front, which may be a part of `kvm-clock: `.
    ("mask: 0x", watchdog::registered),
    ("Switched to clocksource", watchdog::switched),
    ("Switching to clocksource", watchdog::switched),
    ("clocksource has been installed", watchdog::installed),
    ("Marking clocksource ", watchdog::marked),
    (" unstable (delta = ", watchdog::old_delta),
    (" skewed ", watchdog::skewed),
    ("is current clocksource", watchdog::current),
    ("No current clocksource", watchdog::no_current),
    (" interval:", watchdog::interval),
    ("Override clocksource ", watchdog::overridden),
    ("read-back delay of ", watchdog::read_delay),
    ("clock-skew test skipped", watchdog::noise),
    ("times before success", watchdog::noise),
    ("read timed out", watchdog::noise),
    ("Long readout interval", watchdog::noise),
    ("Not enough CPUs to check", watchdog::noise),
    (" check durations ", watchdog::noise),
    ("Checking clocksource ", watchdog::checking),
    (" ahead of CPU", watchdog::cpus_ahead),
    (" behind CPU", watchdog::cpus_behind),
    ("(cycles)", watchdog::cycles),
    ("Marking TSC unstable due to", tsc::unstable),
    ("Marking TSC unstable", tsc::unstable),
    ("TSC warp", tsc::warp),
    ("TSC sync", tsc::sync_check),
    ("TSC ADJUST", tsc::adjust),
    ("TSC freq", tsc::rate),
    ("TSC found unstable", tsc::advice),
    ("TSC doesn't count", tsc::p0),
    ("TSC calibration", tsc::calibration),
    ("TSC clocksource calibration", tsc::refined),
    ("TSC is reliable", tsc::sync_skipped),
    (" MHz TSC", tsc::detected_tsc),
    (" MHz processor", tsc::detected_processor),
    ("Unable to calibrate against PIT", tsc::note),
    ("reference calibration", tsc::note),
    (" GTOD ", tsc::gtod),
    ("sched_clock: Marking unstable", tsc::sched_clock),
    ("leap second", tsc::leap_second),
    ("HPET", references::hpet),
    ("PM-Timer", references::pm_timer),
    ("VDSO", references::vdso),
    ("Linux version ", platform::version),
    ("ommand line: ", platform::command_line),
    ("DMI", platform::dmi),
    ("Hardware name: ", platform::hardware),
    ("Machine model: ", arm::machine_model),
    ("Machine: ", arm::machine_model),
    ("Hypervisor detected: ", hosts::hypervisor),
    ("paravirtualized kernel on ", hosts::paravirtualised),
    ("kvm-clock: ", hosts::kvm_clock),
    ("Xen version", hosts::xen),
    ("Detected virtualization ", hosts::systemd),
    ("Hyper-V", hosts::hyper_v),
    ("HyperV", hosts::hyper_v),
    ("hv_vmbus: ", hosts::hyper_v),
    ("hv_utils: ", hosts::hyper_v),
    ("CPU0: ", platform::cpu),
    ("CPU: ", platform::cpu),
    ("Brought up ", platform::cpus_up),
    ("Booted up ", platform::cpus_up),
    ("processors activated", platform::cpus_up),
    ("hot-added", platform::hot_added),
    ("Booted secondary processor", arm::boot),
    ("Booting Linux on physical CPU", arm::boot),
    ("arch_timer: ", arm::timer),
    ("PM: ", platform::suspended),
    ("Low-level resume complete", platform::suspended),
    // Not to be understood, but to be looked at: escape sequences may split a keyword.
    ("\x1b", nothing),
    ("-- Boot ", nothing),
    ("-- Reboot --", nothing),
];

fn nothing(_: &str, _: usize) -> Option<Kind> {
    None
}

static MATCHER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .kind(Some(AhoCorasickKind::DFA))
        .build(KEYWORDS.iter().map(|(keyword, _)| keyword))
        .unwrap_or_else(|error| unreachable!("a few hundred states always fit: {error}"))
});

/// A keyword in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its place in [`KEYWORDS`].
    pub(crate) keyword: usize,
    /// Where it begins.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
}

/// The first keyword in `bytes`.
pub(crate) fn find(bytes: &[u8]) -> Option<Found> {
    MATCHER.find(bytes).map(found)
}

/// The keywords in a message that begin at `from` or later.
pub(crate) fn all(message: &str, from: usize) -> impl Iterator<Item = Found> {
    MATCHER.find_iter(Input::new(message).range(from.min(message.len())..)).map(found)
}

fn found(one: Match) -> Found {
    Found { keyword: one.pattern().as_usize(), start: one.start(), end: one.end() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found() {
        // One bit each in `parse::said`.
        assert!(KEYWORDS.len() <= 128);
        for (place, (keyword, _)) in KEYWORDS.iter().enumerate() {
            let line = format!("some line: {keyword} and more");
            // None hides another one.
            let found: Vec<Found> = all(&line, 0).collect();
            assert!(found.iter().any(|one| one.keyword == place), "{keyword} is hidden: {found:?}");
            assert_eq!(find(line.as_bytes()), found.first().copied());
        }
    }
}
