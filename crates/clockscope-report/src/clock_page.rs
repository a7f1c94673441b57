//! The present state of a clock page.

use std::fmt::Write as _;

use serde::Serialize;

/// A clock page as a reader finds it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockPage {
    /// Path of the page's file.
    pub path: String,
    /// Whether the page answers a reader.
    pub answers: bool,
    /// The reason why not, as a clause; `None` if the page answers.
    pub reason: Option<String>,
    /// The reason's number on the page.
    pub reason_number: Option<u32>,
    /// The counter's rate by the page, in hertz; `None` if there is no line.
    pub counter_hz: Option<f64>,
    /// Bound on the error of a reading now, in nanoseconds; `None` unless the page answers.
    pub bound_ns: Option<u64>,
    /// Age of the line, in seconds.
    pub age_seconds: Option<f64>,
    /// Time for which the line stays valid without renewal, in seconds.
    pub valid_seconds: Option<f64>,
    /// The process that writes, or wrote, the page.
    pub writer: u32,
    /// Number of publications of the page.
    pub count: u32,
    /// Whether a timekeeper serves the page; `None` if this user may not see that.
    pub served: Option<bool>,
    /// Start of the timekeeper that serves, or last served, the page: RFC 3339, UTC.
    pub since: Option<String>,
}

/// The state as text.
pub fn text(page: &ClockPage) -> String {
    let mut lines = format!("Page:    {}\n", page.path);
    let state = match &page.reason {
        None => "answers".to_owned(),
        Some(reason) => format!("does not answer, the kernel's clock does: {reason}"),
    };
    let mut say = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{name:<9}{value}");
    };
    say("State:", state);
    if let Some(hertz) = page.counter_hz {
        say("Counter:", format!("{:.6} MHz", hertz / 1e6));
    }
    if let Some(bound) = page.bound_ns {
        say("Bound:", format!("{bound} ns"));
    }
    if let Some(age) = page.age_seconds {
        let valid = page.valid_seconds.filter(|left| *left > 0.0);
        let ends = valid.map_or_else(|| "over".to_owned(), |left| format!("valid for {left:.1} s"));
        say("Line:", format!("{age:.3} s old, {ends}"));
    }
    let since = page.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let writer = match page.served {
        Some(true) => format!("process {}{since}", page.writer),
        Some(false) => format!("none; process {} has ended", page.writer),
        None => format!("process {}{since}, if it still runs", page.writer),
    };
    say("Writer:", format!("{writer}; published {} times", page.count));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> ClockPage {
        ClockPage {
            path: "/run/clockscope/page".to_owned(),
            answers: true,
            reason: None,
            reason_number: None,
            counter_hz: Some(2_499_998_123.4),
            bound_ns: Some(47),
            age_seconds: Some(0.0421),
            valid_seconds: Some(9.96),
            writer: 4242,
            count: 77,
            served: Some(true),
            since: Some("2026-11-23T13:50:02Z".to_owned()),
        }
    }

    #[test]
    fn a_page_that_answers() {
        let expected = "Page:    /run/clockscope/page\n\
                        State:   answers\n\
                        Counter: 2499.998123 MHz\n\
                        Bound:   47 ns\n\
                        Line:    0.042 s old, valid for 10.0 s\n\
                        Writer:  process 4242 since 2026-11-23T13:50:02Z; published 77 times\n";
        assert_eq!(text(&page()), expected);
    }

    #[test]
    fn a_writer_that_has_ended_is_not_called_the_writer() {
        let ended = text(&ClockPage { served: Some(false), ..page() });
        assert!(ended.ends_with("Writer:  none; process 4242 has ended; published 77 times\n"));
        let unseen = text(&ClockPage { served: None, since: None, ..page() });
        assert!(unseen.contains("process 4242, if it still runs; published"), "{unseen}");
    }

    #[test]
    fn a_page_that_does_not() {
        let ended = ClockPage {
            answers: false,
            reason: Some("the machine was suspended".to_owned()),
            reason_number: Some(12),
            bound_ns: None,
            valid_seconds: Some(0.0),
            ..page()
        };
        let text = text(&ended);
        assert!(text.contains("clock does: the machine was suspended\n"), "{text}");
        assert!(text.contains("0.042 s old, over\n") && !text.contains("Bound"), "{text}");
        let json = serde_json::to_value(&ended).unwrap();
        assert_eq!((&json["answers"], &json["reason_number"]), (&false.into(), &12.into()));
    }
}
