//! Kernel parameters on the command line.

use super::{
    Event, EventKind, Facts, Finding, Fix, Known, Label, Severity, State, UnstableReason, Verdict,
    is_tsc,
};
use crate::facts::CommandLine;

/// The findings of these rules.
pub(crate) fn find(facts: &Facts, verdict: &Verdict) -> Vec<Finding> {
    let Some(line) = &facts.command_line else { return Vec::from_iter(refused_by_log(facts)) };
    let mut found = clocksource(facts, verdict, line);
    found.extend(reliable(facts, line));
    found.extend(reliable_ignored(facts, line));
    found.extend(no_tsc(facts, line));
    found.extend(no_hpet(verdict, line));
    found.extend(no_paravirtual(verdict, line));
    found.extend(vdso(line));
    found
}

/// The last word of the line that is one of these.
fn last_of<'a>(line: &'a CommandLine, words: &[&str]) -> Option<&'a str> {
    line.words.iter().map(|word| &word[..]).rfind(|word| words.contains(word))
}

fn found(label: Label, line: &Known<CommandLine>, what: &str) -> Finding {
    let mut evidence = line.evidence.clone();
    // In a long line the word would be hidden in the middle.
    if evidence.text.len() > 120 {
        evidence.text = format!("... {what} ...");
    }
    Finding::new(label).seen(&evidence)
}

/// The clocksource that the line requests; `clock=` is the old name of the parameter.
pub(super) fn asked(facts: &Facts) -> Option<&str> {
    let line = &facts.command_line.as_ref()?.value;
    line.value("clocksource").or_else(|| line.value("clock")).filter(|name| !name.is_empty())
}

fn clocksource(facts: &Facts, verdict: &Verdict, line: &Known<CommandLine>) -> Vec<Finding> {
    let Some(name) = asked(facts) else { return Vec::new() };
    let word = format!("clocksource={name}");
    let first = found(Label::ParamClocksource, line, &word);
    let is_current = verdict.source.as_deref() == Some(name);
    let listed = facts.available.as_ref().filter(|list| !list.value.is_empty());
    let has =
        |wanted: &str| listed.is_some_and(|list| list.value.iter().any(|other| other == wanted));
    let missing = listed.filter(|_| !has(name) && !is_current);
    let first = match verdict.source.as_deref() {
        _ if is_current && verdict.state == State::Slow && has("tsc") && name != "tsc" => first
            .severity(Severity::Slow)
            .tell_with("keeps", &[("word", &word), ("name", &name)])
            .fix(&[Fix::RemoveParameter, Fix::SwitchToTsc]),
        _ if is_current => first.tell_with("is-current", &[("name", &name)]),
        Some(other) => first.tell_with("other-current", &[("name", &name), ("other", &other)]),
        None => first.tell_with("asks", &[("name", &name)]),
    };
    let Some(list) = missing else { return vec![first] };
    let others = list.value.join(", ");
    let second = found(Label::ParamClocksourceUnavailable, line, &word).seen(&list.evidence);
    let second = second.tell_with("absent", &[("name", &name), ("others", &others)]);
    let is_hidden = name == "hpet" && last_of(&line.value, &["nohpet", "hpet=disable"]).is_none();
    vec![first, second.tell_if(is_hidden, "built-in").fix(&[Fix::RemoveParameter])]
}

fn reliable(facts: &Facts, line: &Known<CommandLine>) -> Option<Finding> {
    let word = "tsc=reliable";
    let found = line.value.has(word).then(|| found(Label::ParamTscReliable, line, word))?;
    let firmware = facts.logged(|kind| matches!(kind, EventKind::AdjustDiffers(_)));
    let back = facts.logged(|kind| match kind {
        EventKind::Stepped(what, seconds) => {
            what.ends_with(" back") || seconds.is_some_and(|seconds| seconds < 0.0)
        }
        _ => false,
    });
    Some(match (firmware, back) {
        (Some(one), Some(other)) => {
            let found = found.severity(Severity::Wrong).seen(&one.evidence).seen(&other.evidence);
            let fixes = [Fix::RemoveParameter, Fix::Measure, Fix::BiosUpdate];
            found.tell("backwards").fix(&fixes).forbid(&[Fix::TscReliable, Fix::TscNowatchdog])
        }
        _ => found.tell("unnoticed").fix(&[Fix::Measure]),
    })
}

/// A parameter that the log tells of, with its line.
pub(in crate::rules) fn word_in_log(facts: &Facts) -> Option<(&Event, &'static str)> {
    use UnstableReason::{BootParameter, NoTsc};
    facts.events().find_map(|event| match event.kind {
        EventKind::Unstable { reason: NoTsc, .. } => Some((event, "notsc")),
        EventKind::Unstable { reason: BootParameter, .. } => Some((event, "tsc=unstable")),
        _ => None,
    })
}

/// The same as a finding, where no command line is known.
fn refused_by_log(facts: &Facts) -> Option<Finding> {
    let (event, word) = word_in_log(facts)?;
    let found = Finding::new(Label::ParamTscUnstable).seen(&event.evidence);
    Some(found.tell_with("by-log", &[("word", &word)]).fix(&[Fix::RemoveParameter]))
}

/// The first kernels with `tsc-early` ignored `tsc=reliable` for it: 4.16 to 5.4, and RHEL 8's early kernels.
fn reliable_ignored(facts: &Facts, line: &Known<CommandLine>) -> Option<Finding> {
    if !line.value.has("tsc=reliable") {
        return None;
    }
    let early =
        |kind: &EventKind| matches!(kind, EventKind::Marked { name, .. } if name == "tsc-early");
    let event = facts.logged(early)?;
    let found = found(Label::TscReliableIgnored, line, "tsc=reliable").seen(&event.evidence);
    let found = match facts.kernel() {
        Some(kernel) => found.tell_with("early", &[("release", &kernel.release)]),
        None => found.tell("unknown-kernel"),
    };
    // The watchdog may still be right, and a newer kernel would no longer ask it.
    let found = found.fix(&[Fix::Measure, Fix::NewerKernel]);
    Some(found.forbid(&[Fix::TscReliable, Fix::TscNowatchdog]))
}

fn no_tsc(facts: &Facts, line: &Known<CommandLine>) -> Option<Finding> {
    let word = last_of(&line.value, &["tsc=unstable", "notsc"])?;
    let found = found(Label::ParamTscUnstable, line, word);
    if word == "notsc" && facts.kernel().is_some_and(|kernel| !kernel.at_least(4, 19)) {
        return Some(found.severity(Severity::Note).tell("no-effect"));
    }
    Some(found.tell_with("refused", &[("word", &word)]).fix(&[Fix::RemoveParameter]))
}

fn no_hpet(verdict: &Verdict, line: &Known<CommandLine>) -> Option<Finding> {
    let word = last_of(&line.value, &["nohpet", "hpet=disable"])?;
    let found = found(Label::ParamNoHpet, line, word);
    match verdict.source.as_deref() {
        Some(name @ ("acpi_pm" | "jiffies" | "refined-jiffies")) => {
            let found = found.tell_with("leaves", &[("word", &word), ("name", &name)]);
            Some(found.severity(Severity::Slow).fix(&[Fix::RemoveParameter]))
        }
        _ => Some(found.tell_with("takes-away", &[("word", &word)])),
    }
}

fn no_paravirtual(verdict: &Verdict, line: &Known<CommandLine>) -> Option<Finding> {
    let word = last_of(&line.value, &["no-kvmclock", "no-kvmclock-vsyscall", "nopv", "xen_nopv"])?;
    let found = found(Label::ParamNoParavirtualClock, line, word);
    let lost =
        verdict.source.as_deref().is_some_and(|name| !is_tsc(name)) && verdict.state == State::Slow;
    if !lost {
        return Some(found);
    }
    let found = found.severity(Severity::Slow).tell_with("kept", &[("word", &word)]);
    Some(found.fix(&[Fix::RemoveParameter]))
}

fn vdso(line: &Known<CommandLine>) -> Vec<Finding> {
    let off = |word| found(Label::ParamVdso, line, word).tell(word).fix(&[Fix::RemoveParameter]);
    let mut all = Vec::new();
    if line.value.has("vdso=0") {
        all.push(off("vdso=0"));
    } else if line.value.has("vdso32=0") {
        all.push(off("vdso32=0").severity(Severity::Note));
    }
    all.extend(line.value.value("vsyscall").map(|value| {
        let word = format!("vsyscall={value}");
        found(Label::ParamVsyscall, line, &word).tell_with("old-page", &[("word", &word)])
    }));
    all
}
