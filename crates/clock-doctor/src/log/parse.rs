//! From a line to what it says. Tolerant of prefixes that drifted from version to version and of
//! lines that were cut; what is cut is never taken for whole.

pub(crate) mod arm;
pub(crate) mod hosts;
pub(crate) mod platform;
pub(crate) mod references;
mod tokens;
pub(crate) mod tsc;
pub(crate) mod watchdog;

use super::event::Kind;
use super::keywords::{self, Found};

/// What a message says, if it speaks of clocks.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// What it says as far as it goes.
    pub(crate) kind: Option<Kind>,
    /// The line ends in the middle of a format, so that its rest may stand on the next line: mail
    /// programs fold them.
    pub(crate) is_open: bool,
}

/// Understands a message. `first` is its first keyword, if that is known.
pub(crate) fn said(message: &str, first: Option<Found>) -> Said {
    // The hypervisor's own lines, which its console mixes in, are not those of this kernel.
    if message.starts_with("(XEN)") {
        return Said::default();
    }
    let mut tried = [false; keywords::KEYWORDS.len()];
    let mut is_open = false;
    let mut platform = None;
    let others = keywords::all(message, first.map_or(0, |first| first.end));
    for found in first.into_iter().chain(others) {
        // A line of nothing but keywords must not take time by the square of its length.
        if std::mem::replace(&mut tried[found.keyword], true) {
            continue;
        }
        let (text, parser) = keywords::KEYWORDS[found.keyword];
        is_open |= is_cut(text, &message[found.end..]);
        let kind = parser(message, found.start);
        // A line that tells more than its platform tells that first.
        if let Some(Kind::OfPlatform(_)) = kind {
            platform = platform.or(kind);
        } else if let Some(kind) = kind {
            return Said { is_open: is_open && kind != Kind::WatchdogNoise, kind: Some(kind) };
        }
    }
    Said { kind: platform, is_open }
}

/// Whether a line ends too soon behind a keyword, though not by the `>` of a pager.
fn is_cut(keyword: &str, rest: &str) -> bool {
    let lacks = match keyword {
        // The name of the mask stands before the last blank.
        "_nsec:" | "_now:" => rest.rsplit(' ').nth(1) != Some("mask:"),
        "mask: 0x" => !rest.ends_with(" ns"),
        "Marking clocksource " => !rest.ends_with("too large:") && !rest.contains("skew"),
        " skewed " => !rest.split_once("interval of ").is_some_and(|(_, ns)| ns.contains(" ns")),
        " to clocksource" => watchdog::may_go_on(rest.trim_start()),
        "Marking TSC unstable" => rest == " due to",
        " unstable (delta = " => !rest.contains(')'),
        _ => false,
    };
    lacks && !rest.ends_with('>')
}

#[cfg(test)]
mod formats_tests;
