//! Dates in front of a line. They are only taken off: what counts is the kernel's own time.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// More than any month has, so that months stay in their order.
const DAYS_A_MONTH: f64 = 32.0;
const SECONDS_A_DAY: f64 = 86_400.0;

/// A date that begins with digits: `2024-05-06T11:52:52,123456+02:00`, `2024-05-06 11:52:52 UTC`,
/// `05-06 11:52:52.123` of Android, `11:52:52`, `1714989172.123456` of the journal.
pub(super) fn numeric(text: &str) -> Option<&str> {
    let (word, after) = word(text)?;
    if let Some((day, time)) = word.split_once('T') {
        return (is_day(day) && is_clock(time)).then_some(after);
    }
    if is_day(word) {
        let (time, after) = self::word(after)?;
        return is_clock(time).then(|| zone(after));
    }
    if is_clock(word) && word.len() >= "11:52:52".len() {
        return Some(after);
    }
    let is_unix = word.split_once('.').is_some_and(|(seconds, fraction)| {
        seconds.len() == 10 && fraction.len() == 6 && is_digits(seconds) && is_digits(fraction)
    });
    is_unix.then_some(after)
}

/// A date that begins with a month or a weekday: `May  6 11:52:52`, `May 06 2024 11:52:52.123`,
/// `Mon May  6 11:52:52 2024`, `Mon 2024-05-06 11:52:52 UTC`.
pub(super) fn named(text: &str) -> Option<&str> {
    let (first, after) = word(text)?;
    if DAYS.contains(&first.trim_end_matches(',')) {
        return numeric(after).or_else(|| month(after));
    }
    month(text)
}

/// The time of the date in front of a line, in seconds since some time; months count 32 days, and what has no year is of the year 0. `None`
/// without a date of the system log or of the journal.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let (first, after) = word(text)?;
    if let Some((day, time)) = first.split_once('T') {
        return Some(day_of(day)? + clock_of(time)?);
    }
    if is_day(first) {
        return Some(day_of(first)? + clock_of(word(after)?.0)?);
    }
    let text = if DAYS.contains(&first.trim_end_matches(',')) { after } else { text };
    let (name, after) = word(text)?;
    let month = MONTHS.iter().position(|month| *month == name)? as f64;
    let (day, after) = word(after)?;
    let (next, after) = word(after)?;
    let time = if is_year(next) { word(after)?.0 } else { next };
    Some((month * DAYS_A_MONTH + day.parse::<f64>().ok()?) * SECONDS_A_DAY + clock_of(time)?)
}

/// Whether the date of which these are the [`seconds`] has a year: without one there are twelve months at most.
pub(super) fn has_year(seconds: f64) -> bool {
    seconds >= 13.0 * DAYS_A_MONTH * SECONDS_A_DAY
}

/// `2024-05-06`, or `05-06`.
fn day_of(text: &str) -> Option<f64> {
    let months = text.rsplit_once('-')?;
    let day: f64 = months.1.parse().ok()?;
    let (year, month) = months.0.split_once('-').unwrap_or(("0", months.0));
    let month = year.parse::<f64>().ok()? * 12.0 + month.parse::<f64>().ok()?;
    Some((month * DAYS_A_MONTH + day) * SECONDS_A_DAY)
}

/// `11:52:52`, with digits and a zone behind it.
fn clock_of(text: &str) -> Option<f64> {
    let mut parts = text.trim_end_matches(':').splitn(3, ':');
    let mut number = || {
        let part = parts.next()?;
        let end = part.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
        part[..end.unwrap_or(part.len())].replace(',', ".").parse::<f64>().ok()
    };
    let (hours, minutes, seconds) = (number()?, number()?, number()?);
    Some((hours * 60.0 + minutes) * 60.0 + seconds)
}

/// Whether this is a date and nothing else.
pub(super) fn is_date(text: &str) -> bool {
    let text = text.trim();
    let reltime = || {
        // `May 6 11:52` of `dmesg --reltime`.
        let mut words = text.split_whitespace();
        let is_start = words.next().is_some_and(|word| MONTHS.contains(&word))
            && words.next().is_some_and(is_digits);
        is_start && words.next().is_some_and(is_clock) && words.next().is_none()
    };
    let whole = |rest: Option<&str>| rest.is_some_and(|rest| rest.trim().is_empty());
    whole(named(text)) || whole(numeric(text)) || reltime()
}

/// `May  6 11:52:52`, with a year before or after the time.
fn month(text: &str) -> Option<&str> {
    let (name, after) = word(text)?;
    let (day, after) = word(after).filter(|(day, _)| day.len() <= 2 && is_digits(day))?;
    if !MONTHS.contains(&name) || day.is_empty() {
        return None;
    }
    let (next, rest) = word(after)?;
    let (time, after) = if is_year(next) { word(rest)? } else { (next, rest) };
    if !is_clock(time.trim_end_matches(':')) {
        return None;
    }
    let zoned = zone(after);
    Some(word(zoned).filter(|(year, _)| is_year(year)).map_or(zoned, |(_, rest)| rest))
}

/// `1 ` behind the priority: the version of the protocol, before a date.
pub(super) fn version_of_rfc5424(text: &str) -> Option<&str> {
    text.strip_prefix("1 ").filter(|rest| numeric(rest).is_some())
}

/// `0     0 I kernel  : ` behind a date of Android's logger: process, thread, level, tag.
pub(super) fn android(text: &str) -> Option<&str> {
    let (process, after) = word(text)?;
    let (thread, after) = word(after)?;
    let (level, after) = word(after)?;
    let (tag, after) = after.split_once(':')?;
    let is_tag = tag.len() < 30 && !tag.trim().contains(' ');
    let is_level = matches!(level, "V" | "D" | "I" | "W" | "E" | "F");
    (is_digits(process) && is_digits(thread) && is_level && is_tag).then_some(after)
}

fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(' ');
    let end = text.find(' ').unwrap_or(text.len());
    (end > 0).then(|| (&text[..end], text[end..].trim_start_matches(' ')))
}

/// Takes off the name of a time zone, or its offset.
fn zone(text: &str) -> &str {
    let Some((name, after)) = word(text) else { return text };
    let is_name = matches!(name.len(), 3..=5) && name.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_offset = name.len() >= 3
        && name
            .strip_prefix(['+', '-'])
            .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b':'));
    // `TSC ADJUST` and `DMI:` are not zones, and no zone is called so.
    match (is_name && !["TSC", "HPET", "ACPI", "DMI", "CPU"].contains(&name)) || is_offset {
        true => after,
        false => text,
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_year(text: &str) -> bool {
    text.len() == 4 && is_digits(text) && (text.starts_with("19") || text.starts_with("20"))
}

/// `2024-05-06`, or `05-06`.
fn is_day(text: &str) -> bool {
    let mut parts = text.split('-').rev();
    let short = |part: Option<&str>| part.is_some_and(|part| part.len() == 2 && is_digits(part));
    short(parts.next())
        && short(parts.next())
        && parts.next().is_none_or(is_year)
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
