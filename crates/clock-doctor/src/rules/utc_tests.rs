//! Planted readings, and what is said of them.

use super::*;
use crate::facts::{Known, Log, Sign};
use crate::measured::{Discipline, Measured};
use crate::rules::examine;

const NOW: i64 = 1_795_861_143;

fn ptp(behind_ns: i64) -> Reference {
    Reference::ptp("/dev/ptp0", "KVM virtual PTP", false, (behind_ns, 1_000))
}

fn rtc(seconds: i64) -> Reference {
    Reference::rtc(NOW + seconds, NOW * SECOND, None, false)
}

/// A machine that has been up for 1,000 s; `is_synchronised` by a measurement at most 40 s old.
fn machine(is_guest: bool, references: Vec<Reference>, is_synchronised: bool) -> Facts {
    let max_error_us = if is_synchronised { 20_000 } else { 16_000_000 };
    let utc = Comparison {
        uptime_s: 1_000.0,
        references,
        word: Some(Word::new(None, max_error_us, 0)),
        ..Comparison::default()
    };
    let mut measured = Measured {
        discipline: Some(Discipline { is_synchronised, max_error_us, ..Discipline::default() }),
        utc: Some(utc),
        ..Measured::default()
    };
    measured.host.vdso.present = true;
    let log = Some(Log::default());
    let mut facts = Facts { is_live: true, measured: Some(measured), log, ..Facts::default() };
    if is_guest {
        let evidence = Evidence::of("dmesg", "Hypervisor detected: KVM");
        let kind = EventKind::Hypervisor("KVM".to_owned());
        facts.log.as_mut().unwrap().events.push(Event { evidence, at: Some(0.0), kind });
    }
    facts
}

fn restored(mut facts: Facts, at: f64) -> Facts {
    let evidence = Evidence::of("dmesg", "random: crng reseeded due to virtual machine fork");
    let event = Event { evidence, at: Some(at), kind: EventKind::Restored };
    facts.log.as_mut().unwrap().events.push(event);
    facts
}

/// Labels about the time of day, with their severities.
fn found(facts: &Facts) -> Vec<(Label, Severity)> {
    let of_time = [Label::TimeBehindHost, Label::ReferenceDisagrees, Label::TimeNotSynchronised];
    let findings = examine(facts).findings;
    let found = findings.iter().map(|one| (one.label, one.severity));
    found.filter(|(label, _)| of_time.contains(label)).collect()
}

#[test]
fn a_guest_that_stood_still_is_behind_its_host() {
    let expected = vec![
        (Label::TimeBehindHost, Severity::Wrong),
        (Label::TimeNotSynchronised, Severity::Note),
    ];
    for reference in [ptp(60 * SECOND), rtc(60), ptp(4 * SECOND), rtc(7)] {
        let facts = machine(true, vec![reference.clone()], false);
        assert_eq!(found(&facts), expected, "{reference:?}");
    }
    let facts = restored(machine(true, vec![ptp(7_200 * SECOND)], true), 995.0);
    let diagnosis = examine(&facts);
    let finding = &diagnosis.findings[0];
    assert_eq!(finding.label, Label::TimeBehindHost, "the kernel's word is void");
    let detail = finding.detail.join(" ");
    assert!(detail.contains("the clock is 7200 s behind /dev/ptp0 (KVM virtual PTP)"), "{detail}");
    assert!(detail.contains("The log shows a restore or a resume 995 s after the boot."));
    let advice = &diagnosis.advice[0];
    assert!(advice.is(Fix::SetClockAfterRestore) && advice.caveats[0].contains("steps"));
    assert!(advice.commands[0].starts_with("sudo chronyd -q 'refclock PHC /dev/ptp0 poll 0'"));
    let by_rtc = examine(&machine(true, vec![rtc(60)], false)).advice;
    assert_eq!(by_rtc[0].commands, ["sudo hwclock --hctosys --utc"]);
    assert!(diagnosis.meanwhile.is_empty(), "wrongness measures counters");
    let foreign = Reference { name: "/dev/ptp0';reboot (x)".to_owned(), ..ptp(60 * SECOND) };
    let advice = examine(&machine(true, vec![foreign], false)).advice;
    assert!(advice[0].commands.iter().all(|line| !line.contains("reboot")), "{advice:?}");
}

#[test]
fn healthy_machines_stay_healthy() {
    let rtc_in_zone = || rtc(-3_600);
    let card = || Reference::ptp("/dev/ptp0", "igb", false, (37 * SECOND, 50));
    let table = [
        ("no clock to compare with", machine(true, vec![], true)),
        ("a host's clock", machine(true, vec![ptp(200_000)], true)),
        ("a host that smears a leap second", machine(true, vec![ptp(SECOND)], true)),
        ("a guest that booted from its RTC", machine(true, vec![ptp(2 * SECOND)], true)),
        ("an RTC off by a second", machine(true, vec![rtc(-1)], true)),
        ("an RTC that runs away beside a daemon", machine(true, vec![rtc(20)], true)),
        ("an RTC that stands beside a daemon", machine(true, vec![rtc(-5_000)], true)),
        ("an RTC that stands, without a daemon", machine(true, vec![rtc(-5_000)], false)),
        ("an RTC in local time", machine(true, vec![rtc_in_zone()], true)),
        ("a battery that is empty", machine(true, vec![rtc(-NOW)], true)),
        ("a network card in TAI", machine(false, vec![card()], true)),
        ("an RTC written at the last shutdown", machine(false, vec![rtc(200)], true)),
        ("the same without a daemon", machine(false, vec![rtc(200)], false)),
        ("RTC in local time without a daemon", machine(false, vec![rtc(7 * 3_600)], false)),
        ("an RTC of another year beside a daemon", machine(false, vec![rtc(400 * 86_400)], true)),
        ("no battery and no daemon", machine(false, vec![rtc(-NOW)], false)),
    ];
    for (name, facts) in table {
        let note = (Label::TimeNotSynchronised, Severity::Note);
        assert!(found(&facts).iter().all(|one| *one == note), "{name}: {:?}", found(&facts));
        assert!(examine(&facts).worst() <= Severity::Note, "{name}");
    }
}

#[test]
fn a_daemon_and_a_host_that_contradict_each_other_are_both_named() {
    let severity = |facts: &Facts| match found(facts)[..] {
        [(Label::ReferenceDisagrees, severity)] => severity,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(severity(&machine(true, vec![ptp(5 * SECOND)], true)), Severity::Note);
    assert_eq!(severity(&machine(true, vec![ptp(-500 * SECOND)], true)), Severity::Note);
    assert_eq!(severity(&machine(true, vec![ptp(500 * SECOND)], true)), Severity::Wrong);
    assert_eq!(severity(&machine(true, vec![rtc(500)], true)), Severity::Wrong);
    // Measured after the restore.
    let facts = restored(machine(true, vec![ptp(5 * SECOND)], true), 100.0);
    assert_eq!(severity(&facts), Severity::Note);
    let two = vec![ptp(0), Reference { name: "/dev/vmclock0".to_owned(), ..ptp(9 * SECOND) }];
    assert_eq!(severity(&machine(true, two, true)), Severity::Note);
}

#[test]
fn a_clock_that_was_never_set_is_found_on_any_machine() {
    let facts = machine(false, vec![rtc(56 * 365 * 86_400)], false);
    assert_eq!(found(&facts)[0], (Label::TimeBehindHost, Severity::Wrong));
    let facts = machine(true, vec![ptp(-5 * SECOND)], false);
    assert_eq!(found(&facts)[0], (Label::ReferenceDisagrees, Severity::Wrong), "ahead of its host");
}

#[test]
fn a_restored_guest_without_any_clock_is_told_that_nothing_proves_its_time() {
    let facts = restored(machine(true, vec![], false), 12.0);
    assert_eq!(found(&facts), [(Label::TimeNotSynchronised, Severity::Note)]);
    let diagnosis = examine(&facts);
    let detail = diagnosis.findings.iter().flat_map(|one| &one.detail).cloned().collect::<String>();
    let wanted = "The machine was restored or resumed 12 s after the boot. No daemon has told the";
    assert!(detail.contains(wanted), "{detail}");
    // The daemon has measured since, though it leaves the kernel's bit alone.
    let mut facts = restored(machine(true, vec![], true), 12.0);
    facts.measured.as_mut().unwrap().discipline.as_mut().unwrap().is_synchronised = false;
    assert!(found(&facts).is_empty());
}

#[test]
fn a_disruption_marker_makes_a_word_void() {
    let mut facts = machine(true, vec![], true);
    facts.measured.as_mut().unwrap().utc.as_mut().unwrap().disruption_marker = Some(0);
    assert!(found(&facts).is_empty());
    facts.measured.as_mut().unwrap().utc.as_mut().unwrap().disruption_marker = Some(2);
    assert_eq!(found(&facts), [(Label::TimeNotSynchronised, Severity::Note)]);
    assert_eq!(within(&facts, SECOND).0, Proof::Open);
    // The log has that disruption, and the word is younger.
    let mut facts = restored(facts, 100.0);
    assert_eq!(within(&facts, SECOND).0, Proof::Within);
    let shifted = Some("monotonic -86400 0".to_owned());
    facts.measured.as_mut().unwrap().host.time_namespace = shifted;
    assert_eq!(within(&facts, SECOND).0, Proof::Open, "how long ago that was is not known");
}

#[test]
fn the_answer_is_a_sentence_with_the_figures() {
    let said = |facts: &Facts, limit_ns| within(facts, limit_ns).1;
    let facts = machine(true, vec![ptp(60 * SECOND)], false);
    let wanted = "the time is not within 1 ms: the clock is 60 s behind /dev/ptp0 (KVM virtual PTP), \
                  give or take 1 us";
    assert_eq!(said(&facts, 1_000_000), wanted);
    let mut facts = machine(true, vec![], true);
    let wanted = "the time is within 1 s: the kernel states 20 ms";
    assert_eq!(said(&facts, SECOND), wanted);
    facts.log = None;
    facts.signs.push(Known::new(Sign::Hypervisor("KVM".to_owned()), "", ""));
    let utc = facts.measured.as_mut().unwrap().utc.as_mut().unwrap();
    utc.unread.push("/dev/ptp0 (KVM virtual PTP): permission denied; try as root".to_owned());
    let wanted = "not known whether the time is within 1 s: there is no clock to compare with; the \
                  kernel states 20 ms, but the log, which would show a restore, cannot be read; \
                  /dev/ptp0 (KVM virtual PTP): permission denied; try as root";
    assert_eq!(said(&facts, SECOND), wanted);
    assert_eq!(within(&Facts::default(), SECOND).0, Proof::Open);
}
