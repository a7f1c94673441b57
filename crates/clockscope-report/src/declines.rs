//! Parts that were not counted, grouped by reason so that a thousand processes take a few lines.

use clockscope_model::trace::{DeclineRow, Missing};
use clockscope_text::foreign::printable;
use clockscope_text::lines::{cut_middle, labelled_in};
use clockscope_text::names::distinct;
use clockscope_text::units;

/// Number of reasons printed; the JSON output has all.
const GROUPS: usize = 8;
/// Number of processes named for a reason.
const NAMED: usize = 3;
/// Columns for the name of a program.
const NAME: usize = 24;

/// A paragraph under a label for each reason, in the order of appearance; empty if everything was counted.
pub(super) fn labelled(label: &str, declines: &[DeclineRow], width: usize) -> String {
    let groups = groups(declines);
    let mut out = String::new();
    for (index, group) in groups.iter().take(GROUPS).enumerate() {
        let label = if index == 0 { label } else { "" };
        out += &labelled_in(label, &sentence(group), width);
    }
    if groups.len() > GROUPS {
        let rest = groups.len() - GROUPS;
        let more = format!("and {rest} more reasons; --format json lists them all");
        out += &labelled_in("", &more, width);
    }
    out
}

/// A sentence for each reason, in the order of appearance.
pub(super) fn sentences(declines: &[DeclineRow]) -> Vec<String> {
    groups(declines).iter().map(|group| sentence(group)).collect()
}

fn groups(declines: &[DeclineRow]) -> Vec<Vec<&DeclineRow>> {
    let mut groups: Vec<Vec<&DeclineRow>> = Vec::new();
    for row in declines {
        match groups.iter_mut().find(|g| g[0].what == row.what && g[0].reason == row.reason) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

fn sentence(group: &[&DeclineRow]) -> String {
    let what = match group[0].what {
        Missing::Vdso => "vDSO calls",
        Missing::Syscalls => "system calls",
        Missing::Counter => "the CPU's counter",
        Missing::Names => "names of code that was made at run time",
        Missing::Callers => "callers",
        Missing::Unknown => "something unknown",
    };
    let who = match group {
        // A reason that applies to all processes names none.
        [one] if one.pid == 0 && one.command.is_empty() => {
            let reason = printable(&one.reason);
            return if group[0].what == Missing::Callers {
                reason
            } else {
                format!("{what}: {reason}")
            };
        }
        [one] => format!("{} (process {})", name(one), one.pid),
        several => format!(
            "{} ({})",
            units::counted(several.len() as u64, "process", "processes"),
            names(several)
        ),
    };
    format!("{what} of {who}: {}", printable(&group[0].reason))
}

/// The distinct names in a group, at most [`NAMED`] of them.
fn names(group: &[&DeclineRow]) -> String {
    let mut names = distinct(group.iter().map(|row| name(row)));
    if names.len() > NAMED {
        names[NAMED] = "…".to_owned();
    }
    names[..names.len().min(NAMED + 1)].join(", ")
}

fn name(row: &DeclineRow) -> String {
    if row.command.is_empty() {
        "a program without a name".to_owned()
    } else {
        cut_middle(&row.command.printable(), NAME)
    }
}
