//! Lines of services that set the time, or noticed that it was set: journald, chronyd, ntpd, ntpdate, timesyncd, and
//! the tools of VirtualBox and VMware.

use crate::log::event::EventKind;

/// The beginning of a line, what it tells as a clause, and the words before the step's size if others come between.
pub(super) const STEPS: [(&str, &str, &str); 12] = [
    // systemd: src/journal/journald-server.c
    ("Time jumped backwards", "the journal saw the time jump back", ""),
    // chrony: local.c, sched.c
    ("System clock was stepped by ", "chronyd stepped the clock", ""),
    ("Forward time jump detected!", "chronyd saw the time jump ahead", ""),
    ("Backward time jump detected!", "chronyd saw the time jump back", ""),
    // ntp: ntpd/ntp_loopfilter.c, ntpdate/ntpdate.c
    ("time reset ", "ntpd stepped the clock", ""),
    (" clock_step ", "ntpd stepped the clock", ""),
    ("step time server ", "ntpdate stepped the clock", "offset "),
    // systemd: src/timesync/timesyncd-manager.c
    ("Initial clock synchronization to ", "timesyncd set the clock for the first time", "none"),
    // VirtualBox: VBoxServiceTimeSync.cpp
    ("Radical guest time change: ", "VirtualBox's service saw the guest's time jump", ""),
    ("Radical host time change: ", "VirtualBox's service saw the host's time jump", ""),
    // open-vm-tools: services/plugins/timeSync/timeSync.c
    ("synchronization: stepping time", "VMware's tools stepped the clock", "none"),
    ("Time changed by ", "VMware's tools stepped the clock", ""),
];

/// A step, with its size where the line has one.
pub(crate) fn step(message: &str, at: usize) -> Option<EventKind> {
    let (keyword, what, before) =
        STEPS.iter().find(|(text, ..)| message[at..].starts_with(text))?;
    let rest = &message[at + keyword.len()..];
    let rest =
        if before.is_empty() { rest } else { rest.split_once(before).map_or("", |(_, rest)| rest) };
    let seconds = seconds(rest);
    // Other programs write of times, too; ntpd's number has a sign.
    let needs_number = keyword.ends_with(' ') && before.is_empty();
    let is_other = needs_number && seconds.is_none()
        || *keyword == "time reset " && !rest.starts_with(['+', '-']);
    (!is_other).then_some(EventKind::Stepped(what, seconds))
}

/// A number with its unit: `-1.5 s`, `4.005564 seconds`, `81 954 170 807 000ns`, `1200us`. `None` if it is cut.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | ' ' | '\'');
    let end = text.find(|c| !is_part(c))?;
    let number: f64 = text[..end].replace([' ', '\''], "").parse().ok()?;
    let scale = match &text[end..] {
        unit if unit.starts_with("ns") => 1e-9,
        unit if unit.starts_with("us") => 1e-6,
        unit if unit.starts_with('s') => 1.0,
        _ => return None,
    };
    Some(number * scale)
}
