//! The live view with made-up readings, drawn on terminals of several sizes.

use std::time::Duration;

use proptest::prelude::*;

use super::plain::PlainLines;
use super::reading::{Reading, Row};
use super::screen::Screen;
use clockscope_model::callers::Called;
use clockscope_text::lines;

const MONOTONIC: Called = Called::Vdso(1);
const FUTEX: Called = Called::Syscall(202);

fn row(key: Called, name: &str, calls: u64, time_ns: u64) -> Row {
    let is_clock = name.starts_with("clock_gettime") || name == "gettimeofday";
    Row { key, name: name.to_owned(), calls, time_ns, is_clock, waits: name == "futex" }
}

/// The counts after so many seconds of a program that reads the clock ever more often.
fn reading(seconds: u64) -> Reading {
    let calls: u64 = (1..=seconds).map(|second| second * 1_000).sum();
    let rows = vec![
        row(FUTEX, "futex", seconds * 200, seconds * 200 * 3_000),
        row(MONOTONIC, "clock_gettime(MONOTONIC)", calls, calls * 25),
        row(Called::Vdso(24), "gettimeofday", 7, 0),
    ];
    Reading { at: Duration::from_secs(seconds), processes: 2, rows }
}

fn screen(seconds: u64, is_ascii: bool) -> Screen {
    let mut screen = Screen::new("./server --port 80".to_owned(), is_ascii);
    (1..=seconds).for_each(|second| screen.read(reading(second)));
    screen
}

#[test]
fn rates_are_those_of_the_last_second_and_shares_those_of_a_processor() {
    insta::assert_snapshot!(screen(12, false).draw(80, 24).join("\n"));
}

#[test]
fn a_small_terminal_has_the_rates() {
    let drawn = screen(12, true).draw(40, 7);
    assert_eq!(drawn.len(), 7);
    assert_eq!(drawn[5].split_whitespace().nth(1), Some("12,000"), "{drawn:#?}");
    assert!(drawn[6].starts_with("q quit") && drawn.join("").is_ascii(), "{drawn:#?}");
}

#[test]
fn no_rows_yet() {
    let drawn = Screen::default().draw(80, 24);
    assert_eq!(drawn[5], "no calls yet", "{drawn:#?}");
}

#[test]
fn hostile_names_are_printable() {
    let mut screen = Screen::new("名前\x1b[2J".repeat(50), false);
    let rows = vec![
        row(Called::Vdso(30), &"時計を読む関数の名前".repeat(9), 2, 0),
        row(Called::Vdso(31), "a\x1b[31mred\u{202e}\n", 1, 0),
    ];
    screen.read(Reading { at: Duration::from_secs(1), processes: 1, rows });
    let drawn = screen.draw(80, 24);
    assert!(!drawn.concat().contains(['\x1b', '\u{202e}', '\n']), "{drawn:?}");
}

#[test]
fn lines_for_pipes_add_up() {
    let mut plain = PlainLines::default();
    let lines: Vec<String> =
        (1..=3).map(|second| plain.next(&reading(second), 1_763_784_000)).collect();
    assert_eq!(
        lines[1],
        "2025-11-22T04:00:00Z +1s vdso 2000 syscalls 200 clock_gettime(MONOTONIC) 2000 \
         sys_futex 200\n"
    );
    let said = |name: &str| -> u64 {
        let of = |line: &String| {
            let mut words = line.split_whitespace().skip_while(|word| *word != name);
            words.nth(1).map_or(0, |calls| calls.parse().expect("a number"))
        };
        lines.iter().map(of).sum()
    };
    assert_eq!(said("clock_gettime(MONOTONIC)"), 6_000);
    assert_eq!((said("gettimeofday"), said("sys_futex")), (7, 600));
    assert_eq!((said("vdso"), said("syscalls")), (6_007, 600));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_size_and_no_numbers_break_it(
        width in 0_usize..220,
        height in 0_usize..60,
        rows in prop::collection::vec((0_u32..9, "\\PC{0,90}", any::<u64>(), any::<u64>()), 0..40),
        seconds in prop::collection::vec(0_u64..1 << 40, 1..4),
        is_ascii in any::<bool>(),
    ) {
        let mut screen = Screen::new("program".to_owned(), is_ascii);
        for at in seconds {
            let rows = rows.iter().map(|(number, name, calls, time)| {
                let key = if number % 2 == 0 { Called::Syscall(*number) } else { Called::Vdso(5) };
                row(key, name, calls.wrapping_add(at), *time)
            });
            screen.read(Reading { at: Duration::from_millis(at), processes: at, rows: rows.collect() });
            let drawn = screen.draw(width, height);
            prop_assert!(drawn.len() <= height);
            prop_assert!(drawn.iter().all(|line| lines::width(line) <= width), "{drawn:#?}");
            prop_assert!(drawn.concat().is_ascii() || !is_ascii);
        }
    }
}
