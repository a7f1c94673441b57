//! Recorded machines with damaged input: doctor still reports the labels that the rest supports, and no others.
//!
//! A generator seeded with the machine's name and a number chooses the damage, so every run is the same. Three rules
//! judge the result, independently of doctor's own rules:
//!
//! - Prefixes change nothing: the labels are those of the whole log.
//! - A damaged line keeps its meaning or loses it: each label is one of the log without some of the damaged lines, and
//!   a label of both the whole log and the log without these lines stays.
//! - A missing line removes only the labels that it supports: a label with all its cited lines present stays, and a
//!   label that would be wrong appears only if a cited line is missing.
//!
//! `CLOCKSCOPE_MUTATIONS` is the number of damages for each machine; `make mutate` takes 5000.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::case_tests::{Case, cases};
use super::model::DoctorReport;
use crate::collect;
use crate::root::unpack::tests::{gzip, zstd};
use crate::root::{Root, paths};
use crate::rules;

/// Default number of damages for each machine.
const WAYS: u64 = 40;
/// Labels that a shorter log may add: they report that a fact is unknown, or would help.
const WEAKER: [&str; 9] = [
    "state:unknown",
    "state:slow-unless-pvclock-vdso",
    "cause-needs-dmesg",
    "log-incomplete",
    "needs-rate-measurement",
    "vdso-support-depends-on-kernel",
    "early-switch-benign",
    "calibration-note-benign",
    "tsc-refused",
];

/// Platforms that are not virtual machines.
const NOT_VIRTUAL: [&str; 4] =
    ["platform:bare-metal", "platform:arm64", "platform:arm32", "platform:aws"];

type Labels = BTreeSet<String>;

/// A recorded machine, its log in lines.
#[derive(Clone, Default)]
struct Machine {
    id: String,
    expected: Labels,
    forbidden: Labels,
    files: Vec<(String, Vec<u8>)>,
    log: String,
    lines: Vec<String>,
}

impl Machine {
    fn of(case: Case, folder: &Path) -> Machine {
        let mut machine = Machine {
            id: case.id,
            expected: case.expected_diagnosis.union(&case.bonus_diagnosis).cloned().collect(),
            forbidden: case.must_not_diagnose,
            ..Machine::default()
        };
        for path in files_below(folder) {
            let below = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            let bytes = fs::read(&path).unwrap();
            match paths::content(&below) {
                Some(paths::Content::Log) => {
                    assert!(machine.log.is_empty(), "{folder:?} has two logs");
                    machine.log = below;
                    let text = String::from_utf8_lossy(&bytes);
                    machine.lines = text.lines().map(str::to_owned).collect();
                }
                Some(paths::Content::Small) => machine.files.push((below, bytes)),
                None => {}
            }
        }
        machine
    }

    /// Doctor's report on the machine with this log.
    fn judged(&self, log: &[u8]) -> DoctorReport {
        let mut builder = tar::Builder::new(Vec::new());
        let log = [(self.log.clone(), log.to_vec())];
        let logs = log.into_iter().filter(|(path, _)| !path.is_empty());
        for (path, bytes) in self.files.iter().cloned().chain(logs) {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, path, &bytes[..]).unwrap();
        }
        let archive = builder.into_inner().unwrap();
        let facts = collect::facts(&Root::from_archive(&archive[..], "made").unwrap());
        DoctorReport::new(&facts, &rules::examine(&facts))
    }

    fn labels(&self, lines: &[String]) -> Labels {
        labels_of(&self.judged(text_of(lines).as_bytes()))
    }

    /// The machine without some files and some lines.
    fn without(&self, files: &BTreeSet<usize>, lines: &BTreeSet<usize>) -> Machine {
        let mut machine = self.clone();
        machine.files = left(&self.files, files);
        machine.lines = left(&self.lines, lines);
        machine
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.into_iter().flat_map(below).collect()
}

fn left<T: Clone>(all: &[T], gone: &BTreeSet<usize>) -> Vec<T> {
    all.iter()
        .enumerate()
        .filter(|(at, _)| !gone.contains(at))
        .map(|(_, one)| one.clone())
        .collect()
}

fn text_of(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The labels without fixes, which follow from them.
fn labels_of(report: &DoctorReport) -> Labels {
    report.labels.iter().filter(|label| !label.starts_with("fix:")).cloned().collect()
}

/// The lines and files that the report cites for each label; of a folded line both parts.
fn cited(report: &DoctorReport, lines: &[String]) -> BTreeMap<String, Vec<(String, Option<u64>)>> {
    let places = |it: &crate::facts::Evidence| {
        let index = it.line.map(|line| usize::try_from(line).unwrap() - 1);
        let whole = |line: &String| line.contains(it.text.rsplit("] ").next().unwrap());
        let is_folded = index.is_some_and(|index| !lines.get(index).is_some_and(whole));
        let next = it.line.filter(|_| is_folded).map(|line| (it.file.clone(), Some(line + 1)));
        std::iter::once((it.file.clone(), it.line)).chain(next).collect::<Vec<_>>()
    };
    let mut cited: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in &report.findings {
        cited.insert(row.id.clone(), row.evidence.iter().flat_map(places).collect());
    }
    if let Some(source) = &report.source {
        let lines = report.source_evidence.iter().flat_map(places).collect();
        cited.insert(format!("source:{source}"), lines);
    }
    cited
}

/// Pseudo-random numbers, the same in every run (splitmix64).
struct Chance(u64);

impl Chance {
    fn of(name: &str, number: u64) -> Chance {
        let mixed = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Chance(name.bytes().fold(0xcbf2_9ce4_8422_2325, mixed) ^ number.wrapping_mul(0x9e37_79b9))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end.max(1) as u64).unwrap()
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Up to `most` places below `end`.
    fn places(&mut self, end: usize, most: usize) -> BTreeSet<usize> {
        let count = 1 + self.below(most);
        if end == 0 { BTreeSet::new() } else { (0..count).map(|_| self.below(end)).collect() }
    }
}

/// Number of the last prefixes, which are only known before a stamp.
const ANY: usize = 8;
/// Prefixes that loggers, consoles and people add to each line.
const PREFIXES: [&str; 19] = [
    "",
    "    ",
    "> ",
    "> > ",
    "| ",
    "<4>",
    "kernel: ",
    "May  6 11:52:52 frontend kernel: ",
    "2024-05-06T11:52:52.123456+02:00 host kernel: ",
    "2024-05-06T11:52:52.123456789Z ",
    "kern  :info  : ",
    "2024-05-06T11:52:52.123456789Z stderr F ",
    "[pod/node-shell-x7k2p/shell] ",
    "[pod/node-shell-x7k2p/shell] 2024-05-06T11:52:52.123456789Z ",
    "guest-1  | ",
    "/var/log/kern.log.1:",
    "[UART16550] ",
    "UART: ",
    "guest 7 on ttyS0: ",
];

/// Adds a prefix to every line, and sometimes a carriage return at its end.
fn prefixed(lines: &[String], chance: &mut Chance) -> Vec<String> {
    let numbers = chance.below(8) == 0;
    // The message begins after the stamp, with any prefix before it.
    let stamped = lines.iter().filter(|line| line.contains("[ ") || line.contains("[0")).count();
    let known =
        if stamped == lines.len() { &PREFIXES[..] } else { &PREFIXES[..PREFIXES.len() - ANY] };
    let prefix = *chance.one_of(known);
    let end = *chance.one_of(&["", "\r", "  ", "\x1b[0m"]);
    let mixed = chance.below(4) == 0;
    let mut one = |number: usize, line: &String| {
        let prefix = if mixed { *chance.one_of(known) } else { prefix };
        match numbers && (line.starts_with('[') || line.starts_with('<')) {
            true => format!("{}:{line}{end}", number + 1),
            false => format!("{prefix}{line}{end}"),
        }
    };
    lines.iter().enumerate().map(|(number, line)| one(number, line)).collect()
}

/// Cuts a line as a pager, a screen's width, a full disk or a ring buffer does.
fn cut(line: &str, chance: &mut Chance) -> String {
    let places: Vec<usize> = line.char_indices().map(|(at, _)| at).collect();
    let at = if places.is_empty() { 0 } else { *chance.one_of(&places) };
    // The rest would be a complete line about another clocksource.
    if line[..at].ends_with(" hyperv_clocksource") || line[..at].ends_with(" tsc") {
        return line.to_owned();
    }
    match chance.below(5) {
        0 => format!("{}>", &line[..at]),
        1 => format!("{}...", &line[..at]),
        2 => line[at..].to_owned(),
        3 => format!("{}\u{fffd}{}", &line[..at], line[at..].chars().skip(1).collect::<String>()),
        _ => line[..at].to_owned(),
    }
}

/// Folds a line at a blank, as mail programs do, or at a column, as consoles do.
fn wrapped(line: &str, chance: &mut Chance) -> String {
    let width = 40 + chance.below(60);
    let indent = *chance.one_of(&["", " ", "    ", "> "]);
    let Some((column, _)) = line.char_indices().nth(width) else { return line.to_owned() };
    match line[..column].rfind(' ').filter(|_| chance.below(3) > 0) {
        Some(blank) => format!("{}\n{indent}{}", &line[..blank], &line[blank + 1..]),
        None => format!("{}\n{}", &line[..column], &line[column..]),
    }
}

/// The counts of a run.
#[derive(Default)]
struct Score {
    ways: u64,
    /// Labels of the whole log that were still reported, and all of them.
    kept: u64,
    of: u64,
}

impl Score {
    fn add(&mut self, whole: &Labels, said: &Labels) {
        self.ways += 1;
        self.of += whole.len() as u64;
        self.kept += whole.intersection(said).count() as u64;
    }

    fn in_words(&self, kind: &str) -> String {
        let share = 100.0 * self.kept as f64 / self.of.max(1) as f64;
        format!(
            "{kind:<10} {:>6} ways, {share:5.1} % of the labels of the whole log said\n",
            self.ways
        )
    }
}

/// The wrong labels of a log that differs only in the `damaged` lines.
fn third_things(
    machine: &Machine,
    whole: &Labels,
    lines: &[String],
    damaged: &BTreeSet<usize>,
    said: &Labels,
) -> Vec<String> {
    let none = BTreeSet::new();
    let without = |gone: &BTreeSet<usize>| machine.labels(&machine.without(&none, gone).lines);
    let rest = without(damaged);
    let mut complaints = Vec::new();
    for lost in whole.intersection(&rest).filter(|label| !said.contains(*label)) {
        complaints.push(format!("{lost} is lost"));
    }
    let new = |known: &Labels| -> Vec<String> {
        let is_new = |label: &&String| !known.contains(*label) && !WEAKER.contains(&label.as_str());
        said.iter().filter(is_new).cloned().collect()
    };
    let mut known: Labels = whole.union(&rest).cloned().collect();
    if !new(&known).is_empty() {
        let all: Vec<usize> = damaged.iter().copied().collect();
        for mask in 1..(1_usize << all.len()) {
            let gone = all.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
            known.extend(without(&gone.map(|(_, at)| *at).collect()));
        }
    }
    complaints.extend(new(&known).iter().map(|label| format!("{label} is new")));
    if !complaints.is_empty() {
        let shown = damaged.iter().filter_map(|at| lines.get(*at));
        complaints.extend(shown.map(|line| format!("    {line:?}")));
    }
    complaints
}

/// Damages some lines, each in its own way.
fn damaged(
    machine: &Machine,
    whole: &Labels,
    chance: &mut Chance,
    damage: fn(&str, &mut Chance) -> String,
) -> (Labels, Vec<String>) {
    let places = chance.places(machine.lines.len(), 3);
    let mut lines = machine.lines.clone();
    for place in &places {
        lines[*place] = damage(&lines[*place], chance);
    }
    let said = machine.labels(&lines);
    let complaints = third_things(machine, whole, &lines, &places, &said);
    (said, complaints)
}

/// Swaps neighbours, as loggers with several threads do.
fn reordered(machine: &Machine, whole: &Labels, chance: &mut Chance) -> (Labels, Vec<String>) {
    let mut lines = machine.lines.clone();
    if lines.len() < 2 {
        return (whole.clone(), Vec::new());
    }
    let at = chance.below(lines.len() - 1);
    lines.swap(at, at + 1);
    let said = machine.labels(&lines);
    let complaints = third_things(machine, whole, &lines, &BTreeSet::from([at, at + 1]), &said);
    (said, complaints)
}

/// Drops lines and files.
fn dropped(machine: &Machine, report: &DoctorReport, chance: &mut Chance) -> (Labels, Vec<String>) {
    let most = (machine.lines.len() / 2).clamp(1, 12);
    let files =
        if chance.below(3) == 0 { chance.places(machine.files.len(), 2) } else { BTreeSet::new() };
    let lines = chance.places(machine.lines.len(), most);
    let less = machine.without(&files, &lines);
    let said = less.labels(&less.lines);
    let is_gone = |(file, line): &(String, Option<u64>)| match line {
        Some(line) => lines.contains(&(usize::try_from(*line).unwrap() - 1)),
        None => files.iter().any(|at| machine.files[*at].0 == *file),
    };
    let mut complaints = Vec::new();
    let cited = cited(report, &machine.lines);
    let has_platforms =
        report.platforms.iter().all(|name| said.contains(&format!("platform:{name}")));
    for label in &machine.expected {
        let rests_on = cited.get(label).filter(|places| !places.is_empty());
        let is_supported = match label.split_once(':') {
            // Lines that give a clocksource up decide which one is current.
            Some(_) => rests_on.is_some() && !cited.values().flatten().any(is_gone),
            // A fault of a virtual machine is no fault on other machines.
            None => has_platforms && rests_on.is_some_and(|places| !places.iter().any(is_gone)),
        };
        if is_supported && !said.contains(label) {
            complaints.push(format!("{label} is lost, though all that it rests on is there"));
        }
    }
    if !cited.values().flatten().any(is_gone) {
        let wrong = machine.forbidden.intersection(&said);
        complaints.extend(wrong.map(|label| format!("{label} is wrong")));
    }
    let is_virtual =
        |label: &String| label.starts_with("platform:") && !NOT_VIRTUAL.contains(&label.as_str());
    if report.labels.iter().any(is_virtual) && said.contains("platform:bare-metal") {
        complaints.push("platform:bare-metal is wrong".to_owned());
    }
    if !complaints.is_empty() {
        complaints.extend(lines.iter().map(|at| format!("    without {:?}", machine.lines[*at])));
        complaints.extend(files.iter().map(|at| format!("    without {}", machine.files[*at].0)));
    }
    (said, complaints)
}

#[test]
fn damaged_logs_keep_what_the_rest_supports_and_say_nothing_wrong() {
    let asked: Option<u64> =
        env::var("CLOCKSCOPE_MUTATIONS").ok().map(|text| text.parse().unwrap());
    let ways = asked.unwrap_or(WAYS);
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    let mut complaints = Vec::new();
    for (case, folder) in cases() {
        let machine = Machine::of(case, &folder);
        let report = machine.judged(text_of(&machine.lines).as_bytes());
        let whole = labels_of(&report);
        assert!(
            machine.expected.iter().all(|label| whole.contains(label) || label.starts_with("fix:"))
        );
        for way in 0..ways {
            let mut chance = Chance::of(&machine.id, way);
            let (kind, (said, wrong)) = match way % 5 {
                0 => ("prefixed", {
                    let lines = prefixed(&machine.lines, &mut chance);
                    let said = machine.labels(&lines);
                    let lost = whole.symmetric_difference(&said);
                    let wrong =
                        lost.map(|label| format!("{label}, as in {:?}", lines.first())).collect();
                    (said, wrong)
                }),
                1 => ("cut", damaged(&machine, &whole, &mut chance, cut)),
                2 => ("wrapped", damaged(&machine, &whole, &mut chance, wrapped)),
                3 => ("reordered", reordered(&machine, &whole, &mut chance)),
                _ => ("dropped", dropped(&machine, &report, &mut chance)),
            };
            scores.entry(kind).or_default().add(&whole, &said);
            if !wrong.is_empty() {
                complaints.push(format!("{} {kind} {way}: {}", machine.id, wrong.join("\n  ")));
            }
        }
    }
    if asked.is_some() {
        let figures: String = scores.iter().map(|(kind, score)| score.in_words(kind)).collect();
        let _ = io::stderr().write_all(figures.as_bytes());
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// A line's stamp in seconds and microseconds, and its message, if the stamp has six places.
fn stamped(line: &str) -> Option<(u64, &str)> {
    let (stamp, message) = line.strip_prefix('[')?.split_once("] ")?;
    let (seconds, micros) = stamp.trim().split_once('.').filter(|(_, micros)| micros.len() == 6)?;
    Some((seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?, message))
}

type Dress = (&'static str, fn(&str) -> String);

/// The forms in which people have a log, each by what is made of a line.
const DRESSES: [Dress; 4] = [
    ("docker", |line| {
        let log = serde_json::to_string(&format!("{line}\n")).unwrap();
        format!(r#"{{"log":{log},"stream":"stdout","time":"2026-11-24T10:00:00.123456789Z"}}"#)
    }),
    ("journalctl -o json", |line| {
        let (stamp, message) = match stamped(line) {
            Some((us, message)) => (format!(r#""__MONOTONIC_TIMESTAMP":"{us}","#), message),
            None => (String::new(), line),
        };
        let message = serde_json::to_string(message).unwrap();
        let cursor = "s=6d1f0c;i=4b2;b=3f0a7b2c0d1e4f5a8b9c0d1e2f3a4b5c;m=1f4a;t=5e1b2c;x=9a8b7c6d5e4f3a2b1c0d";
        format!(
            r#"{{"__CURSOR":"{cursor}",{stamp}"_TRANSPORT":"kernel","MESSAGE":{message},"PRIORITY":"6"}}"#
        )
    }),
    ("Loki", |line| {
        let line = serde_json::to_string(line).unwrap();
        format!(
            r#"{{"labels":{{"filename":"/var/log/pods/kube-system_node/kern.log"}},"line":{line},"timestamp":"2026-11-24T10:00:00Z"}}"#
        )
    }),
    ("a JSON array", |line| {
        format!(r#"    {{"message": {}}},"#, serde_json::to_string(line).unwrap())
    }),
];

#[test]
fn a_log_in_any_dress_says_what_the_plain_one_says() {
    let mut complaints = Vec::new();
    let mut judged = 0;
    for (case, folder) in cases() {
        let machine = Machine::of(case, &folder);
        let text = text_of(&machine.lines);
        let plain = machine.judged(text.as_bytes());
        let dressed = DRESSES.iter().map(|(name, dress)| {
            let lines: Vec<String> = machine.lines.iter().map(|line| dress(line)).collect();
            (*name, text_of(&lines).into_bytes())
        });
        let packed = [("gzip", gzip(text.as_bytes())), ("zstd", zstd(text.as_bytes()))];
        for (name, bytes) in dressed.chain(packed) {
            let labels = machine.judged(&bytes).labels;
            if labels != plain.labels {
                complaints
                    .push(format!("{} as {name}: {labels:?}\n  {:?}", machine.id, plain.labels));
            }
            judged += 1;
        }
    }
    assert!(judged > 400, "{judged}");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
