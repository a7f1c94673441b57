//! Interprets a line. Accepts prefixes that changed from version to version, and cut lines; a cut word or number is
//! never taken as complete.

mod hosts;
mod platform;
mod steps;
mod tokens;
mod tsc;
pub(super) mod watchdog;

use std::sync::LazyLock;

use aho_corasick::automaton::Automaton as _;
use aho_corasick::dfa::DFA;
use aho_corasick::{Input, Match, MatchKind, StartKind};

use super::event::{EventKind, UnstableReason};
pub(crate) use tokens::is_name;

/// The interpretation of a message; empty if the message is not about clocks.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The event, as far as the line goes.
    pub(crate) kind: Option<EventKind>,
    /// The line ends in the middle of a format, so its rest may be on the next line: mail programs fold lines.
    pub(crate) is_open: bool,
}

/// Interprets a message that contains a keyword; the number is the keyword's offset.
type Parser = fn(&str, usize) -> Option<EventKind>;

const NOTE: Parser = |_, _| Some(EventKind::CalibrationNote);

/// Each keyword and the parser of lines that contain it. A line may contain several: the first parser that accepts it
/// decides.
const KEYWORDS: &[(&str, Parser)] = &[
    ("_now:", watchdog::reading),
    ("_nsec:", watchdog::reading_with_interval),
    // Without the `: ` in front, which may be a part of `kvm-clock: `.
    ("mask: 0x", watchdog::registered),
    (" to clocksource", watchdog::switched),
    ("clocksource has been installed", watchdog::installed),
    ("Marking clocksource ", watchdog::marked),
    (" unstable (delta = ", watchdog::old_delta),
    (" skewed ", watchdog::skewed),
    ("is current clocksource", watchdog::current),
    ("No current clocksource", |_, _| Some(EventKind::Current { name: None, is_other: false })),
    (" interval:", watchdog::interval),
    ("Override clocksource ", watchdog::overridden),
    ("read-back delay of", watchdog::read_delay),
    ("clock-skew test skipped", watchdog::noise),
    ("times before success", watchdog::noise),
    ("read timed out", watchdog::noise),
    ("Long readout interval", watchdog::long_readout),
    ("Not enough CPUs to check", watchdog::noise),
    (" check durations ", watchdog::noise),
    (" ahead of CPU", watchdog::cpus),
    (" behind CPU", watchdog::cpus),
    ("(cycles)", watchdog::cycles),
    ("clocksource_wdtest: ", watchdog::tested),
    ("Marking TSC unstable", tsc::unstable),
    ("TSC ", tsc::of_tsc),
    (" MHz TSC", |text, at| tsc::detected(text, at).map(EventKind::DetectedTsc)),
    (" MHz processor", |text, at| tsc::detected(text, at).map(EventKind::DetectedProcessor)),
    ("Unable to calibrate against PIT", NOTE),
    (" reference calibration", NOTE),
    ("sched_clock: Marking unstable", |_, _| Some(EventKind::SchedClockUnstable)),
    ("HPET/PMTIMER", NOTE),
    ("HPET not enabled in BIOS", |_, _| Some(EventKind::HpetNotEnabled)),
    ("HPET dysfunctional in PC10", |_, _| Some(EventKind::HpetPc10)),
    ("ounter not counting", |_, _| Some(EventKind::HpetDisabled)),
    ("Will disable the HPET", |_, _| Some(EventKind::HpetDisabled)),
    ("PM-Timer", platform::pm_timer),
    ("VDSO", platform::vdso),
    ("Linux version ", platform::version),
    ("ommand line: ", platform::command_line),
    ("DMI", platform::dmi),
    ("Hardware name: ", platform::hardware),
    ("Machine model: ", platform::machine_model),
    ("Machine: ", platform::machine_model),
    ("Hypervisor detected: ", hosts::hypervisor),
    ("paravirtualized kernel on ", hosts::hypervisor),
    ("Detected virtualization ", hosts::hypervisor),
    ("kvm-clock: ", hosts::kvm_clock),
    ("Xen version", hosts::xen),
    ("Invariant TSC is unavailable", |_, _| Some(EventKind::HyperVNoInvariantTsc)),
    ("due to virtual machine fork", |_, _| Some(EventKind::Restored)),
    ("suspending xenstore", platform::suspended),
    ("ACPI: RSDP ", hosts::firmware),
    ("CPU MTRRs all blank - virtualized system", |_, _| Some(EventKind::VirtualMachine)),
    ("tdx: Guest detected", hosts::confidential),
    ("Memory Encryption Features active", hosts::confidential),
    ("SEV: ", hosts::confidential),
    ("Detected confidential virtualization ", hosts::confidential),
    ("CPU0: ", platform::cpu),
    (" Comm: ", platform::release),
    ("CPU: ", platform::cpu),
    ("hot-added", platform::hot_added),
    ("vm created on host with unstable TSC", |_, _| Some(EventKind::HostUnstable)),
    ("Booted secondary processor", |_, _| Some(EventKind::ArmBoot)),
    ("Booting Linux on physical CPU", |_, _| Some(EventKind::ArmBoot)),
    ("arch_timer: ", platform::timer),
    ("PM: ", platform::suspended),
    ("Low-level resume complete", platform::suspended),
    // Not parsed, but kept as keywords for the filter: `grep --color` splits keywords by this sequence.
    ("\x1b[K", |_, _| None),
    ("-- Boot ", |_, _| None),
    ("-- Reboot --", |_, _| None),
];

/// The keywords of the table, followed by those of the time's steps, and by words that only one platform's lines have.
fn keywords() -> impl Iterator<Item = &'static str> {
    let table = KEYWORDS.iter().map(|(keyword, _)| *keyword);
    let steps = steps::STEPS.map(|(start, ..)| start);
    table.chain(steps).chain(hosts::SIGNATURES.map(|(start, _)| start))
}

/// Finds keywords. If several begin at the same place, the first one in the table counts.
static AUTOMATON: LazyLock<DFA> = LazyLock::new(|| {
    DFA::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .start_kind(StartKind::Unanchored)
        .build(keywords())
        .unwrap_or_else(|error| unreachable!("a few hundred states always fit: {error}"))
});

fn keywords_of(line: &[u8]) -> impl Iterator<Item = Match> + '_ {
    AUTOMATON
        .try_find_iter(Input::new(line))
        .unwrap_or_else(|error| unreachable!("the automaton is not anchored: {error}"))
}

/// Whether a line may be relevant.
pub(crate) fn has_keyword(line: &[u8]) -> bool {
    keywords_of(line).next().is_some()
}

/// Interprets a message.
pub(crate) fn said(message: &str) -> Said {
    // Lines of the Xen hypervisor, which its console mixes in, are not from this kernel.
    if message.starts_with("(XEN)") {
        return Said::default();
    }
    const SIGNATURES: usize = KEYWORDS.len() + steps::STEPS.len();
    let mut tried = [false; SIGNATURES + hosts::SIGNATURES.len()];
    let mut is_open = false;
    let mut platform = None;
    for found in keywords_of(message.as_bytes()) {
        let keyword = found.pattern().as_usize();
        // Each parser is tried once, or a line of many keywords would take quadratic time.
        if std::mem::replace(&mut tried[keyword], true) {
            continue;
        }
        let kind = match KEYWORDS.get(keyword) {
            Some((text, parser)) => {
                is_open |= is_cut(text, &message[found.end()..]);
                parser(message, found.start())
            }
            None if keyword < SIGNATURES => steps::step(message, found.start()),
            None => hosts::signature(keyword - SIGNATURES, found.start()),
        };
        // If a line shows its platform and something else, the other event is preferred.
        if let Some(EventKind::OfPlatform(_)) = kind {
            platform = platform.or(kind);
        } else if let Some(kind) = kind {
            let is_done =
                matches!(kind, EventKind::WatchdogNoise | EventKind::LongReadout(Some(_)));
            return Said { is_open: is_open && !is_done, kind: Some(kind) };
        }
    }
    Said { kind: platform, is_open }
}

/// Whether a line ends too early after a keyword, other than by the `>` of a pager.
fn is_cut(keyword: &str, rest: &str) -> bool {
    let lacks = match keyword {
        // The mask's name comes before the last blank.
        "read-back delay of" => rest.trim().is_empty(),
        "_nsec:" | "_now:" => rest.rsplit(' ').nth(1) != Some("mask:"),
        "mask: 0x" => !rest.ends_with(" ns"),
        "Marking clocksource " => !rest.ends_with("too large:") && !rest.contains("skew"),
        " skewed " => !rest.split_once("interval of ").is_some_and(|(_, ns)| ns.contains(" ns")),
        " to clocksource" => watchdog::may_go_on(rest.trim_start()),
        "Marking TSC unstable" => {
            UnstableReason::may_go_on(rest.trim_start().strip_prefix("due to").unwrap_or("-"))
        }
        " Comm: " => !rest.contains(" #"),
        " unstable (delta = " => !rest.contains(')'),
        _ => false,
    };
    lacks && !rest.ends_with('>')
}

#[cfg(test)]
mod formats_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_keyword_hides_another_one() {
        for (place, keyword) in keywords().enumerate() {
            let line = format!("some line: {keyword} and more");
            let mut found = keywords_of(line.as_bytes()).map(|one| one.pattern().as_usize());
            assert!(keyword.len() >= 3 && found.any(|one| one == place), "{keyword} is hidden");
        }
    }

    #[test]
    fn a_cpu_that_was_added_is_known_without_the_begin_of_its_line() {
        let whole = "CPU3 has been hot-added";
        for line in
            [whole, "U3 has been hot-added", "as been hot-added", "CPU\u{fffd} has been hot-added"]
        {
            assert_eq!(said(line).kind, Some(EventKind::HotAdded), "{line}");
        }
        for line in ["memory has been hot-added", "it was been hot-added", "CPU3 is hot-added"] {
            assert_eq!(said(line).kind, None, "{line}");
        }
    }
}
