//! A fix written out for one machine: commands, verification, risks. The texts are in the catalogue.

mod bootloader;
mod case;
mod fixes;
mod guards;
mod outcome;

#[cfg(test)]
mod pages_tests;
#[cfg(test)]
mod table_tests;

pub use guards::tsc_guards;

use self::case::Case;
use super::finding::Basis;
use super::{Advice, Facts, Finding, Fix, Verdict};
use crate::rules::catalogue::{capitalised, filled};
use crate::rules::trust::AIMS_AT_TSC;

/// The sysfs file of the current clocksource, for reading and writing.
const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The measurement to make before a check is turned off.
const MEASURE: &str =
    "clockscope wrongness --time 60   # first: no warp, offsets below a read, drift under 100 ppm";

/// The selection of the catalogue's lines for a fix on one machine.
#[derive(Default)]
struct Draft<'a> {
    /// Another fix to take the lines from, if any.
    like: Option<Fix>,
    /// Tags of the lines that apply, in addition to lines without a tag.
    tags: Vec<&'a str>,
    /// Texts for `{NAME}` in the lines.
    values: Vec<(&'static str, String)>,
    /// Clocksources; afterwards one of them must be current.
    expected: Vec<&'a str>,
    /// The reason at the beginning of `@so`, if it differs from that of the findings.
    clause: Option<String>,
    needs_kernel: bool,
    adds_reliable: bool,
}

impl<'a> Draft<'a> {
    fn of(tags: &[&'a str]) -> Draft<'a> {
        Draft { tags: tags.to_vec(), ..Draft::default() }
    }

    /// `None` if the fix does not apply.
    fn when(applies: bool, tags: &[&'a str]) -> Option<Draft<'a>> {
        applies.then(|| Draft::of(tags))
    }

    fn tag_if(mut self, applies: bool, tag: &'a str) -> Draft<'a> {
        self.tags.extend(applies.then_some(tag));
        self
    }

    fn with(mut self, name: &'static str, text: impl Into<String>) -> Draft<'a> {
        self.values.push((name, text.into()));
        self
    }

    fn needs_kernel(self, needs_kernel: bool) -> Draft<'a> {
        Draft { needs_kernel, ..self.tag_if(needs_kernel, "any-kernel") }
    }

    fn filled(&self, text: &str) -> String {
        let available = CURRENT.replace("current", "available");
        let text = text.replace("{measure}", MEASURE).replace("{current}", CURRENT);
        let text = text.replace("{available}", &available);
        filled(&text, &self.values)
    }
}

/// Writes out a fix for this machine, because of these findings. `None` if it cannot help here: the kernel is too old
/// for it, the parameter is set already, the clocksource is not available, or the machine is not of that kind.
pub fn write(fix: Fix, facts: &Facts, verdict: &Verdict, because: &[&Finding]) -> Option<Advice> {
    let before = Case { facts, verdict, because, next: &[] };
    let next = before.after_boot(fix);
    let can_come_true = match fix {
        Fix::SwitchToTsc => !before.may_never_use_tsc(),
        Fix::KvmClock | Fix::ColdBoot | Fix::EnableHpet | Fix::HostTsc => !next.is_empty(),
        fix => !AIMS_AT_TSC.contains(&fix) || next.contains(&"tsc"),
    };
    let case = Case { next: &next, ..before };
    let draft = can_come_true.then(|| fixes::draft(fix, &case)).flatten()?;
    Some(written(fix, &case, &draft))
}

fn written(fix: Fix, case: &Case, draft: &Draft) -> Advice {
    let page = fix.page();
    let mut advice = Advice {
        name: fix.name().to_owned(),
        title: page.title.to_owned(),
        place: "here".to_owned(),
        reference: page.references.iter().map(|&text| text.to_owned()).collect(),
        basis: Basis {
            needs_kernel: draft.needs_kernel,
            adds_reliable: draft.adds_reliable,
            ..Basis::default()
        },
        ..Advice::default()
    };
    let mut risk = page.paragraph("Risk");
    for (key, text) in &draft.like.unwrap_or(fix).page().lines {
        let (key, tag) = key.split_once(':').unwrap_or((key, ""));
        if tag.is_empty() || draft.tags.contains(&tag) {
            match key {
                "only" => risk = "",
                _ => add(&mut advice, key, &draft.filled(text), case, draft),
            }
        }
    }
    advice.caveats.extend((!risk.is_empty()).then(|| risk.to_owned()));
    advice
}

/// Adds a line of the catalogue.
fn add(advice: &mut Advice, key: &str, text: &str, case: &Case, draft: &Draft) {
    match (key, text) {
        ("title", _) => text.clone_into(&mut advice.title),
        ("why", _) => text.clone_into(&mut advice.why),
        ("so", _) => {
            let clause = draft.clause.clone().unwrap_or_else(|| case.clause());
            advice.why = capitalised(&format!("{clause}; {text}"));
        }
        ("run", _) => {
            if text == MEASURE {
                advice.basis.measures_first = Some(advice.commands.len());
            }
            advice.basis.measures |= text.starts_with("clockscope wrongness");
            advice.commands.push(text.to_owned());
        }
        ("add" | "remove", _) => {
            let (place, parameters, lines) = bootloader::edit(case, text, key == "add");
            place.clone_into(&mut advice.place);
            advice.kernel_parameters = parameters;
            advice.commands.extend(lines);
        }
        ("place", "own") if !case.is_container() => {}
        ("place", _) => {
            advice.kernel_parameters = None;
            advice.place = match text {
                "host" | "own" => "on the host",
                "windows" => "in Windows",
                _ => "here",
            }
            .to_owned();
        }
        ("verify", "{source}") => advice.verify.extend(case.verify_source(&draft.expected)),
        ("verify", _) => match text.strip_prefix("{boot} ") {
            Some(words) => advice.verify.extend(case.verify_boot(words)),
            None => advice.verify.push(text.to_owned()),
        },
        _ => advice.caveats.push(text.to_owned()),
    }
}
