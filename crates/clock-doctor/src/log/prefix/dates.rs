//! Dates before a line. They are only removed: the kernel's own stamp counts.

/// The names of the months in logs.
pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Removes a date with a time of day from the front: `May  6 11:52:52`, `Mon May  6 11:52:52 2024`, `Mon 2024-05-06
/// 11:52:52 UTC`, `2024-05-06T11:52:52,123456+02:00`, `11:52:52`, and the journal's `1714989172.123456`.
pub(crate) fn taken_off(text: &str) -> Option<&str> {
    english(text).or_else(|| foreign(text))
}

fn english(text: &str) -> Option<&str> {
    let (mut rest, mut has_day, mut has_clock) = (text, false, false);
    loop {
        let (word, after) = word(rest)?;
        let is_clock = is_clock(word.trim_end_matches(':'));
        let is_part = match has_clock {
            false if is_whole(word) || is_clock && !has_day => return Some(after),
            false => {
                is_clock
                    || DAYS.contains(&word.trim_end_matches(','))
                    || MONTHS.contains(&word)
                    || is_day(word)
                    || has_day && (is_year(word) || word.len() <= 2 && is_digits(word))
            }
            true => is_year(word) || is_zone(word),
        };
        if !is_part {
            return has_clock.then_some(rest);
        }
        has_day |= MONTHS.contains(&word) || is_day(word);
        has_clock |= is_clock;
        if after.is_empty() {
            return has_clock.then_some(after);
        }
        rest = after;
    }
}

/// Removes a date with the name of a month in another language: `6月 04 19:21:56`, `9 月 16 日 19:31:41`, `févr. 04
/// 19:21:56`.
fn foreign(text: &str) -> Option<&str> {
    let clock = text.match_indices(' ').take(4).map(|(at, _)| at).find(|at| {
        let (word, _) = word(&text[*at..]).unwrap_or_default();
        word.len() > 5 && is_clock(word)
    })?;
    let parts = text[..clock].split(' ').filter(|part| !part.is_empty());
    let is_part = |part: &str| {
        part.chars().count() <= 10 && part.chars().all(|c| c.is_alphanumeric() || c == '.')
    };
    let has_digits = parts.clone().any(|part| part.len() <= 2 && is_digits(part));
    let is_date =
        has_digits && parts.clone().all(is_part) && parts.clone().any(|part| !is_digits(part));
    is_date.then(|| word(&text[clock..])).flatten().map(|(_, after)| after)
}

/// Whether a word is a date and a time of day.
fn is_whole(word: &str) -> bool {
    let is_iso = word.split_once('T').is_some_and(|(day, time)| is_day(day) && is_clock(time));
    is_iso
        || word.split_once('.').is_some_and(|(seconds, fraction)| {
            seconds.len() == 10 && fraction.len() == 6 && is_digits(seconds) && is_digits(fraction)
        })
}

fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(' ');
    let end = text.find(' ').unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text[end..].trim_start_matches(' ')))
}

/// The name of a time zone, or its offset.
fn is_zone(name: &str) -> bool {
    let is_name = matches!(name.len(), 3..=5) && name.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_offset = name.strip_prefix(['+', '-']).is_some_and(|offset| {
        offset.len() >= 2 && offset.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
    });
    // `TSC ADJUST` and `DMI:` begin like zones, but no zone has these names.
    is_name && !["TSC", "HPET", "ACPI", "DMI", "CPU"].contains(&name) || is_offset
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_year(text: &str) -> bool {
    text.len() == 4 && is_digits(text) && (text.starts_with("19") || text.starts_with("20"))
}

/// `2024-05-06`.
fn is_day(text: &str) -> bool {
    let mut parts = text.split('-').rev();
    let short = |part: Option<&str>| part.is_some_and(|part| part.len() == 2 && is_digits(part));
    short(parts.next())
        && short(parts.next())
        && parts.next().is_some_and(is_year)
        && parts.next().is_none()
}

/// `11:52:52`, with a fraction and an offset, or `11:52`.
fn is_clock(text: &str) -> bool {
    let digits = |part: &str| part.len() == 2 && is_digits(part);
    let Some((hour, rest)) = text.split_once(':') else { return false };
    let (minute, rest) = rest.split_at_checked(2).unwrap_or((rest, ""));
    let is_rest = rest.is_empty()
        || rest.strip_prefix(':').is_some_and(|second| {
            let (second, fraction) = second.split_at_checked(2).unwrap_or((second, ""));
            let known =
                |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '+' | '-' | ':' | 'Z');
            digits(second) && fraction.len() <= 20 && fraction.chars().all(known)
        });
    digits(hour) && digits(minute) && is_rest
}
