//! Words of which every line of interest has one. Lines without are never looked at.

use std::iter;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind, Span, packed};

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
    (" to clocksource", watchdog::switched),
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
    ("clocksource_wdtest: ", watchdog::tested),
    ("Marking TSC unstable", tsc::unstable),
    ("TSC ", tsc::of_tsc),
    (" MHz TSC", tsc::detected_tsc),
    (" MHz processor", tsc::detected_processor),
    ("Unable to calibrate against PIT", tsc::note),
    ("reference calibration", tsc::note),
    (" GTOD ", tsc::gtod),
    ("sched_clock: Marking unstable", tsc::sched_clock),
    ("leap second", tsc::leap_second),
    ("HPET/PMTIMER", tsc::note),
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
    ("Xen: ", hosts::signature),
    ("xen:", hosts::signature),
    ("xen_netfront", hosts::signature),
    ("suspending xenstore", platform::suspended),
    ("vmware: ", hosts::signature),
    ("vmw_vmci", hosts::signature),
    ("vmw_balloon", hosts::signature),
    ("vboxguest: ", hosts::signature),
    ("kvm-guest: ", hosts::signature),
    ("kvm-stealtime: ", hosts::signature),
    ("KVM setup ", hosts::signature),
    ("hypervisor services detected", hosts::signature),
    ("hv_netvsc", hosts::signature),
    ("hv_storvsc", hosts::signature),
    ("hv_balloon: ", hosts::signature),
    ("hyperv_fb: ", hosts::signature),
    ("hyperv_drm", hosts::signature),
    ("hyperv_keyboard", hosts::signature),
    ("ACPI: RSDP ", hosts::firmware),
    ("CPU MTRRs all blank", hosts::blank_mtrrs),
    ("tdx: Guest detected", hosts::confidential),
    ("Memory Encryption Features active", hosts::confidential),
    ("SEV: ", hosts::confidential),
    ("Detected confidential virtualization ", hosts::confidential),
    ("CPU features: detected: ", hosts::signature),
    (" I-cache on CPU", hosts::signature),
    ("riscv_timer_init", hosts::signature),
    ("SBI specification v", hosts::signature),
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
    // Not to be understood, but to be looked at: `grep --color` splits keywords by this.
    ("\x1b[K", nothing),
    ("-- Boot ", nothing),
    ("-- Reboot --", nothing),
];

fn nothing(_: &str, _: usize) -> Option<Kind> {
    None
}

/// Finds keywords. Of several that begin at the same place, the first one in the table counts.
#[derive(Debug)]
enum Matcher {
    /// By vector instructions, several times faster, where the CPU has them.
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
}

static MATCHER: LazyLock<Matcher> =
    LazyLock::new(|| packed().map_or_else(|| Matcher::Automaton(automaton()), Matcher::Packed));

fn packed() -> Option<packed::Searcher> {
    // By itself it refuses more than a few keywords, since it is slow where half of them nearly
    // match; lines of the kernel do not. Of 128 or more it takes none: then the automaton is used.
    let mut config = packed::Config::new();
    config.match_kind(packed::MatchKind::LeftmostFirst).heuristic_pattern_limits(false);
    config.builder().extend(KEYWORDS.iter().map(|(keyword, _)| keyword)).build()
}

fn automaton() -> AhoCorasick {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .kind(Some(AhoCorasickKind::DFA))
        .build(KEYWORDS.iter().map(|(keyword, _)| keyword))
        .unwrap_or_else(|error| unreachable!("a few hundred states always fit: {error}"))
}

impl Matcher {
    /// The first keyword that begins at `from` or later.
    fn find(&self, bytes: &[u8], from: usize) -> Option<Found> {
        let span = Span { start: from.min(bytes.len()), end: bytes.len() };
        let found = match self {
            Matcher::Packed(searcher) => searcher.find_in(bytes, span),
            Matcher::Automaton(automaton) => automaton.find(Input::new(bytes).span(span)),
        };
        found.map(|one| Found {
            keyword: one.pattern().as_usize(),
            start: one.start(),
            end: one.end(),
        })
    }
}

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
    MATCHER.find(bytes, 0)
}

/// The keywords in a message that begin at `from` or later.
pub(crate) fn all(message: &str, mut from: usize) -> impl Iterator<Item = Found> {
    iter::from_fn(move || {
        let found = MATCHER.find(message.as_bytes(), from)?;
        from = found.end;
        Some(found)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_keyword_is_found() {
        assert!(KEYWORDS.iter().all(|(keyword, _)| keyword.len() >= 3));
        for (place, (keyword, _)) in KEYWORDS.iter().enumerate() {
            let line = format!("some line: {keyword} and more");
            // None hides another one.
            let found: Vec<Found> = all(&line, 0).collect();
            assert!(found.iter().any(|one| one.keyword == place), "{keyword} is hidden: {found:?}");
            assert_eq!(find(line.as_bytes()), found.first().copied());
        }
    }

    proptest! {
        #[test]
        fn both_ways_find_the_same(
            parts in prop::collection::vec((0..KEYWORDS.len(), 0_usize..9, "[ a-cT:]{0,3}"), 0..12),
        ) {
            let parts = parts.iter().map(|(keyword, skip, rest)| {
                format!("{}{rest}", KEYWORDS[*keyword].0.get(*skip..).unwrap_or(""))
            });
            let text: String = parts.collect();
            let automaton = Matcher::Automaton(automaton());
            let packed = packed().map(Matcher::Packed);
            for from in 0..=text.len() {
                let want = automaton.find(text.as_bytes(), from);
                if let Some(packed) = &packed {
                    prop_assert_eq!(packed.find(text.as_bytes(), from), want, "{:?}", text);
                }
            }
        }
    }
}
