//! Logs of which each line is a JSON object: docker, `journalctl -o json`, Loki. One line stays one line.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::parse;
use super::prefix;

/// Fields with the message.
const MESSAGES: [&str; 5] = ["MESSAGE", "message", "msg", "log", "line"];
/// Fields of a journal's JSON with the kernel's time in microseconds.
const STAMPS: [&str; 2] = ["_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP"];

/// The message of a line in JSON; any other line as it is.
pub(super) fn message_of(line: &[u8]) -> Cow<'_, [u8]> {
    // In an array, a comma follows each object.
    let object = line.trim_ascii();
    let object = object.strip_suffix(b",").unwrap_or(object);
    let text = if object.starts_with(b"{") { std::str::from_utf8(object).ok() } else { None };
    match text.and_then(message) {
        Some(message) => Cow::Owned(message.into_bytes()),
        None => Cow::Borrowed(line),
    }
}

/// The message of an object: the field with such a name, or the first one with a line of the kernel.
fn message(object: &str) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_str(object).ok()?;
    let text_of = |name: &str| fields.get(name)?.as_str();
    let tells = |text: &&str| parse::has_keyword(text.as_bytes());
    let named = MESSAGES.into_iter().find_map(text_of);
    let text = named.or_else(|| fields.values().filter_map(Value::as_str).find(tells))?;
    if let Some(inner) = message(text) {
        return Some(inner);
    }
    let text = text.trim_end().replace(['\n', '\r'], " ");
    Some(match STAMPS.iter().find_map(|name| text_of(name)?.parse::<u64>().ok()) {
        Some(us) if prefix::split(&text).at.is_none() => {
            format!("[{:5}.{:06}] {text}", us / 1_000_000, us % 1_000_000)
        }
        _ => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_taken_out_of_an_object() {
        const MESSAGE: &str = "clocksource: Switched to clocksource tsc";
        for line in [
            format!(
                r#"{{"log":"{MESSAGE}\n","stream":"stdout","time":"2026-11-24T10:00:00.123456789Z"}}"#
            ),
            format!(
                r#"{{"labels":{{"filename":"/var/log/a-long-name/of-a-file/kern.log"}},"line":"{MESSAGE}","timestamp":"2026"}}"#
            ),
            format!(r#"{{ "MESSAGE" : "{MESSAGE}", "_TRANSPORT" : "kernel" }}"#),
            format!(r#"  {{"host":"xen","text":"{MESSAGE}"}},"#),
            format!(r#"{{"log":"{{\"msg\":\"{MESSAGE}\"}}\n"}}"#),
        ] {
            assert_eq!(message_of(line.as_bytes()), MESSAGE.as_bytes(), "{line}");
        }
    }

    #[test]
    fn escapes_and_the_journals_stamps_are_read() {
        let line = r#"{"__MONOTONIC_TIMESTAMP":"1500042","MESSAGE":"clocksource: \u0027tsc\u0027 a \"b\" c\\d"}"#;
        let want = "[    1.500042] clocksource: 'tsc' a \"b\" c\\d";
        assert_eq!(message(line).as_deref(), Some(want));
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in
            ["{ not JSON", "{}", r#"{"log":7}"#, r#"{"log":"a text that is cut"#, "[{}]", ""]
        {
            assert_eq!(message_of(line.as_bytes()), line.as_bytes());
        }
    }
}
