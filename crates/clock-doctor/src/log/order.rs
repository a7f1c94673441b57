//! Logs with the newest line first, as `journalctl -r` prints them and some viewers save them.

use std::cmp::Ordering;
use std::io::{self, Read};

use super::prefix::MONTHS;

/// Bytes that are examined to find the order: some hundred lines.
const HEAD: u64 = 64 << 10;
/// Maximum size of a log that is reversed, in bytes, counted from its beginning with the newest lines.
const TURNED_MAX: u64 = 32 << 20;
/// Number of decreases, without an increase, that prove the order: two.
const DOWN_FROM: usize = 2;
/// Minimum ratio of decreases to increases. A log of several boots has increases where stamps restart, and CPUs may
/// print at the same time.
const DOWN_FOR_UP: usize = 4;

/// Minimum number of digits of a time.
const DIGITS: usize = 7;

/// The order of a log, with the bytes read.
pub(super) enum Order {
    /// The oldest line comes first: the bytes that have been read so far.
    OldestFirst(Vec<u8>),
    /// The newest line came first: the reversed log, and the number of bytes left out at its old end.
    Turned(Vec<u8>, u64),
}

/// Reads the beginning, and the whole log if its newest line comes first.
///
/// # Errors
///
/// Those of `bytes`.
pub(super) fn of(bytes: &mut dyn Read) -> io::Result<Order> {
    let mut head = Vec::new();
    Read::take(&mut *bytes, HEAD).read_to_end(&mut head)?;
    if !is_newest_first(&head) {
        return Ok(Order::OldestFirst(head));
    }
    Read::take(&mut *bytes, TURNED_MAX - HEAD).read_to_end(&mut head)?;
    let left_out = io::copy(bytes, &mut io::sink())?;
    if left_out > 0 {
        // The last line is incomplete.
        head.truncate(head.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
    }
    Ok(Order::Turned(turned(&head), left_out))
}

fn turned(text: &[u8]) -> Vec<u8> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let mut out = Vec::with_capacity(text.len() + 1);
    for line in text.rsplit(|byte| *byte == b'\n') {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out
}

/// Whether the times of the lines decrease.
fn is_newest_first(head: &[u8]) -> bool {
    let (mut downs, mut ups, mut last) = (0, 0, [None; 3]);
    for (form, time) in head.split(|byte| *byte == b'\n').filter_map(time) {
        match last[form].replace(time).map(|before| time.cmp(&before)) {
            Some(Ordering::Less) => downs += 1,
            Some(Ordering::Greater) => ups += 1,
            _ => {}
        }
    }
    downs >= DOWN_FROM && downs >= ups * DOWN_FOR_UP
}

/// A time in a form that orders correctly: a number, then a text to order times with the same number.
type Time<'a> = (usize, &'a [u8]);

/// The time before a line, and the number of its format: only times of the same format can be compared.
fn time(line: &[u8]) -> Option<(usize, Time<'_>)> {
    let (form, time) = match line.first()? {
        // "[    0.000000] ": the longer of two numbers of a form is the larger one.
        b'[' => {
            let end = line.iter().take(STAMP_MAX).position(|byte| *byte == b']')?;
            let stamp = line[1..end].trim_ascii();
            // Without additions of some kernels after it, such as the CPU. For a date, as `dmesg -T` prints, nothing
            // remains.
            let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
            let number = &stamp[..stamp.iter().take_while(|byte| is_number(byte)).count()];
            (0, (number.len(), number))
        }
        b'0'..=b'9' => (1, (0, line.get(.."2026-11-24T11:00:02".len())?)),
        b'A'..=b'Z' => {
            let time = line.get(.."Nov 24 11:52:52".len())?;
            let month = MONTHS.iter().position(|month| time.starts_with(month.as_bytes()))?;
            (2, (month, time))
        }
        _ => return None,
    };
    let digits = time.1.iter().filter(|byte| byte.is_ascii_digit()).count();
    (digits >= DIGITS).then_some((form, time))
}

/// Maximum length of a stamp in seconds with its fraction, in bytes.
const STAMP_MAX: usize = 40;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::reader::read;

    const JOURNAL: &str = include_str!("order_journal.txt");

    fn reversed(text: &str) -> String {
        text.lines().rev().fold(String::new(), |all, line| all + line + "\n")
    }

    #[test]
    fn a_reversed_log_says_the_same_and_quotes_the_lines_as_they_stand() {
        let whole = read(&mut JOURNAL.as_bytes(), "journalctl").unwrap();
        let back = reversed(JOURNAL);
        let turned = read(&mut back.as_bytes(), "journalctl").unwrap();
        let kinds = |log: &crate::facts::Log| {
            log.events.iter().map(|event| event.kind.clone()).collect::<Vec<_>>()
        };
        assert!(kinds(&whole).len() >= 6, "{:?}", whole.events);
        assert_eq!(kinds(&turned), kinds(&whole));
        assert_eq!(
            (turned.lines, turned.boots, turned.begins_at_boot),
            (whole.lines, whole.boots, whole.begins_at_boot)
        );
        for event in &turned.events {
            let line = usize::try_from(event.evidence.line.unwrap()).unwrap();
            assert!(
                back.lines().nth(line - 1).unwrap().ends_with(&event.evidence.text),
                "{:?}",
                event.evidence
            );
        }
    }

    #[test]
    fn of_several_boots_the_newest_counts_whichever_comes_first() {
        let boot = |day: u32, source: &str| {
            format!(
                "Nov {day} 11:52:52 web kernel: Linux version 6.1.0-{day}\nNov {day} 11:52:53 web kernel: Booting\n\
                 Nov {day} 11:52:54 web kernel: clocksource: Switched to clocksource {source}\n"
            )
        };
        let text = format!("{}-- Boot 0f --\n{}", boot(3, "tsc"), boot(4, "hpet"));
        for text in [reversed(&text), text] {
            let log = read(&mut text.as_bytes(), "journalctl").unwrap();
            let shown: Vec<&str> =
                log.events.iter().map(|event| event.evidence.text.as_str()).collect();
            assert_eq!(log.boots, 2, "{shown:?}");
            assert!(
                shown.iter().any(|text| text.contains("hpet"))
                    && !shown.iter().any(|text| text.contains("tsc")),
                "{shown:?}"
            );
        }
    }

    /// Logs, with their lines separated by ` / `: `+` if the newest line comes first, `-` if not, and `-+` if it does
    /// in the reversed log. `#` begins a remark.
    const TIMES: &str = include_str!("order_times.txt");

    #[test]
    fn only_times_that_go_down_turn_a_log_round() {
        let rows = TIMES.lines().filter(|row| !row.starts_with('#'));
        assert_eq!(rows.clone().count(), 16);
        for (mark, row) in rows.filter_map(|row| row.split_once(' ')) {
            let text = row.replace(" / ", "\n") + "\n";
            assert_eq!(is_newest_first(text.as_bytes()), mark == "+", "{text}");
            if mark == "-+" {
                assert!(is_newest_first(reversed(&text).as_bytes()), "reversed: {text}");
            }
        }
        assert!(!is_newest_first(b""));
    }

    #[test]
    fn an_endless_reversed_log_takes_no_memory_for_its_old_end() {
        let mut text = String::new();
        let mut second = 80_000_000;
        while text.len() < usize::try_from(TURNED_MAX).unwrap() + 1000 {
            text += &format!(
                "[{second}.000000] a line that says nothing of clocks, as most do, and goes on\n"
            );
            second -= 1;
        }
        let Order::Turned(turned, left_out) = of(&mut text.as_bytes()).unwrap() else {
            panic!("it is not turned")
        };
        assert!(left_out > 0 && turned.len() as u64 <= TURNED_MAX);
        let first = &turned[..turned.iter().position(|byte| *byte == b'\n').unwrap()];
        assert!(first.starts_with(b"[") && first.ends_with(b"goes on"), "half a line");
    }
}
