//! Tests with whole logs: boots, folds, damage, size.

use proptest::prelude::*;

use super::*;
use crate::log::event::{Count, Mark, Role};
use crate::report::case_tests;

fn log(text: &str) -> Log {
    read(&mut text.as_bytes(), "dmesg").unwrap()
}

fn texts(log: &Log) -> Vec<&str> {
    log.events.iter().map(|event| event.evidence.text.as_str()).collect()
}

/// Gives `size` bytes at a time.
struct Sips<'a>(&'a [u8], usize);

impl Read for Sips<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.1.min(buffer.len()).min(self.0.len());
        let (now, later) = self.0.split_at(size);
        buffer[..size].copy_from_slice(now);
        self.0 = later;
        Ok(size)
    }
}

/// Gives `unit` again and again, `left` bytes in all.
struct Endless<'a> {
    unit: &'a [u8],
    at: usize,
    left: usize,
}

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.unit[self.at..];
        let size = rest.len().min(buffer.len()).min(self.left);
        buffer[..size].copy_from_slice(&rest[..size]);
        self.at = (self.at + size) % self.unit.len();
        self.left -= size;
        Ok(size)
    }
}

fn cases() -> Vec<(String, Vec<u8>)> {
    let mut logs = Vec::new();
    for (_, case) in case_tests::cases() {
        for file in std::fs::read_dir(case.join("var/log")).into_iter().flatten() {
            let path = file.unwrap().path();
            logs.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    assert!(logs.len() > 25, "{}", logs.len());
    logs.sort();
    logs
}

#[test]
fn of_real_logs_no_line_on_clocks_is_passed_over() {
    const SPEAKS: [&str; 9] = [
        "clocksource",
        "TSC",
        "tsc:",
        "watchdog",
        "HPET",
        "PM-Timer",
        "Hypervisor",
        "Linux version",
        "ommand line",
    ];
    // These lines report a normal state.
    const USUAL: [&str; 10] = [
        "clocksource_wdtest: --- ",
        "Checking clocksource",
        "Fast TSC calibration using PIT",
        "tsc: using CPUID[0x15]",
        "TSC deadline timer",
        "TSC scaling supported",
        "not consistent with PM-Timer",
        "Dependent on hypervisor",
        "Statistical TSC calibration",
        "Timecounter",
    ];
    for (path, bytes) in cases() {
        let log = read(&mut &bytes[..], "log").unwrap();
        let text = String::from_utf8(bytes).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            let speaks = SPEAKS.iter().any(|word| line.contains(word));
            let is_usual = USUAL.iter().any(|word| line.contains(word));
            let event = log.events.iter().find(|event| event.evidence.line == Some(number));
            let rest = log.events.iter().find(|event| event.evidence.line == Some(number - 1));
            let is_rest =
                |event: &Event| event.evidence.text.ends_with(line.trim_start_matches("> "));
            if rest.is_some_and(is_rest) {
                continue;
            }
            assert_eq!(event.is_some(), event.is_some() || (speaks && !is_usual), "{path}: {line}");
            if let Some(event) = event {
                let next = text.lines().nth(usize::try_from(number).unwrap()).unwrap_or_default();
                let text = event.evidence.text.rsplit("] ").next().unwrap();
                let line = line.trim_end();
                let next = next.trim_start_matches("> ");
                let joined = format!("{line} {next}\n{}{next}", line.trim_end_matches('='));
                assert!(joined.contains(text), "{line}: {text}");
            }
        }
        assert_eq!((log.left_out.len(), log.boots), (0, 1), "{path}");
        assert_eq!(log.lines, text.lines().count() as u64, "{path}");
    }
}

#[test]
fn the_beginning_is_told() {
    for (text, begins) in [
        ("[    0.000000] Linux version 5.10.0\n", true),
        ("Sep 11 07:03:06 kernel: Linux version 5.10.0\n", true),
        ("\n[    0.388445] Monitor-Mwait will be used\n", true),
        ("[   41.885195] tsc: Marking TSC unstable due to x\n[    0.1] tsc: x\n", false),
        ("tsc: Marking TSC unstable due to x\n", false),
    ] {
        assert_eq!(log(text).begins_at_boot, begins, "{text}");
    }
    assert_eq!(log(""), Log { file: "dmesg".into(), ..Log::default() });
}

#[test]
fn the_last_boot_counts() {
    let two = "[    0.000000] Linux version 5.10.0-1\n[    0.1] Measured 5 cycles TSC warp\n\
        [    9.0] clocksource: Switched to clocksource hpet\n\
        [    0.000000] Booting Linux on physical CPU 0x0\n\
        [    0.000000] Linux version 5.10.0-1\n[    2.0] clocksource: Switched to clocksource tsc\n";
    let read = log(two);
    assert_eq!((read.boots, read.lines, read.begins_at_boot), (2, 6, true));
    assert_eq!(
        texts(&read),
        [
            "[    0.000000] Booting Linux on physical CPU 0x0",
            "[    0.000000] Linux version 5.10.0-1",
            "[    2.0] clocksource: Switched to clocksource tsc",
        ]
    );
    assert_eq!(read.events[0].evidence.line, Some(4));
}

#[test]
fn a_line_that_two_loggers_wrote_is_one_boot() {
    let doubled = "host kernel: [    0.000000] Linux version 5.10.0-1 (a)\n\
        host kernel: Linux version 5.10.0-1 (a)\n\
        host kernel: [    0.000000] Command line: ro\nhost kernel: Command line: ro\n\
        host kernel: [    0.000000] DMI: x\n";
    let read = log(doubled);
    assert_eq!((read.boots, read.events.len()), (1, 5));
    // The same text is another boot if another event came in between.
    let twice = "Linux version 5.10.0-1 (a)\nMarking TSC unstable due to x\n\
        Linux version 5.10.0-1 (a)\nSwitching to clocksource tsc\n";
    assert_eq!((log(twice).boots, log(twice).events.len()), (2, 2));
}

#[test]
fn a_journal_marks_boots() {
    let text = "May  6 11:52:52 host kernel: clocksource: Switched to clocksource hpet\n\
        -- Boot 3f0a7b2c0d1e4f5a8b9c0d1e2f3a4b5c --\n\
        May  6 11:53:52 host kernel: clocksource: Switched to clocksource tsc\n";
    let read = log(text);
    assert_eq!(texts(&read), ["clocksource: Switched to clocksource tsc"]);
    assert!(!read.begins_at_boot);
    let both = log(&text.replace("c --\n", "c --\nhost kernel: Linux version 6.1.0\n"));
    assert_eq!((both.boots, both.begins_at_boot, both.events.len()), (1, true, 2));
}

#[test]
fn folded_lines_are_joined() {
    let folded = "> [   19.996287] clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc-early'\n\
        > as unstable because the skew is too large:\n\
        > [   20.040287] clocksource:                       'refined-jiffies' wd_nsec: 503923392 wd_now:\n\
        > fffb73f8 wd_last: fffb7200 mask: ffffffff\n\
        [   20.067286] clocksource:                       'tsc-early' cs_nsec: 588021368 cs_now:\n\
        [   20.111286] tsc: Marking TSC unstable due to clocksource watchdog\n";
    let read = log(folded);
    let kinds: Vec<&EventKind> = read.events.iter().map(|event| &event.kind).collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    assert_eq!(kinds[0], &EventKind::Marked { name: "tsc-early".into(), why: Mark::Skew });
    let EventKind::Reading(Role::Reference, Count { now: 0xfffb_73f8, last: 0xfffb_7200, .. }) =
        kinds[1]
    else {
        panic!("{kinds:?}");
    };
    assert_eq!(read.events[1].at, Some(20.040_287));
    assert!(read.events[0].evidence.text.ends_with("too large:"));
    // At the end of the log, an incomplete line counts.
    let end = log("clocksource: Marking clocksource 'tsc' as");
    assert_eq!(end.events[0].kind, EventKind::Marked { name: "tsc".into(), why: Mark::Unstated });
}

#[test]
fn a_mails_encoding_is_taken_out_and_numbers_stay() {
    let read = log("[    0.000000] Command line: ro mem=2000M tsc=3Dreliable hpet=20\n");
    let line = "ro mem=2000M tsc=reliable hpet=20".to_owned();
    assert_eq!(read.events[0].kind, EventKind::CommandLine(line));
}

#[test]
fn lines_that_a_fold_split_anywhere_are_joined() {
    let switched = |name: &str| vec![EventKind::Switched(name.to_owned())];
    let refined = vec![EventKind::Refined(2400.126)];
    for (text, kinds) in [
        ("[   1.0] clocksource: Switched to clocksource tsc-ea\nrly\n", switched("tsc-early")),
        ("[   1.0] clocksource: Switched to clocksource tsc\nStarting\n", switched("tsc")),
        ("[   1.0] clocksource: Switched to clocksource kvm-cl...\n", switched("kvm-clock")),
        ("[   1.0] tsc: Refined TSC clocksource calibration: 24=\n00.126 MHz\n", refined.clone()),
        ("[   1.0] tsc: Refined TSC clocksource calibration:\n> 2400.126 MHz\n", refined),
        // The name may be any of Hyper-V's clocksources, and half a number is no number.
        ("[   1.0] clocksource: Switched to clocksource hyperv_cl\n", vec![]),
        ("clocksource: 'tsc' cs_now: 3b38b8 cs_last: 3b37\n\n4676 mask: ff\n", vec![]),
    ] {
        let found: Vec<_> = log(text).events.into_iter().map(|event| event.kind).collect();
        assert_eq!(found, kinds, "{text}");
    }
}

#[test]
fn damage_is_borne() {
    let text = b"\xff\xfe\0\0\0\0[    0.5] tsc: Detected 1900.000 MHz TSC\0\0garbage \xc3\x28\r\n\
        [    1.0] clocksource: Switched to clocksource tsc\r\n\x1b[33m[    2.0] \x1b[0mHyper-V: \xe9\x1b]0;x\x07";
    let read = read(&mut &text[..], "dmesg").unwrap();
    assert_eq!(
        texts(&read),
        [
            "[    0.5] tsc: Detected 1900.000 MHz TSC",
            "[    1.0] clocksource: Switched to clocksource tsc",
            "[    2.0] Hyper-V: \u{fffd}",
        ]
    );
    assert_eq!(read.lines, 3);
    assert_eq!(read.events[1].evidence.line, Some(2));
}

#[test]
fn colours_of_grep_do_not_hide_words() {
    let red = |word: &str| format!("\x1b[01;31m\x1b[K{word}\x1b[m\x1b[K");
    let text = format!("[    1.0] Linux\n{0}source: Switched to {0}source hpet\n", red("clock"));
    assert_eq!(texts(&log(&text)), ["clocksource: Switched to clocksource hpet"]);
}

#[test]
fn long_lines_are_cut() {
    let long =
        format!("{}TSC warp\nCommand line: {}\nx", "x".repeat(1 << 20), "a ".repeat(1 << 16));
    let read = log(&long);
    assert_eq!(read.lines, 3);
    let [Event { kind: EventKind::CommandLine(line), evidence, .. }] = &read.events[..] else {
        panic!("{read:?}");
    };
    assert!(line.len() <= LINE && line.len() > 4000, "{}", line.len());
    assert!(evidence.text.len() <= TEXT_MAX);
}

#[test]
fn errors_of_the_stream_are_passed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }
    assert_eq!(read(&mut Broken, "dmesg").unwrap_err().to_string(), "broken");
}

const EPISODE: &str = "\
[ 8996.144253] clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unstable because the skew is too large:
[ 8996.144260] clocksource:                       'hpet' wd_nsec: 503923392 wd_now: f4b7d wd_last: 6c50c5 mask: ffffffff
[ 8996.144261] clocksource:                       'tsc' cs_nsec: 503646106 cs_now: 1ca324f62cac cs_last: 1ca0b7a50c00 mask: ffffffffffffffff
[ 8996.144262] clocksource:                       'tsc' is current clocksource.
[ 8996.144274] tsc: Marking TSC unstable due to clocksource watchdog
[ 8996.146113] clocksource: Switched to clocksource acpi_pm
";

#[test]
fn of_a_large_log_a_part_is_kept() {
    let mut large = Endless { unit: EPISODE.as_bytes(), at: 0, left: 16 << 20 }.chain(
        &b"\nclocksource: Switched to clocksource tsc\nclocksource: 'tsc' is current clocksource.\n"[..],
    );
    let log = read(&mut large, "dmesg").unwrap();
    assert!(log.events.len() < 4096, "{}", log.events.len());
    let left_out: u64 = log.left_out.values().sum();
    assert!(left_out > 100_000, "{left_out}");
    assert!(log.events.is_sorted_by_key(|event| event.evidence.line));
    assert_eq!(log.events[0].evidence.line, Some(1));
    let is_switch = |event: &&Event| matches!(event.kind, EventKind::Switched(_));
    let last = log.events.iter().rfind(is_switch).unwrap();
    assert_eq!(last.kind, EventKind::Switched("tsc".into()));
    // Each mark that is kept has its readings.
    let is_of_watchdog =
        |one: &&Event| matches!(one.kind, EventKind::Marked { .. } | EventKind::Reading(..));
    let kinds: Vec<&Event> = log.events.iter().filter(is_of_watchdog).collect();
    for three in kinds.chunks(3).take(kinds.len() / 3) {
        let lines: Vec<u64> = three.iter().filter_map(|event| event.evidence.line).collect();
        assert!(matches!(three[0].kind, EventKind::Marked { .. }), "{three:?}");
        assert_eq!((lines[1], lines[2]), (lines[0] + 1, lines[0] + 2));
    }
}

#[test]
fn large_logs_of_nothing_are_passed_over() {
    for unit in
        ["x", "\n", "\0", "a line of ordinary text\n", "TSC warp \u{1b}", "Linux version 5.1\n"]
    {
        let mut large = Endless { unit: unit.as_bytes(), at: 0, left: 1 << 20 };
        let log = read(&mut large, "dmesg").unwrap();
        // Copies of one line within ten lines.
        assert!(log.events.len() <= 11, "{unit:?}: {} events", log.events.len());
        let per_unit = unit.matches('\n').count() as u64;
        assert!(log.lines.abs_diff((1 << 20) * per_unit / unit.len() as u64) <= 1, "{unit:?}");
    }
}

/// Pieces that are combined into logs.
const PIECES: [&str; 22] = [
    "[    0.000000] ",
    "Linux version 5.10.0 x",
    "clocksource: Switched to clocksource tsc",
    "clocksource: Marking clocksource 'tsc' as",
    " unstable because the skew is too large:",
    "'hpet' wd_now: 12 wd_last:",
    " 11 mask: ffffffff",
    "Measured 55 cycles TSC warp between",
    "\n",
    "\n",
    "\r\n",
    "\0",
    "x",
    "\x1b[31m",
    "\x1b",
    "\u{fffd}",
    "-- Reboot --",
    "Hyper-V: ",
    "> ",
    "TSC",
    "Booting Linux on physical CPU",
    "\t",
];

#[test]
fn a_line_that_says_nothing_is_not_joined_with_one_that_is_whole() {
    let log =
        read(&mut &b"> [    0.000000] [    0.000000] [    0.000000] \nHyper-V: x\n"[..], "log")
            .unwrap();
    let [event] = &log.events[..] else { panic!("{log:?}") };
    assert_eq!((event.evidence.line, event.evidence.text.as_str()), (Some(2), "Hyper-V: x"));
}

proptest! {
    #[test]
    fn any_bytes_give_the_same_by_any_reader(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..60),
        noise in prop::collection::vec(any::<u8>(), 0..40),
        at in 0_usize..60,
        limit in 8_usize..80,
        more in 1_usize..40,
        sip in 1_usize..50,
    ) {
        let mut bytes = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            bytes.extend_from_slice(piece.as_bytes());
            if index == at {
                bytes.extend_from_slice(&noise);
            }
        }
        let whole = read_within(&mut &bytes[..], "log", limit, 1 << 16).unwrap();
        let blocks = read_within(&mut &bytes[..], "log", limit, more).unwrap();
        prop_assert_eq!(&whole, &blocks);
        let sips = read_within(&mut Sips(&bytes, sip), "log", limit, limit + more).unwrap();
        prop_assert_eq!(&whole, &sips);
        prop_assert_eq!(whole.lines, String::from_utf8_lossy(&bytes).split_inclusive('\n').count() as u64);
        for event in &whole.events {
            let text = &event.evidence.text;
            prop_assert!(!text.chars().any(char::is_control) && text.chars().count() <= TEXT_MAX);
            // The shown text has no prefix any more.
            let again = shown(&prefix::split(text));
            prop_assert_eq!(&again, text);
        }
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let log = read(&mut &bytes[..], "log");
        let sipped = read(&mut Sips(&bytes, 1), "log");
        // Bytes that begin as a packed file, and are none, are refused.
        let packed: [&[u8]; 4] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"];
        if log.is_err() && packed.iter().any(|begin| bytes.starts_with(begin)) {
            prop_assert!(sipped.is_err());
        } else {
            prop_assert_eq!(log.unwrap(), sipped.unwrap());
        }
    }
}
