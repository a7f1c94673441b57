//! Compares the callers in a report with the call paths that the program prints.
#![allow(clippy::print_stdout, reason = "the figures, for who runs it with --nocapture")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::printed::Key;
use super::running::{Report, rows};

/// Share of samples that must have the true caller.
pub(crate) const TRUE_CALLERS: f64 = 0.99;

/// A call path that the program prints.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// Names of the functions, the caller first; `true` for a function that a report shows only if it knows inlined
    /// functions.
    pub(crate) frames: Vec<(String, bool)>,
    pub(crate) key: Key,
    pub(crate) calls: u64,
}

impl Way {
    /// Reads `path LEAF;...;ROOT FUNCTION CLOCK N`.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.strip_prefix("path ")?.split(' ').collect();
        let [path, function, clock, calls] = words[..] else { return None };
        let mut frames = Vec::new();
        for frame in path.split(';') {
            let (name, times) = frame.split_once('*').unwrap_or((frame, "1"));
            let times: usize = times.parse().expect("a number of frames");
            let plain = name.strip_prefix('+');
            let one = (plain.unwrap_or(name).to_owned(), plain.is_some());
            frames.extend(std::iter::repeat_n(one, times));
        }
        let key = (function.to_owned(), clock.to_owned());
        Some(Self { frames, key, calls: calls.parse().expect("a number of calls") })
    }

    /// The path's functions, with or without inlined ones.
    pub(crate) fn names(&self, inlines: bool) -> Vec<&str> {
        let known = self.frames.iter().filter(|(_, inlined)| inlines || !inlined);
        known.map(|(name, _)| name.as_str()).collect()
    }
}

/// The call paths in a program's output.
pub(crate) fn ways(output: &str) -> Vec<Way> {
    let ways: Vec<Way> = output.lines().filter_map(Way::parse).collect();
    assert!(!ways.is_empty(), "no ways: {output:?}");
    ways
}

/// A function's name without the decorations of its language: `<T as shop::Site>::read::h0123` and `main.(*wall).read`
/// become `read`.
pub(crate) fn plain_name(name: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_usize;
    for c in name.chars() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let plain = plain.trim_end_matches(" const").trim();
    let is_hash = |part: &str| {
        part.len() == 17
            && part.starts_with('h')
            && part[1..].chars().all(|c| c.is_ascii_hexdigit())
    };
    let parts: Vec<&str> = plain.split("::").filter(|part| !is_hash(part)).collect();
    let last = parts.last().copied().unwrap_or("");
    // C++ may put the type before the name, C compilers the kind of clone behind the name, Go a package before it.
    let last = last.rsplit(' ').next().unwrap_or(last);
    let go = ["main.", "runtime.", "time.", "sort.", "sync."];
    match go.iter().any(|package| name.starts_with(package)) {
        true => last.rsplit('.').next().unwrap_or(last).to_owned(),
        false => last.split('.').next().unwrap_or(last).to_owned(),
    }
}

/// The samples of one report, compared with the program's call paths.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) samples: u64,
    /// Samples with a true caller.
    pub(crate) right: u64,
    /// Samples whose named frames all agree with a path.
    pub(crate) consistent: u64,
    /// Consistent samples with all frames of the path.
    pub(crate) complete: u64,
    /// Calls that the consistent samples of each path stand for, in the order of the paths.
    pub(crate) calls_of_way: Vec<f64>,
    /// Stacks that agree with no path, and their samples.
    pub(crate) wrong: BTreeMap<String, u64>,
}

/// Kinds of frames in the stack of a known program.
enum Frame {
    /// A function of the program, by its plain name.
    Own(String),
    /// A frame in the program without a name.
    Nameless,
    /// A function of a library, or of a runtime.
    Foreign,
}

fn frame_of(row: &Value, own: &[String], source: &str, program: &str) -> Frame {
    let module = row["module"].as_str().unwrap_or("");
    match row["function"].as_str() {
        Some(name) => {
            let name = plain_name(name);
            let in_source = row["file"].as_str().is_some_and(|file| file.ends_with(source));
            // A closure has no name of its own.
            let is_own = own.contains(&name) || in_source && !name.is_empty();
            if is_own { Frame::Own(name) } else { Frame::Foreign }
        }
        None if module.is_empty() || module.ends_with(program) => Frame::Nameless,
        None => Frame::Foreign,
    }
}

/// Compares each stack of the report with the paths to its call.
pub(crate) fn judge(
    report: &Report,
    ways: &[Way],
    source: &str,
    program: &Path,
    inlines: bool,
) -> Verdict {
    let callers = report.field("callers");
    let file = program.file_name().expect("has a name").to_string_lossy().into_owned();
    let own: Vec<String> =
        ways.iter().flat_map(|way| way.frames.iter().map(|(name, _)| name.clone())).collect();
    let calls_of_way = vec![0.0; ways.len()];
    let mut verdict = Verdict { calls_of_way, ..Verdict::default() };
    for stack in rows(&callers["stacks"]) {
        let samples = stack["samples"].as_u64().expect("a number of samples");
        let key = key_of(called_by(callers, stack));
        if !ways.iter().any(|way| way.key == key) {
            continue;
        }
        let mut names = Vec::new();
        for frame in frames_of(callers, stack) {
            match frame_of(frame, &own, source, &file) {
                Frame::Own(name) => names.push(name),
                Frame::Nameless => names.push("?".to_owned()),
                Frame::Foreign => {}
            }
        }
        verdict.samples += samples;
        let calls = stack["calls"].as_f64().expect("a number of calls");
        verdict.add(ways, &key, &names, inlines, samples, calls);
    }
    verdict
}

/// The function or system call and the clock of a row of `called`.
pub(crate) fn key_of(row: &Value) -> Key {
    let clock = row["clock"].as_str().unwrap_or("-");
    (row["name"].as_str().expect("a name").to_owned(), clock.to_owned())
}

/// The row of `called` that a stack led to.
pub(crate) fn called_by<'a>(callers: &'a Value, stack: &Value) -> &'a Value {
    &callers["called"][index(&stack["called"])]
}

/// The frames of a stack, the caller first.
pub(crate) fn frames_of<'a>(
    callers: &'a Value,
    stack: &'a Value,
) -> impl Iterator<Item = &'a Value> {
    rows(&stack["frames"]).map(|frame| &callers["frames"][index(frame)])
}

pub(crate) fn index(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("an index")).expect("an index")
}

impl Verdict {
    fn add(
        &mut self,
        ways: &[Way],
        key: &Key,
        names: &[String],
        inlines: bool,
        samples: u64,
        calls: f64,
    ) {
        let of_call = || ways.iter().enumerate().filter(|(_, way)| way.key == *key);
        let agrees = |way: &Way| {
            let true_names = way.names(inlines);
            names.iter().zip(&true_names).all(|(name, truth)| name == truth)
        };
        if of_call().any(|(_, way)| names.first().is_some_and(|name| name == way.names(inlines)[0]))
        {
            self.right += samples;
        }
        let found = of_call().find(|(_, way)| !names.is_empty() && agrees(way));
        match found {
            Some((number, way)) => {
                self.consistent += samples;
                self.calls_of_way[number] += calls;
                if names.len() >= way.names(inlines).len() {
                    self.complete += samples;
                }
            }
            None => {
                let stack = format!("{} {}: {}", key.0, key.1, names.join(";"));
                *self.wrong.entry(stack).or_default() += samples
            }
        }
    }

    /// The largest error of a path's share, in points of the calls of all paths.
    #[expect(clippy::cast_precision_loss)]
    pub(crate) fn off_by(&self, ways: &[Way]) -> f64 {
        let seen: f64 = self.calls_of_way.iter().sum();
        let made: u64 = ways.iter().map(|way| way.calls).sum();
        let off = |(way, calls): (&Way, &f64)| {
            (calls * 100.0 / seen - way.calls as f64 * 100.0 / made as f64).abs()
        };
        ways.iter().zip(&self.calls_of_way).map(off).fold(0.0, f64::max)
    }

    /// A summary of the verdict, with the most frequent wrong stacks.
    pub(crate) fn worst(&self) -> String {
        let mut wrong: Vec<_> = self.wrong.iter().collect();
        wrong.sort_by_key(|(_, samples)| std::cmp::Reverse(**samples));
        let mut text = format!(
            "{} samples, {} right, {} consistent, {} complete\n",
            self.samples, self.right, self.consistent, self.complete
        );
        for (stack, samples) in wrong.into_iter().take(12) {
            let _ = writeln!(text, "{samples} x {stack}");
        }
        text
    }

    /// Prints the shares of true callers, true stacks and complete stacks.
    pub(crate) fn print(&self, name: &str) {
        let of = |part| percent(part, self.samples);
        println!(
            "{name}: {} samples, true callers {:.3} %, true stacks {:.3} %, whole stacks {:.3} %",
            self.samples,
            of(self.right),
            of(self.consistent),
            of(self.complete)
        );
    }

    #[track_caller]
    pub(crate) fn assert_true_callers(&self) {
        let least = |share: f64| share_of(self.samples, share);
        assert!(self.right >= least(TRUE_CALLERS), "true callers: {}", self.worst());
        assert!(self.consistent >= least(TRUE_CALLERS), "true stacks: {}", self.worst());
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn share_of(samples: u64, share: f64) -> u64 {
    (samples as f64 * share).floor() as u64
}

#[expect(clippy::cast_precision_loss)]
pub(crate) fn percent(part: u64, of: u64) -> f64 {
    part as f64 * 100.0 / of as f64
}
