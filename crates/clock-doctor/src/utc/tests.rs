use super::*;

fn host(behind_ns: i64, error_ns: i64) -> Reference {
    Reference::ptp("/dev/ptp0", "KVM virtual PTP", false, (behind_ns, error_ns))
}

/// The kernel's word: right within 20 ms, by a measurement at most 40 s old.
fn word() -> Word {
    Word::new(None, 20_000, 0)
}

fn at(references: Vec<Reference>, word: Option<Word>) -> Comparison {
    Comparison { uptime_s: 1_000.0, references, word, ..Comparison::default() }
}

fn proof(comparison: &Comparison, broken: Option<f64>, limit_ns: i64) -> Proof {
    comparison.weighed(true, broken).within(limit_ns)
}

#[test]
fn a_reading_of_now_proves_and_refutes_and_a_wide_one_leaves_it_open() {
    for (behind, error, limit, expected) in [
        (400, 100, 1_000, Proof::Within),
        (-950, 100, 1_000, Proof::Open),
        (-1_101, 100, 1_000, Proof::Outside),
        (60 * SECOND, SECOND, SECOND / 1_000, Proof::Outside),
        (0, SECOND, SECOND / 1_000, Proof::Open),
    ] {
        let comparison = at(vec![host(behind, error)], None);
        assert_eq!(proof(&comparison, None, limit), expected, "{behind} {error}");
    }
    assert_eq!(proof(&at(Vec::new(), None), None, SECOND), Proof::Open);
}

#[test]
fn a_word_counts_if_it_was_measured_after_the_last_restore() {
    let comparison = at(Vec::new(), Some(word()));
    for (broken, expected) in [
        (None, Proof::Within),
        (Some(900.0), Proof::Within),
        // It may be 40 s old, and the restore is 30 s ago.
        (Some(970.0), Proof::Open),
        (Some(SOMETIME), Proof::Open),
    ] {
        assert_eq!(proof(&comparison, broken, SECOND / 10), expected, "{broken:?}");
    }
    assert_eq!(proof(&comparison, None, SECOND / 1_000), Proof::Open, "20 ms is more");
    let unset = at(Vec::new(), Some(Word::new(None, 16_000_000, 0)));
    assert_eq!(proof(&unset, None, 60 * SECOND), Proof::Open);
}

#[test]
fn a_word_and_a_reading_that_contradict_each_other_prove_nothing() {
    let comparison = at(vec![host(SECOND, 1_000)], Some(word()));
    assert_eq!(proof(&comparison, None, SECOND / 10), Proof::Open);
    assert_eq!(proof(&comparison, Some(990.0), SECOND / 10), Proof::Outside);
    // An RTC is coarse, and the word is not.
    let rtc = Reference::rtc(RTC_MIN, RTC_MIN * SECOND, None, false);
    let comparison = at(vec![rtc], Some(word()));
    assert_eq!(proof(&comparison, None, SECOND / 10), Proof::Within);
}

#[test]
fn two_clocks_of_the_host_prove_no_more_than_their_difference() {
    let comparison = at(vec![host(0, 1_000), host(SECOND, 2_000)], None);
    assert_eq!(proof(&comparison, None, SECOND / 2), Proof::Open);
    assert_eq!(proof(&comparison, None, 2 * SECOND), Proof::Within);
    let comparison = at(vec![host(60 * SECOND, 1_000), host(61 * SECOND, 2_000)], None);
    assert_eq!(proof(&comparison, None, SECOND), Proof::Outside, "both are");
    let rtc = Reference::rtc(RTC_MIN, (RTC_MIN + 30) * SECOND, None, false);
    let comparison = at(vec![rtc, host(0, 1_000)], None);
    assert_eq!(proof(&comparison, None, 2_000), Proof::Within, "the RTC is no host");
}

#[test]
fn a_clock_that_may_not_count_in_utc_is_set_aside() {
    // A network card in TAI, and one that counts from its power-on.
    for behind in [37 * SECOND, -RTC_MIN * SECOND] {
        let card = Reference::ptp("/dev/ptp1", "mlx5_ptp", false, (behind, 50));
        assert!(card.aside.is_some());
        assert!(at(vec![card], None).weighed(true, None).best.is_none());
    }
    assert!(Reference::ptp("/dev/ptp1", "ena-ptp-05", true, (0, 50)).aside.is_none());
    assert!(Reference::ptp("/dev/ptp0", "hyperv", false, (0, 50)).aside.is_none());
    assert!(Reference::ptp("/dev/ptp0", "vmclock0", false, (0, 50)).aside.is_some());
}

#[test]
fn an_rtc_counts_in_a_virtual_machine_only_and_not_in_local_time_or_without_a_battery() {
    let now = 1_795_861_143;
    let rtc = |seconds: i64| Reference::rtc(seconds, now * SECOND, None, false);
    let counts =
        |one: Reference, is_guest| at(vec![one], None).weighed(is_guest, None).best.is_some();
    assert!(counts(rtc(now), true) && !counts(rtc(now), false));
    assert!(counts(rtc(now + 60), true) && counts(rtc(now + 450), true));
    for zone in [3_600, -3_600, 19_800, -14 * 3_600, 12_600, 20_700] {
        assert!(!counts(rtc(now + zone), true), "{zone}");
    }
    assert!(counts(rtc(now + 30 * 3_600), true), "no zone is so far away");
    assert!(!counts(rtc(86_400), true), "1970");
    assert!(!counts(Reference::rtc(now, now * SECOND, None, true), true), "/etc/adjtime");
}

#[test]
fn an_rtc_is_as_exact_as_it_was_read() {
    let now = 1_795_861_143;
    // It shows a second for a second, and may be a second late.
    for late in [0, 999_999_999] {
        for within in [0, 999_999_999] {
            let true_time = now * SECOND + within + late;
            let rtc = Reference::rtc(now, true_time, None, false);
            assert_eq!(rtc.surely_ns(), 0, "{late} {within}");
        }
        let at_edge = Reference::rtc(now, now * SECOND + late, Some(2_000_000), false);
        assert_eq!((at_edge.surely_ns(), at_edge.error_ns), (0, 502_000_000));
    }
}

#[test]
fn the_kernels_word_grows_old() {
    let word = Word::new(Some("chrony"), 500_000, -20_000);
    assert_eq!((word.error_ns, word.age_s), (500_020_000, Some(1_000.0)));
    assert_eq!(word.by, "the kernel (chrony)");
}

/// A page that says 2,000 s by a counter of 1 GHz that was 5,000.
fn vmclock(time_type: u8, status: u8, tai: i16) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..4].copy_from_slice(b"VCLK");
    bytes[8] = 1;
    (bytes[10], bytes[11], bytes[34]) = (1, time_type, status);
    bytes[16] = 3;
    bytes[24] = 1 | 1 << 6;
    bytes[36..38].copy_from_slice(&tai.to_le_bytes());
    let period = u64::MAX / 1_000_000_000;
    for (at, value) in [(40, 5_000), (48, period), (72, 2_000_u64), (96, 40)] {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[test]
fn the_page_of_vmclock_is_read_at_a_value_of_the_counter() {
    let read = |bytes: &[u8], counter, now| page(bytes, counter, now, 10).unwrap().clock.unwrap();
    let now = 2_000 * SECOND;
    let utc = read(&vmclock(0, 2, 0), 1_000_005_000, now);
    assert!((utc.behind_ns - SECOND).abs() <= 1 && utc.aside.is_none(), "{utc:?}");
    assert_eq!(utc.error_ns, 50, "its own, and the window's");
    let before = read(&vmclock(0, 2, 0), 4_000, now);
    assert!((before.behind_ns + 1_000).abs() <= 1, "{before:?}");
    let tai = read(&vmclock(1, 3, 37), 5_000, now - 37 * SECOND);
    assert_eq!((tai.behind_ns, tai.aside), (0, None));
}

#[test]
fn a_page_of_vmclock_that_proves_nothing_is_set_aside() {
    let now = 2_000 * SECOND;
    let read = |bytes: &[u8]| page(bytes, 5_000, now, 10);
    let why = |bytes: &[u8]| read(bytes).unwrap().clock.unwrap().aside;
    for status in [0, 1, 4, 9] {
        assert!(why(&vmclock(0, status, 0)).is_some(), "status {status}");
    }
    for smeared in [2, 3, 4] {
        assert!(why(&vmclock(smeared, 2, 0)).is_some());
    }
    let mut no_offset = vmclock(1, 2, 37);
    no_offset[24] = 0;
    assert!(why(&no_offset).is_some());
    // The guest's time is that of the host, if the offset is taken with the other sign.
    let turned = page(&vmclock(1, 2, -37), 5_000, now - 37 * SECOND, 10).unwrap();
    assert!(turned.clock.unwrap().aside.is_some());
    let mut leap = vmclock(0, 2, 0);
    (leap[35], leap[38]) = (1, 1);
    assert!(why(&leap).is_some());
    let mut marker_only = vmclock(0, 0, 0);
    marker_only[10] = 0xff;
    assert_eq!(read(&marker_only), Some(Page { disruption_marker: 3, clock: None }));
    assert_eq!((read(b"VCLK"), read(&[0; 4096])), (None, None));
}

proptest::proptest! {
    #[test]
    fn no_page_and_no_figure_ends_the_program(
        mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..128),
        counter: u64, now: i64, seconds: i64, limit: i64,
    ) {
        if bytes.len() > 10 {
            bytes[..4].copy_from_slice(b"VCLK");
            bytes[8..11].copy_from_slice(&[1, 0, 1]);
        }
        let read = page(&bytes, counter, now, 1).and_then(|page| page.clock);
        let mut references = vec![Reference::rtc(seconds, now, Some(1), false), host(now, seconds)];
        references.extend(read);
        let comparison = at(references, Some(Word::new(None, now, seconds)));
        comparison.weighed(true, Some(0.0)).within(limit);
    }
}
