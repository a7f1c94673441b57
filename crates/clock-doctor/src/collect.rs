//! Collects all facts about a machine's timekeeping from the files below a root.

mod cpu;
mod log_choice;
mod signs;

use std::io::Read;

use crate::facts::{CommandLine, Facts, Kernel, Known, Unread};
use crate::log::event::EventKind;
use crate::log::is_name;
use crate::measured::{self, Measured};
use crate::root::{Root, paths};

/// Maximum length of an evidence text, in characters; the same as in a log's events.
const EVIDENCE: usize = 300;

/// Collects all facts from the files below a root.
pub fn facts(root: &Root) -> Facts {
    facts_with_log(root, None)
}

/// As [`facts`], with the running kernel's own log and a name for it. Log files only add lines of the same boot.
pub fn facts_with_log(root: &Root, kernel_log: Option<(Box<dyn Read + '_>, &str)>) -> Facts {
    let mut files = Files::of(root);
    let kernel = kernel(&mut files);
    let log = log_choice::choose(&mut files, kernel.as_ref(), kernel_log);
    let mut logged = (None, None);
    for event in log.iter().flat_map(|log| &log.events) {
        match &event.kind {
            EventKind::LinuxVersion(release) => logged.0 = Some((release, &event.evidence)),
            EventKind::Release(release) => logged.0 = logged.0.or(Some((release, &event.evidence))),
            EventKind::CommandLine(line) => logged.1 = Some((line, &event.evidence)),
            _ => {}
        }
    }
    let kernel = kernel.or_else(|| {
        let (release, evidence) = logged.0?;
        Some(Known { value: Kernel::parse(release)?, evidence: evidence.clone() })
    });
    let command_line = files.value("proc/cmdline", |text| {
        Some(CommandLine::parse(text)).filter(|line| !line.words.is_empty())
    });
    let command_line = command_line.or_else(|| {
        let (text, evidence) = logged.1?;
        Some(Known { value: CommandLine::parse(text), evidence: evidence.clone() })
    });
    Facts {
        boot_id: files.value(paths::BOOT_ID, boot_id),
        current: files
            .value(&clocksource("current"), |text| first_word(text).filter(|name| is_name(name))),
        available: files.value(&clocksource("available"), |text| {
            Some(text.split_whitespace().filter(|name| is_name(name)).map(str::to_owned).collect())
        }),
        distribution: files.first(&["etc/os-release", "usr/lib/os-release"], distribution),
        cpu: cpu::facts(&mut files),
        signs: signs::machine(&mut files),
        drift_ppm: drift(&mut files),

        vsyscall64: files.value("proc/sys/kernel/vsyscall64", |text| text.trim().parse().ok()),
        arm_registers_not_configured: signs::arm_registers_not_configured(&mut files),
        arm_timer: signs::arm_timer(&mut files),
        measured: measured(&mut files),
        kernel,
        command_line,
        log,
        read: files.read,
        unread: files.unread,
        ..Facts::default()
    }
    .with_signature()
}

/// A UUID in the format of random(4).
fn boot_id(text: &str) -> Option<String> {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let id = text.trim();
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uuid = id.split('-').map(str::len).eq(LENGTHS) && id.split('-').all(is_hex);
    is_uuid.then(|| id.to_owned())
}

/// `ID` and `ID_LIKE` of an `os-release`, separated by blanks.
fn distribution(text: &str) -> Option<String> {
    let of = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim().trim_matches(['"', '\'']))
    };
    let words: Vec<&str> = [of("ID"), of("ID_LIKE")].into_iter().flatten().collect();
    Some(words.join(" ")).filter(|words| !words.is_empty())
}

/// The files of a root, with lists of those that were read and those that were not.
struct Files<'a> {
    root: &'a Root,
    read: Vec<String>,
    unread: Vec<Unread>,
}

impl<'a> Files<'a> {
    fn of(root: &'a Root) -> Files<'a> {
        Files { root, read: Vec::new(), unread: root.refused().to_vec() }
    }

    /// The text of a short file.
    fn text(&mut self, below: &str) -> Option<String> {
        let text = self.root.text(below);
        self.noted(below, text)
    }

    /// The content that was found. Records that the file was read, or why it was not.
    fn noted<T>(&mut self, below: &str, found: Result<Option<T>, Unread>) -> Option<T> {
        let found = found.unwrap_or_else(|unread| {
            if !self.unread.contains(&unread) {
                self.unread.push(unread);
            }
            None
        });
        if found.is_some() && !self.read.iter().any(|read| read == below) {
            self.read.push(below.to_owned());
        }
        found
    }

    /// A fact from a short file; the evidence is its first line.
    fn value<T>(&mut self, below: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Known<T>> {
        let text = self.text(below)?;
        let value = parse(&text)?;
        Some(Known::new(value, below, &first_line(&text)))
    }

    /// The first of these files that gives a fact.
    fn first<T>(&mut self, places: &[&str], parse: impl Fn(&str) -> Option<T>) -> Option<Known<T>> {
        places.iter().find_map(|below| self.value(below, &parse))
    }
}

/// The first line that is not blank, cut to the maximum length of evidence.
fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(EVIDENCE).collect()
}

fn clocksource(which: &str) -> String {
    format!("{}/{which}_clocksource", paths::CLOCKSOURCE)
}

fn first_word(text: &str) -> Option<String> {
    text.split_whitespace().next().map(str::to_owned)
}

fn kernel(files: &mut Files) -> Option<Known<Kernel>> {
    files
        .value("proc/sys/kernel/osrelease", Kernel::parse)
        .or_else(|| files.value("proc/version", release_in_words))
        .or_else(|| files.first(&paths::UNAME, release_in_words))
}

/// The release from `/proc/version` (`Linux version RELEASE ...`) or from `uname -a` (`Linux HOST RELEASE ...`).
fn release_in_words(text: &str) -> Option<Kernel> {
    let line = text.lines().find(|line| line.trim_start().starts_with("Linux "))?;
    line.split_whitespace().nth(2).and_then(Kernel::parse)
}

/// The first number of the file: ppm, as chronyd and ntpd write it.
fn drift(files: &mut Files) -> Option<Known<f64>> {
    let number = |text: &str| {
        let number: f64 = first_word(text)?.parse().ok()?;
        // A larger value is no clock's: the kernel itself corrects at most 100000 ppm, by the tick.
        (number.is_finite() && number.abs() < 1e6).then_some(number)
    };
    let places = [&paths::CHRONY_DRIFT[..], &paths::NTP_DRIFT].concat();
    files.first(&places, number)
}

/// The measurements of a capture. If the file cannot be parsed, it counts as unread.
fn measured(files: &mut Files) -> Option<Measured> {
    let text = files.text(measured::FILE)?;
    match serde_json::from_slice(text.as_bytes()) {
        Ok(measured) => Some(measured),
        Err(error) => {
            files.read.retain(|file| file != measured::FILE);
            let why = crate::root::clean(&format!("not a capture's measurements: {error}"));
            files.unread.push(Unread::new(measured::FILE, why));
            None
        }
    }
}

/// The value of the first line `NAME: VALUE`.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// CPUs of a list such as `0-3,8`.
pub fn count_cpus(list: &str) -> Option<u32> {
    list.trim().split(',').try_fold(0_u32, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
#[path = "collect/facts_tests.rs"]
pub(crate) mod tests;
