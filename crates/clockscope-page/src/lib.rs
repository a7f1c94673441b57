#![doc = include_str!("../README.md")]

mod document;

pub use document::{Document, Kind, MAX_BYTES, ReadError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clockscope_text::foreign::{REPLACEMENT, is_hidden, push_json};
use serde_json::Value;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("viewer/viewer.css");
/// The files of the viewer, in one scope.
const SCRIPT: &str = concat!(
    "'use strict';\n(() => {\n",
    include_str!("viewer/words.js"),
    include_str!("viewer/kit.js"),
    include_str!("viewer/charts.js"),
    include_str!("viewer/flame.js"),
    include_str!("viewer/host.js"),
    include_str!("viewer/trace.js"),
    include_str!("viewer/bench.js"),
    include_str!("viewer/wrongness.js"),
    include_str!("viewer/survey.js"),
    include_str!("viewer/start.js"),
    "})();\n",
);

/// The page of a report, as UTF-8 text.
///
/// `beside` has the sentences of the page that are not in the report. `text` is for readers without script;
/// its lines stay as they are.
pub fn page(document: &Document, title: &str, beside: &Value, text: &str) -> String {
    let kind = document.kind.name();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"clockscope\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <main data-kind=\"{kind}\">\n<header>\n<p class=\"kind\">clockscope {kind}</p>\n<h1>{title}</h1>\n</header>\n\
         <noscript><pre tabindex=\"0\">{text}</pre></noscript>\n</main>\n\
         <script type=\"application/json\" id=\"report\">{report}</script>\n\
         <script type=\"application/json\" id=\"beside\">{beside}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        policy = policy(),
        title = escape(title),
        text = escape(text),
        report = embedded(&document.json),
        beside = embedded(&beside.to_string()),
    )
}

/// The page's Content Security Policy: the browser may show the page with our style and our script, and load
/// nothing else.
///
/// # References
///
/// Content Security Policy Level 3, W3C: `default-src 'none'` forbids every load; hashes permit the `style`
/// and `script` elements with the same text.
fn policy() -> String {
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// The text with HTML's special characters as references; hidden characters and those that HTML forbids are
/// replaced.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if (is_hidden(c) && c != '\n') || is_noncharacter(c) => escaped.push(REPLACEMENT),
            other => escaped.push(other),
        }
    }
    escaped
}

/// JSON without blanks between values, in which no character can end the enclosing element. The escaped
/// characters occur in JSON's strings only, so the value is the same.
fn embedded(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    let (mut in_string, mut is_quoted) = (false, false);
    for c in json.chars() {
        if !in_string && c.is_ascii_whitespace() {
            continue;
        }
        if c == '"' && !is_quoted {
            in_string = !in_string;
        }
        is_quoted = c == '\\' && !is_quoted;
        let is_bad = matches!(c, '<' | '>' | '&') || is_hidden(c) || is_noncharacter(c);
        push_json(&mut escaped, c, is_bad);
    }
    escaped
}

/// Whether the character is a Unicode noncharacter, which HTML forbids in a document.
fn is_noncharacter(c: char) -> bool {
    (0xFDD0..=0xFDEF).contains(&u32::from(c)) || u32::from(c) & 0xFFFE == 0xFFFE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of Content Security Policy Level 3, 8.3.
    #[test]
    fn a_hash_is_what_browsers_compute() {
        let expected = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='";
        assert_eq!(hash("alert('Hello, world.');"), expected);
    }

    fn page_of(text: &str) -> String {
        let report = serde_json::json!({ "schema": 2, "paths": [text] });
        let document = Document::parse(report.to_string().as_bytes()).expect("a report");
        page(&document, text, &serde_json::json!({ "said": text }), text)
    }

    /// The text of an element that begins with `start`.
    fn inside<'a>(html: &'a str, start: &str, end: &str) -> &'a str {
        let rest = html.split_once(start).expect("the element is there").1;
        rest.split_once(end).expect("it ends").0
    }

    #[test]
    fn foreign_text_never_becomes_markup() {
        let plain = page_of("plain");
        let tags = |html: &str| html.matches('<').count();
        for hostile in
            ["</script><script>alert(1)</script>", "<!--<script>", "]]>&lt;", "\" onload=\"x"]
        {
            let html = page_of(hostile);
            assert_eq!(tags(&html), tags(&plain), "{hostile}");
            let report = inside(&html, "id=\"report\">", "</script>");
            let report: Value = serde_json::from_str(report).expect("JSON");
            assert_eq!(report["paths"][0], hostile);
            let beside = inside(&html, "id=\"beside\">", "</script>");
            assert_eq!(serde_json::from_str::<Value>(beside).expect("JSON")["said"], hostile);
        }
    }

    #[test]
    fn hidden_characters_stay_in_the_data_and_out_of_the_page() {
        let html = page_of("a\u{0}\u{1b}[31m\u{202e}\u{2028}\u{fdd0}\u{1fffe}\u{e0001}z");
        assert!(html.chars().all(|c| c == '\n' || !(is_hidden(c) || is_noncharacter(c))));
        assert!(html.contains("<title>a??[31m?????z</title>"), "{html:.900}");
        let report: Value =
            serde_json::from_str(inside(&html, "id=\"report\">", "</script>")).expect("JSON");
        assert_eq!(
            report["paths"][0],
            "a\u{0}\u{1b}[31m\u{202e}\u{2028}\u{fdd0}\u{1fffe}\u{e0001}z"
        );
    }

    #[test]
    fn a_page_is_one_file_and_loads_nothing() {
        let html = page_of("text");
        for loads in ["http:", "https:", "src=", "@import", "url(", "<link", "fetch(", "XMLHttp"] {
            let found = html.replace("http://www.w3.org/2000/svg", "").contains(loads);
            assert!(!found, "the page has {loads}");
        }
        // Markup in strings would turn data into markup.
        for writes in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!SCRIPT.contains(writes), "the viewer has {writes}");
        }
        assert!(
            !SCRIPT.contains("</script") && !SCRIPT.contains("<!--") && !STYLE.contains("</style")
        );
        assert_eq!(html.matches("<script>").count(), 1);
        assert_eq!(inside(&html, "<pre tabindex=\"0\">", "</pre>"), "text");
    }

    proptest! {
        #[test]
        fn any_text_can_be_embedded(text in any::<String>()) {
            let value = serde_json::json!({ &text: [&text, 1, "\\\" "] });
            let safe = embedded(&serde_json::to_string_pretty(&value).expect("JSON"));
            let has_bad = safe.chars().any(|c| matches!(c, '<' | '>' | '&') || is_hidden(c));
            prop_assert!(!has_bad);
            prop_assert_eq!(serde_json::from_str::<Value>(&safe).expect("JSON"), value);
        }
    }
}
