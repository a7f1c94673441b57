//! Reports for many machines: one line of JSON for each, and a summary of all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::labels;
use super::model::{DoctorReport, SCHEMA};
use super::status::{NOTHING_TO_MEND, SLOW, UNKNOWN, WRONG};
use super::text;
use crate::root::paths::ARCHIVES;
use crate::rules::finding::{Severity, State};
use clockscope_text::names::listed;

/// Maximum number of hosts of a group that the text names.
const NAMED: usize = 4;

/// A machine in one line, to group and filter by. [`DoctorReport`] has the evidence and the commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLine {
    /// Version of the schema, as of [`DoctorReport`].
    pub schema: u32,
    /// The path of the archive or folder, as given or found.
    pub root: String,
    /// The machine's name, from the name of the archive or folder.
    pub host: String,
    /// The exit status of `clockscope doctor --root` for it: 0 to 3.
    pub status: i32,
    /// The status in words.
    pub verdict: String,
    /// Why the root could not be read, as a clause; all fields below are then empty.
    pub error: Option<String>,
    /// How the clock is read.
    pub state: Option<State>,
    /// The worst severity of all findings.
    pub severity: Option<Severity>,
    /// The current clocksource.
    pub source: Option<String>,
    /// The most telling platform.
    pub platform: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The label of the first finding that costs time or makes it wrong.
    pub cause: Option<String>,
    /// The name of the best advice.
    pub fix: Option<String>,
    /// All labels.
    pub labels: Vec<String>,
    /// Number of files that exist but were not read.
    pub unread: u64,
}

impl MachineLine {
    /// The line of a judged machine.
    pub fn of(root: &str, report: &DoctorReport) -> MachineLine {
        let status = report.exit_status();
        MachineLine {
            status,
            verdict: verdict(status).to_owned(),
            state: Some(report.state),
            severity: Some(report.severity),
            source: report.source.clone(),
            platform: report.platform.clone(),
            kernel: report.kernel.clone(),
            cause: report.cause().map(|row| row.id.clone()),
            fix: report.advice.first().map(|advice| advice.name.clone()),
            labels: report.labels.clone(),
            unread: report.unread.len() as u64,
            ..MachineLine::named(root)
        }
    }

    /// The line of an archive or folder that could not be read; `why` is a clause.
    pub fn unreadable(root: &str, why: &str) -> MachineLine {
        let (verdict, error) = ("cannot be read".to_owned(), Some(why.to_owned()));
        MachineLine { status: UNKNOWN, verdict, error, ..MachineLine::named(root) }
    }

    fn named(root: &str) -> MachineLine {
        let host = host(root);
        MachineLine { schema: SCHEMA, root: root.to_owned(), host, ..MachineLine::default() }
    }
}

fn verdict(status: i32) -> &'static str {
    match status {
        NOTHING_TO_MEND => "nothing to mend",
        SLOW => "slow",
        WRONG => "wrong time possible",
        _ => "not enough evidence",
    }
}

/// The host from the name of its archive or folder: `clockscope-HOST-DATE.tar.zst`, `sosreport-HOST-CASE-DATE-ID`;
/// otherwise the name without its ending.
fn host(root: &str) -> String {
    let name = root.trim_end_matches('/').rsplit('/').next().unwrap_or(root);
    let ending =
        ARCHIVES.iter().filter(|ending| name.ends_with(**ending)).map(|ending| ending.len()).max();
    let name = &name[..name.len() - ending.unwrap_or(0)];
    let rest = ["clockscope-", "sosreport-"].iter().find_map(|start| name.strip_prefix(start));
    let Some(rest) = rest else { return name.to_owned() };
    let is_year = |text: &str| {
        text.starts_with("20") && text.bytes().take(4).filter(u8::is_ascii_digit).count() == 4
    };
    let date = rest.match_indices('-').find(|(at, _)| is_year(&rest[at + 1..]));
    let host = date.map_or(rest, |(at, _)| &rest[..at]);
    if host.is_empty() { name.to_owned() } else { host.to_owned() }
}

/// Machines with a common property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The common property.
    pub name: String,
    /// Number of machines.
    pub machines: u64,
    /// Their names, sorted.
    pub hosts: Vec<String>,
}

/// An archive or a folder that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// The path of the archive or folder.
    pub root: String,
    /// The reason, as a clause.
    pub error: String,
}

/// Many machines in groups. Each list begins with the largest group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of this schema: 1.
    pub schema: u32,
    /// Number of machines, including those that could not be read.
    pub machines: u64,
    /// By doctor's exit status.
    pub verdict: Vec<Group>,
    /// By the first finding that costs time or makes it wrong.
    pub cause: Vec<Group>,
    /// By platform.
    pub platform: Vec<Group>,
    /// By the kernel's release.
    pub kernel: Vec<Group>,
    /// By the best advice.
    pub fix: Vec<Group>,
    /// The machines that could not be read, sorted.
    pub unreadable: Vec<Unreadable>,
}

/// Hosts by a common property.
type Hosts = BTreeMap<String, Vec<String>>;

/// Collects a summary, a machine at a time.
#[derive(Debug, Default)]
pub struct Tally {
    /// Machines so far.
    pub machines: u64,
    /// The statuses so far.
    seen: BTreeSet<i32>,
    by: [Hosts; 5],
    unreadable: Vec<Unreadable>,
}

impl Tally {
    /// Adds a machine.
    pub fn add(&mut self, line: &MachineLine) {
        self.machines += 1;
        self.seen.insert(line.status);
        let is_read = line.error.is_none();
        let or_unknown =
            |name: &Option<String>| is_read.then(|| name.clone().unwrap_or("not known".to_owned()));
        let names = [
            Some(line.verdict.clone()),
            line.cause.clone(),
            or_unknown(&line.platform),
            or_unknown(&line.kernel),
            line.fix.clone(),
        ];
        for (hosts, name) in self.by.iter_mut().zip(names) {
            if let Some(name) = name {
                hosts.entry(name).or_default().push(line.host.clone());
            }
        }
        let unreadable = |error| Unreadable { root: line.root.clone(), error };
        self.unreadable.extend(line.error.clone().map(unreadable));
    }

    /// Number of machines that could not be read.
    pub fn unreadable(&self) -> usize {
        self.unreadable.len()
    }

    /// The exit status: the worst of all machines; `UNKNOWN` ranks below `SLOW`.
    pub fn status(&self) -> i32 {
        let is_fine = self.seen.iter().eq([&NOTHING_TO_MEND]);
        let worst = [WRONG, SLOW].into_iter().find(|status| self.seen.contains(status));
        worst.unwrap_or(if is_fine { NOTHING_TO_MEND } else { UNKNOWN })
    }

    /// The summary.
    pub fn summary(mut self) -> Summary {
        self.unreadable.sort_by(|one, other| one.root.cmp(&other.root));
        let [verdict, cause, platform, kernel, fix] = self.by.map(groups);
        let (machines, unreadable) = (self.machines, self.unreadable);
        Summary { schema: SCHEMA, machines, verdict, cause, platform, kernel, fix, unreadable }
    }
}

fn groups(hosts: Hosts) -> Vec<Group> {
    let group = |(name, mut hosts): (String, Vec<String>)| {
        hosts.sort();
        Group { name, machines: hosts.len() as u64, hosts }
    };
    let mut groups: Vec<Group> = hosts.into_iter().map(group).collect();
    groups.sort_by(|one, other| other.machines.cmp(&one.machines).then(one.name.cmp(&other.name)));
    groups
}

/// The summary as text.
pub fn render(summary: &Summary) -> String {
    let mut out = match summary.machines {
        1 => "1 machine\n".to_owned(),
        count => format!("{count} machines\n"),
    };
    let titled = |prefix: &str, name: &str| match labels::page(&format!("{prefix}{name}")) {
        Ok(page) => format!("{name} ({})", page.title),
        Err(_) => name.to_owned(),
    };
    section(&mut out, "Verdict", &summary.verdict, str::to_owned);
    section(&mut out, "Cause", &summary.cause, |name| titled("", name));
    section(&mut out, "Best advice", &summary.fix, |name| titled("fix:", name));
    section(&mut out, "Platform", &summary.platform, |name| titled("platform:", name));
    section(&mut out, "Kernel", &summary.kernel, str::to_owned);
    if !summary.unreadable.is_empty() {
        out += "\nCannot be read\n";
        let why = |one: &Unreadable| text::indented(2, &format!("{}: {}", one.root, one.error));
        out.extend(summary.unreadable.iter().map(why));
    }
    out
}

fn section(out: &mut String, title: &str, groups: &[Group], named: impl Fn(&str) -> String) {
    if groups.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    for group in groups {
        let words = format!("{}: {}", named(&group.name), listed(&group.hosts, NAMED));
        *out += &text::counted(group.machines, &words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::case_tests as samples;

    #[test]
    fn hosts_are_told_by_the_names_of_their_archives() {
        for (root, name) in [
            ("clockscope-web-1-2026-11-24T020000Z.tar.zst", "web-1"),
            ("/a/b/clockscope-db.example.org-20261124T020000Z.tar.zst", "db.example.org"),
            ("sosreport-web-7-0312345-2026-11-24-abcdefg.tar.xz", "web-7-0312345"),
            ("captures/rack-2/host-9.tar.gz", "host-9"),
            ("captures/host-9/", "host-9"),
            ("sosreport-", "sosreport-"),
            ("clockscope-2026-1.tar", "2026-1"),
            ("", ""),
        ] {
            assert_eq!(host(root), name, "{root}");
        }
    }

    fn tally() -> Tally {
        let mut tally = Tally::default();
        for name in ["c.tar", "a.tar", "b.tar"] {
            tally.add(&MachineLine::of(name, &samples::warp()));
        }
        tally.add(&MachineLine::unreadable("broken.tar", "the archive is cut off"));
        tally
    }

    #[test]
    fn a_line_survives_its_own_json_and_says_the_status() {
        let line = MachineLine::of("a.tar", &samples::warp());
        let json = serde_json::to_string(&line).unwrap();
        assert!(!json.contains('\n'));
        assert_eq!(serde_json::from_str::<MachineLine>(&json).unwrap(), line);
        assert_eq!((line.status, line.verdict.as_str(), &line.error), (SLOW, "slow", &None));
        assert_eq!(line.cause.as_deref(), Some("tsc-warp"));
    }

    #[test]
    fn groups_name_their_hosts_and_nothing_is_lost() {
        let tally = tally();
        assert_eq!((tally.machines, tally.unreadable(), tally.status()), (4, 1, SLOW));
        let summary = tally.summary();
        assert_eq!(summary.verdict[0].name, "slow");
        assert_eq!(summary.verdict[0].hosts, ["a", "b", "c"]);
        assert_eq!(summary.verdict.iter().map(|group| group.machines).sum::<u64>(), 4);
        assert_eq!(summary.unreadable[0].root, "broken.tar");
        assert_eq!(summary.platform[0].name, "virtualbox");
        let text = render(&summary);
        assert!(text.contains("broken.tar: the archive is cut off"), "{text}");
        assert!(text.contains("a, b, c"), "{text}");
    }

    #[test]
    fn the_worst_machine_decides_the_exit_status() {
        let status = |statuses: &[i32]| {
            let mut tally = Tally::default();
            for &status in statuses {
                tally.add(&MachineLine { status, ..MachineLine::unreadable("a", "") });
            }
            tally.status()
        };
        assert_eq!(status(&[]), UNKNOWN);
        assert_eq!(status(&[NOTHING_TO_MEND]), NOTHING_TO_MEND);
        assert_eq!(status(&[NOTHING_TO_MEND, UNKNOWN]), UNKNOWN);
        assert_eq!(status(&[NOTHING_TO_MEND, 7]), UNKNOWN, "of another version");
        assert_eq!(status(&[UNKNOWN, SLOW]), SLOW);
        assert_eq!(status(&[WRONG, UNKNOWN, SLOW]), WRONG);
    }
}
