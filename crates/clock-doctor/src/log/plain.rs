//! A log as plain lines: unpacked, in UTF-8, and without the dress of JSON, logfmt or CSV. One line stays one line.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use super::parse;
use super::prefix;
use crate::root::unpack;

/// Bytes by which a log's encoding and dress are recognised.
const HEAD: usize = 64 << 10;
/// Maximum length of a dressed line, in bytes; the rest is dropped.
const LINE: u64 = 64 << 10;
/// Fields of a journal's JSON with the kernel's time in microseconds.
const STAMPS: [&str; 2] = ["_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP"];

/// The plain lines.
///
/// # Errors
///
/// Those of `bytes`, and of a packing that is not read.
pub(super) fn of<'a>(bytes: &'a mut dyn Read) -> io::Result<Box<dyn Read + 'a>> {
    let (head, rest) = unpack::head_of(unpack::log(bytes)?, HEAD)?;
    let unit = unpack::unit_of_utf16(&head);
    let mut whole = Cursor::new(head).chain(rest);
    let Some(unit) = unit else { return undressed(whole) };
    let next = Box::new(move || {
        let mut raw = Vec::new();
        Read::take(&mut whole, HEAD as u64).read_to_end(&mut raw)?;
        let units: Vec<u16> = raw.chunks_exact(2).map(|two| unit([two[0], two[1]])).collect();
        Ok(String::from_utf16_lossy(&units).into_bytes())
    });
    undressed(Pieces { next, ready: Cursor::default() })
}

/// A stream that is made piece by piece; an empty piece ends it.
struct Pieces<'a> {
    next: Box<dyn FnMut() -> io::Result<Vec<u8>> + 'a>,
    ready: Cursor<Vec<u8>>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ready.fill_buf()?.is_empty() {
            self.ready = Cursor::new((self.next)()?);
        }
        self.ready.read(buffer)
    }
}

fn undressed<'a>(bytes: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let (begin, rest) = unpack::head_of(bytes, HEAD)?;
    let head = String::from_utf8_lossy(&begin);
    let lines = || head.lines().map(str::trim).filter(|line| !line.is_empty());
    let dressed = lines().take(100).filter(|line| is_dressed(line)).count();
    if dressed <= lines().take(100).count() / 2 {
        drop(head);
        return Ok(Box::new(Cursor::new(begin).chain(rest)));
    }
    // The first field that tells shows where the others are.
    let first = |line| fields(line).into_iter().find(|(_, text)| tells(text));
    let place = lines().find_map(first).map(|(name, _)| name);
    drop(head);
    let mut whole = BufReader::new(Cursor::new(begin).chain(rest));
    let next = Box::new(move || {
        let mut line = Vec::new();
        Read::take(&mut whole, LINE).read_until(b'\n', &mut line)?;
        if line.len() as u64 == LINE && !line.ends_with(b"\n") {
            whole.skip_until(b'\n')?;
            line.push(b'\n');
        }
        let end = if line.ends_with(b"\n") { "\n" } else { "" };
        Ok((message(String::from_utf8_lossy(&line).trim(), place.as_deref()) + end).into_bytes())
    });
    Ok(Box::new(Pieces { next, ready: Cursor::default() }))
}

/// Whether a line begins as JSON, as a quoted field, as `KEY=`, or with a time and a comma.
fn is_dressed(line: &str) -> bool {
    let first = line.split([',', ';', '\t']).next().unwrap_or_default();
    line.starts_with(['{', '"'])
        || line.starts_with("[{")
        || key(line).is_some()
        // `dmesg --time-format iso` has a comma within the time.
        || first.len() < line.len() && prefix::is_time(first) && prefix::taken_off(line).is_none()
}

/// Whether a text is, or may be, a message of the kernel.
fn tells(text: &str) -> bool {
    parse::has_keyword(text.as_bytes()) || prefix::split(text).at.is_some()
}

/// The message of a line: the field in whose place the file has its messages; or else the first that tells, or the
/// longest.
fn message(line: &str, place: Option<&str>) -> String {
    let fields = fields(line);
    let of = |name: &str| fields.iter().find(|(one, _)| one == name).map(|(_, text)| &text[..]);
    let told = || fields.iter().map(|(_, text)| &text[..]).find(|text| tells(text));
    let longest = || fields.iter().map(|(_, text)| &text[..]).max_by_key(|text| text.len());
    let text = place.and_then(of).or_else(told).or_else(longest).unwrap_or_default();
    let text = text.trim_end().replace(['\n', '\r'], " ");
    if text.starts_with('{') && text.len() < line.len() {
        return message(&text, None);
    }
    match STAMPS.iter().find_map(|name| of(name)?.parse::<u64>().ok()) {
        Some(us) if prefix::split(&text).at.is_none() => {
            format!("[{:5}.{:06}] {text}", us / 1_000_000, us % 1_000_000)
        }
        _ => text,
    }
}

/// The fields of a line with their names: the key in JSON and logfmt, the number of the column in a table. Quotation
/// marks enclose a field; `\` and a doubled mark escape.
fn fields(line: &str) -> Vec<(String, String)> {
    if let Some((name, text)) =
        key(line).filter(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
    {
        return vec![(name.to_owned(), text.to_owned())];
    }
    // `/dev/kmsg`: priority, number, microseconds, flags.
    if let Some((head, text)) = line.split_once(';')
        && let [level, number, stamp, _, ..] = head.split(',').collect::<Vec<_>>()[..]
        && [level, number, stamp].into_iter().all(|field| field.parse::<u64>().is_ok())
    {
        return [(STAMPS[1], stamp), ("4", text)]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
    }
    let mut fields: Vec<(String, String)> = Vec::new();
    let (mut name, mut rest) = (None, line);
    while let Some(c) = rest.chars().next() {
        let text;
        if let Some(quoted) = rest.strip_prefix('"') {
            (text, rest) = unquoted(quoted);
            if let Some(value) = rest.trim_start().strip_prefix(':') {
                (name, rest) = (Some(text), value);
                continue;
            }
        } else if "{}[]:,;\t ".contains(c) {
            rest = &rest[c.len_utf8()..];
            continue;
        } else if let Some((one, value)) = key(rest) {
            (name, rest) = (Some(one.to_owned()), value);
            continue;
        } else {
            let is_pair = name.is_some();
            let end = rest.find(|c| matches!(c, ',' | ';' | '\t' | '}') || is_pair && c == ' ');
            let end = end.unwrap_or(rest.len());
            (text, rest) = (rest[..end].to_owned(), &rest[end..]);
        }
        let column = fields.len().to_string();
        fields.push((name.take().unwrap_or(column), text));
    }
    fields
}

/// `KEY=` at the beginning: the key, and the rest. Looks no further than that, because a line may have thousands of words.
fn key(text: &str) -> Option<(&str, &str)> {
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let (key, rest) = text.split_at(text.bytes().position(|byte| !is_key(byte))?);
    rest.strip_prefix('=').filter(|_| !key.is_empty()).map(|rest| (key, rest))
}

/// The text up to the closing quotation mark, and the rest. Without the mark the line is cut.
fn unquoted(quoted: &str) -> (String, &str) {
    let (mut end, mut is_escaped) = (quoted.len(), false);
    let mut marks = quoted.char_indices().peekable();
    while let Some((at, c)) = marks.next() {
        let is_end = c == '"' && !is_escaped && marks.next_if(|(_, next)| *next == '"').is_none();
        if is_end {
            end = at;
            break;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    let rest = quoted.get(end + 1..).unwrap_or_default();
    let text = quoted[..end].replace("\"\"", "\"");
    // In JSON no quotation mark is bare.
    let as_json = serde_json::from_str(&format!("\"{}\"", &quoted[..end]));
    (as_json.unwrap_or(text), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(bytes: &[u8]) -> String {
        io::read_to_string(of(&mut &bytes[..]).unwrap()).unwrap()
    }

    #[test]
    fn a_message_is_taken_out_of_any_dress() {
        const MESSAGE: &str = "clocksource: Switched to clocksource tsc";
        for line in [
            format!(
                r#"{{"log":"{MESSAGE}\n","stream":"stdout","time":"2026-11-24T10:00:00.123456789Z"}}"#
            ),
            format!(
                r#"{{"labels":{{"filename":"/var/log/a-long-name/of-a-file/kern.log"}},"line":"{MESSAGE}","timestamp":"2026"}}"#
            ),
            format!(r#"{{ "MESSAGE" : "{MESSAGE}", "_TRANSPORT" : "kernel" }}"#),
            format!(r#"time="2026-11-24T10:00:00Z" level=info msg="{MESSAGE}""#),
            format!("time=2026-11-24T10:00:00Z level=info msg=\"{MESSAGE}\""),
            format!("MESSAGE={MESSAGE}"),
            format!("2026-11-24T10:00:00Z,web1,kernel,\"{MESSAGE}\",info"),
            format!("2026-11-24T10:00:00Z,web1,kernel,{MESSAGE},info"),
            format!("\"Nov 24, 2026 @ 10:00:00.000\";web1;{MESSAGE}"),
            format!("2026-11-24 10:00:00\tweb1\t{MESSAGE}"),
            format!(r#"{{"log":"{{\"msg\":\"{MESSAGE}\"}}\n"}}"#),
        ] {
            assert_eq!(plain(format!("{line}\n").as_bytes()), format!("{MESSAGE}\n"), "{line}");
        }
    }

    #[test]
    fn escapes_and_the_journals_stamps_are_read() {
        let line = r#"{"__MONOTONIC_TIMESTAMP":"1500042","MESSAGE":"clocksource: \u0027tsc\u0027 a \"b\" c\\d"}"#;
        assert_eq!(message(line, None), "[    1.500042] clocksource: 'tsc' a \"b\" c\\d");
        assert_eq!(message(r#""a ""TSC "" b","c""#, None), r#"a "TSC " b"#);
        let record = "6,339,5140900,-;clocksource: a, b";
        assert_eq!(message(record, None), "[    5.140900] clocksource: a, b");
        assert_eq!(message(r#"{"log":"a text that is cut"#, None), "a text that is cut");
        assert_eq!(
            message(r#"{"at":"a longer text than that","log":"short"}"#, Some("log")),
            "short"
        );
    }

    #[test]
    fn plain_lines_stay_as_they_are() {
        let time = "2024-05-06T11:52:52,123456+02:00";
        let iso = format!(
            "{time} clocksource: hpet: mask: 0xffffffff max_cycles: 0x1, max_idle_ns: 1 ns\n"
        );
        for text in [
            &iso,
            "[    0.000000] Command line: a=\"b c\" tsc=reliable\n[    0.1] tsc: Fast TSC calibration failed\n",
            "Nov 24 10:00:00 a kernel: tsc: x, \"y\"\n",
            "tsc: a\n\"\n",
            "a,b,c\n",
            "",
        ] {
            assert_eq!(plain(text.as_bytes()), text);
        }
        let long = format!("{{\"log\":\"{}\"}}\n{{\"log\":\"TSC b\"}}\n", "x".repeat(100_000));
        assert_eq!(plain(long.as_bytes()).lines().count(), 2);
    }

    #[test]
    fn utf_16_is_read_with_and_without_its_mark() {
        let text = "[    0.000000] Linux version 6.1.0 (é)\r\n";
        let bytes = |to: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(to).collect::<Vec<u8>>();
        let (little, big) = (bytes(u16::to_le_bytes), bytes(u16::to_be_bytes));
        assert_eq!((plain(&little), plain(&big)), (text.to_owned(), text.to_owned()));
        assert_eq!(plain(&[&[0xff, 0xfe], &little[..]].concat()), format!("\u{feff}{text}"));
        assert_eq!(plain(&[&[0xfe, 0xff], &big[..]].concat()), format!("\u{feff}{text}"));
        assert!(unpack::unit_of_utf16(&[0; 600]).is_none(), "a page of zeros is no text");
    }
}
