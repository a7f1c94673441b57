//! Logs with the newest line first, as `journalctl -r` prints them and some viewers save them.

use super::json::message_of;
use super::prefix::MONTHS;

/// Number of decreases, without an increase, that prove the order: two.
const DOWN_FROM: usize = 2;
/// Minimum ratio of decreases to increases. A log of several boots has increases where stamps restart, and CPUs may
/// print at the same time.
const DOWN_FOR_UP: usize = 4;
/// Minimum number of digits of a time.
const DIGITS: usize = 7;

/// The lines in the opposite order.
pub(super) fn turned(text: &[u8]) -> Vec<u8> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let lines: Vec<&[u8]> = text.rsplit(|byte| *byte == b'\n').collect();
    lines.join(&b'\n')
}

/// Whether the times of the lines decrease.
pub(super) fn is_newest_first(head: &[u8]) -> bool {
    let (mut downs, mut ups, mut last) = (0, 0, [const { None }; 3]);
    for line in head.split(|byte| *byte == b'\n').map(message_of) {
        let Some((form, time)) = time(&line) else { continue };
        // The longer of two stamps is the larger one; dates have one length.
        let time = (time.len(), time);
        let before = last[form].replace(time.clone()).unwrap_or(time.clone());
        downs += usize::from(time < before);
        ups += usize::from(time > before);
    }
    downs >= DOWN_FROM && downs >= ups * DOWN_FOR_UP
}

/// The time before a line, and the number of its format: only times of the same format can be compared.
fn time(line: &[u8]) -> Option<(usize, Vec<u8>)> {
    let (form, time) = match line.first()? {
        b'[' => {
            let stamp = line[1..].trim_ascii_start();
            let is_number = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
            (0, &stamp[..stamp.iter().take_while(is_number).count()])
        }
        b'0'..=b'9' => (1, line.get(.."2026-11-24T11:00:02".len())?),
        b'A'..=b'Z' => (2, line.get(.."Nov 24 11:52:52".len())?),
        _ => return None,
    };
    let digits = time.iter().filter(|byte| byte.is_ascii_digit()).count();
    let mut time = time.to_vec();
    if form == 2 {
        // Months are compared by their numbers.
        let month = MONTHS.iter().zip(b'a'..).find(|(name, _)| time.starts_with(name.as_bytes()));
        time[0] = month?.1;
    }
    (digits >= DIGITS).then_some((form, time))
}

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
}
