//! Lines of kernels from 2.6.18 to 7.1, and their expected interpretation.

use super::super::event::UnstableReason;
use super::said;

const FORMATS: &str = include_str!("formats.txt");

#[test]
fn every_line_is_understood_as_listed() {
    let lines: Vec<&str> = FORMATS.lines().collect();
    let mut seen = 0;
    for pair in lines.windows(2) {
        let Some(want) = pair[1].strip_prefix("    ") else { continue };
        let line = pair[0].replace("\\t", "\t");
        let said = said(&line);
        let understood = match want {
            "open" | "closed" => if said.is_open { "open" } else { "closed" }.to_owned(),
            "cut" | "other" if said.kind.is_none() => want.to_owned(),
            _ => said.kind.map_or("nothing".to_owned(), |kind| format!("{kind:?}")),
        };
        assert_eq!(understood, want, "{line}");
        seen += 1;
    }
    assert!(seen > 180, "{seen}");
    assert_eq!(said("").kind, None);
}

#[test]
fn a_reason_is_known_by_its_words_also_cut_short() {
    for (words, reason) in [
        ("clocksource watchdog", UnstableReason::Watchdog),
        ("check_tsc_sync_source failed", UnstableReason::SyncCheck),
        ("running on Hyper-V", UnstableReason::HyperV),
        ("a page of Hyper-V", UnstableReason::HyperVOtherwise),
        ("boot parameter", UnstableReason::BootParameter),
        ("notsc", UnstableReason::NoTsc),
        ("TSCs unsynchronized", UnstableReason::Unsynchronized),
        ("TSC halts in idle", UnstableReason::HaltsInIdle),
        ("TSC halt in AMD C1E", UnstableReason::HaltsInC1e),
        ("TSC halts in idle for states deeper than C2.", UnstableReason::HaltsBelowC2),
        ("KVM discovered backwards TSC", UnstableReason::Backwards),
        ("cpufreq changes", UnstableReason::CpuFrequency),
        ("could not calculate TSC khz", UnstableReason::NotCalculated),
        ("clock", UnstableReason::Other),
        ("", UnstableReason::Other),
    ] {
        assert_eq!(UnstableReason::of(words), (reason, true), "{words}");
    }
    for (words, reason) in [
        (": clocksource watchd", UnstableReason::Watchdog),
        ("check_tsc_sync", UnstableReason::SyncCheck),
        ("running on", UnstableReason::HyperV),
        ("boot par", UnstableReason::BootParameter),
        ("TSCs unsync", UnstableReason::Unsynchronized),
    ] {
        assert_eq!(UnstableReason::of(words), (reason, false), "{words}");
    }
}
