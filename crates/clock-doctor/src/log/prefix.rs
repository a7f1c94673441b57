//! Removes the prefixes of loggers, mail programs and archives from a line of the kernel.

mod dates;
mod stamps;

pub(super) use dates::MONTHS;

/// A line, split into prefix and message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Split<'a> {
    /// Seconds since the kernel's start.
    pub(crate) at: Option<f64>,
    /// The stamp's text between the brackets, with its blanks.
    pub(crate) stamp: Option<&'a str>,
    /// Offset of the message in the line.
    pub(crate) start: usize,
    /// The message of the kernel or a service.
    pub(crate) message: &'a str,
    /// The prefix consists of blanks and quotation marks of mails only.
    pub(crate) is_bare: bool,
}

/// Marks of quoted mails, of tables and of folded text.
const QUOTES: [char; 5] = [' ', '>', '|', '│', '\u{a0}'];
/// Offset within which a line's stamp is searched, in bytes.
const STAMP_WITHIN: usize = 160;

/// The prefixes removed so far.
#[derive(Clone, Copy, Debug, Default)]
struct Seen<'a> {
    stamp: Option<(f64, &'a str)>,
    /// A date, or a stamp: a host name may follow.
    time: bool,
}

/// Splits a line without control characters. Splitting the shown part of a line again changes nothing.
pub(crate) fn split(line: &str) -> Split<'_> {
    let mut seen = Seen::default();
    let quoted = line.trim_start_matches(QUOTES).trim_end();
    let mut rest = quoted;
    while let Some(after) = step(rest, &mut seen) {
        rest = after.trim_start_matches([' ', '\u{a0}']);
    }
    Split {
        at: seen.stamp.map(|(at, _)| at),
        stamp: seen.stamp.map(|(_, text)| text),
        start: line.trim_end().len() - rest.len(),
        message: rest,
        is_bare: rest.len() == quoted.len(),
    }
}

/// `-- Boot ID --` and `-- Reboot --` of `journalctl`: another boot follows.
pub(crate) fn is_boot_mark(message: &str) -> bool {
    let inner = message.strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --"));
    inner.is_some_and(|inner| inner == "Reboot" || inner.starts_with("Boot "))
}

/// Removes one prefix; `None` if there is none.
fn step<'a>(text: &'a str, seen: &mut Seen<'a>) -> Option<&'a str> {
    let known = match *text.as_bytes().first()? {
        b'[' => bracket(text, seen),
        b'<' => level(text),
        b'>' | b' ' | b'|' => Some(&text[1..]),
        // After the time in brackets of `talosctl dmesg`.
        b':' if seen.time => text.strip_prefix(": "),
        _ => named(text, seen),
    };
    if known.is_some() || seen.stamp.is_some() {
        return known;
    }
    // Text before the kernel's stamp is not part of the message: names of consoles, pods and guests.
    before_stamp(text, seen)
}

fn bracket<'a>(text: &'a str, seen: &mut Seen<'a>) -> Option<&'a str> {
    let (inner, after) = text[1..].split_once(']')?;
    if let Some(stamp) = stamps::stamp(inner) {
        seen.stamp = Some(stamp);
        seen.time = true;
        return Some(after);
    }
    let is_time = dates::taken_off(inner).is_some_and(str::is_empty);
    seen.time |= is_time;
    (is_time || stamps::is_caller(inner)).then_some(after)
}

/// `guest-1  | [    0.000000] `: the first stamp with the kernel's six places, if it is near.
fn before_stamp<'a>(text: &'a str, seen: &mut Seen<'a>) -> Option<&'a str> {
    let brackets = text.match_indices('[').take_while(|(at, _)| *at < STAMP_WITHIN);
    brackets.skip_while(|(at, _)| *at == 0).find_map(|(at, _)| {
        let (inner, after) = text[at + 1..].split_once(']')?;
        let (seconds, shown) = stamps::stamp(inner)?;
        let places = shown.rsplit_once('.').map_or(0, |(_, places)| places.len());
        if places != 6 || after.starts_with(|c: char| !matches!(c, ' ' | '[')) {
            return None;
        }
        seen.stamp = Some((seconds, shown));
        seen.time = true;
        Some(after)
    })
}

/// `<4>`, and `<30>` of the system log's services.
fn level(text: &str) -> Option<&str> {
    let (number, after) = text[1..].split_once('>')?;
    let is_number = matches!(number.len(), 1..=3) && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(after)
}

/// `192.0.2.21:` of `talosctl dmesg`, before the facility.
fn node(text: &str) -> Option<&str> {
    let (address, after) = text.split_once(": ")?;
    let is_address = address.bytes().all(|byte| byte.is_ascii_hexdigit() || b".:".contains(&byte));
    let (word, rest) = after.split_once(' ')?;
    (is_address && facility(word, rest.trim_start()).is_some()).then_some(after)
}

/// Words as prefix: a date, an address, a facility, a host, a tag.
fn named<'a>(text: &'a str, seen: &mut Seen<'a>) -> Option<&'a str> {
    // The most frequent beginnings of messages; they are not names of hosts or files.
    if text.starts_with("clocksource:") || text.starts_with("tsc:") {
        return None;
    }
    if let Some(after) = dates::taken_off(text) {
        seen.time = true;
        return Some(after);
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return node(text);
    }
    let end = text.find(' ').unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    let after = after.trim_start_matches(' ');
    if is_tag_of_kernel(word) {
        return Some(after);
    }
    facility(word, after).or_else(|| host(word, after, seen.time))
}

/// `kernel:`, `kernel[0]:`
fn is_tag_of_kernel(word: &str) -> bool {
    let Some(rest) = word.strip_prefix("kernel") else { return false };
    let number = rest
        .strip_suffix(':')
        .map(|rest| rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(rest));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name of a host before the kernel's tag; before a service's tag only after a time.
fn host<'a>(word: &str, after: &'a str, has_time: bool) -> Option<&'a str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if word.ends_with(':') || !word.chars().all(is_name) {
        return None;
    }
    let tag = after.split(' ').next().unwrap_or("");
    if is_tag_of_kernel(tag) {
        return Some(after);
    }
    let is_service = tag.strip_suffix("]:").is_some_and(|tag| tag.contains('['));
    (has_time && is_service).then_some(after)
}

/// `kern  :info  :` of `dmesg --decode`.
fn facility<'a>(word: &str, after: &'a str) -> Option<&'a str> {
    const FACILITIES: [&str; 6] = ["kern", "user", "mail", "daemon", "auth", "syslog"];
    const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
    if !FACILITIES.contains(&word.trim_end_matches(':')) {
        return None;
    }
    let after = if word.ends_with(':') { after } else { after.strip_prefix(':')? };
    let level = after.trim_start_matches(' ');
    let (level, after) = level.split_once(':')?;
    LEVELS.contains(&level.trim_end()).then_some(after)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MESSAGE: &str = "clocksource: Switched to clocksource acpi_pm";

    /// Lines of one message with all that is put in front, then lines that have nothing in front.
    const LINES: &str = include_str!("prefixes.txt");

    #[test]
    fn prefixes_are_taken_off_stamps_are_read_and_what_is_neither_stays() {
        for line in LINES.lines() {
            let split = split(line);
            let is_bare = !line.ends_with(MESSAGE);
            let stamp = line.contains("[26977.145667").then_some("26977.145667");
            let at = stamp.map(|_| 26_977.145_667);
            assert_eq!(split.message, if is_bare { line } else { MESSAGE }, "{line}");
            assert_eq!((split.at, split.stamp), (at, stamp), "{line}");
            assert!(split.is_bare || !is_bare, "{line}");
        }
        assert_eq!(LINES.lines().count(), 64);
        assert_eq!(split("[    0.000000] Linux").stamp, Some("    0.000000"));
        assert_eq!(split("[   12.345] x").at, Some(12.345));
        let service = "Dec 24 21:07:06 host systemd[1]: Detected virtualization kvm.";
        assert_eq!(split(service).message, "systemd[1]: Detected virtualization kvm.");
    }

    #[test]
    fn a_journal_says_where_another_boot_begins() {
        assert!(is_boot_mark("-- Boot 3f0a7b2c0d1e4f5a8b9c0d1e2f3a4b5c --"));
        assert!(is_boot_mark("-- Reboot --"));
        assert!(!is_boot_mark("-- Logs begin at Mon 2024-05-06 --"));
    }

    /// The shown part of a line.
    fn shown(split: &Split) -> String {
        let stamp = split.stamp.map(|stamp| format!("[{stamp}] ")).unwrap_or_default();
        format!("{stamp}{}", split.message)
    }

    proptest! {
        #[test]
        fn splitting_twice_is_splitting_once(
            parts in prop::collection::vec(prop::sample::select(vec![
                "[    0.000000]", "[T0]", "[ C1]", "<4>", "> ", " ", "kernel:", "kernel: ", "host ",
                "May  6 11:52:52 ", "2024-05-06T11:52:52Z ", "kern  :info  : ", "Mon ", "I kernel : ",
                "[  +0.1] ", "1 ", "12:", "c0 0 ", "(0)[1:x]", "tsc: ", "a: ", "11:52:52 ", "é", "systemd[1]: ", "UTC ",
                "dmesg:", "kernel - - - ", "[", "]", "05-06 11:52:52.1 0 0 ", "Marking TSC unstable",
            ]), 0..12),
        ) {
            let line: String = parts.concat();
            let once = shown(&split(&line));
            let twice = shown(&split(&once));
            prop_assert_eq!(twice.trim_end(), once.trim_end());
        }

        #[test]
        fn any_text_is_split_or_left(line in "\\PC{0,80}") {
            let once = shown(&split(&line));
            let twice = shown(&split(&once));
            prop_assert_eq!(twice.trim_end(), once.trim_end());
        }
    }
}
