//! Reads a log as a stream: any length, any bytes.

use std::borrow::Cow;
use std::io::{self, BufReader, Read};

use super::clean::clean;
use super::event::{Count, Event, EventKind, UnstableReason};
use super::json::message_of;
use super::kept::Kept;
use super::lines;
use super::order;
use super::parse::{self, Said, watchdog};
use super::prefix::{self, Split};
use crate::facts::{Evidence, Log};
use crate::root::unpack;

/// Maximum number of bytes of a line that are parsed. The kernel's longest lines are command lines: 4096 bytes on s390,
/// 2048 on x86 and arm64 (`COMMAND_LINE_SIZE`, 6.12). `journalctl -o json` adds some thirty fields.
const LINE: usize = 8192;
/// Bytes at the beginning by which a log's order is recognised: some hundred lines.
const HEAD: usize = 64 << 10;
/// Maximum size of a log that is reversed, in bytes, counted from its beginning with the newest lines.
const TURNED_MAX: u64 = 32 << 20;
/// Bytes of a read. 256 KiB fit into the second-level cache.
const BLOCK: usize = 256 << 10;
/// Maximum number of characters of a line in the report.
const TEXT_MAX: usize = 300;
/// Lines at the beginning that are searched for a stamp.
const LOOKED_AT: u64 = 100;
/// A stamp below this is that of a boot, in seconds.
const NEAR_START: f64 = 1.0;
/// Minimum length of a folded message, in bytes: mail programs and consoles fold no shorter one.
const FOLDED_FROM: usize = 24;
/// Maximum length of a folded line, in bytes.
const FOLDED_TO: usize = 256;
/// Bytes on each side of a fold in which a keyword may be cut in two: the longest one and more.
const KEYWORD: usize = 64;
/// Number of lines within which a repeated `Linux version` line is a copy instead of another boot: loggers that read
/// the kernel's log twice write lines in pairs.
const COPIED_WITHIN: u64 = 10;

/// Reads a log to its end and keeps the lines of its last boot about clocks.
///
/// A log may be packed, and its lines may be JSON objects. One with its newest line first is reversed.
///
/// Memory is bounded: only the first and the last lines of each kind are kept, and [`Log::left_out`] counts the others.
///
/// # Errors
///
/// Those of `bytes`, and of a packing that is not read.
pub fn read(bytes: &mut dyn Read, file: &str) -> io::Result<Log> {
    let (mut text, mut rest) = unpack::head_of(unpack::log(bytes)?, HEAD)?;
    if !order::is_newest_first(&text) {
        return read_within(&mut text.as_slice().chain(rest), file, LINE, BLOCK);
    }
    (&mut rest).take(TURNED_MAX).read_to_end(&mut text)?;
    let left_out = io::copy(&mut rest, &mut io::sink())?;
    let mut log = read_within(&mut &order::turned(&text)[..], file, LINE, BLOCK)?;
    let events = log.events.iter_mut().map(|event| &mut event.evidence);
    for evidence in events.chain(log.last.iter_mut().map(|(_, evidence)| evidence)) {
        evidence.line = evidence.line.map(|line| log.lines + 1 - line);
    }
    log.skipped_bytes += left_out;
    Ok(log)
}

fn read_within(bytes: &mut dyn Read, file: &str, limit: usize, block: usize) -> io::Result<Log> {
    let mut boots = Boots { file, ..Boots::default() };
    let mut tail = Tail { inner: bytes, last: Vec::new(), keeps: limit };
    let mut buffered = BufReader::with_capacity(block, &mut tail);
    let lines = lines::each(&mut buffered, limit, &mut |number, line| {
        boots.take(number, &message_of(line));
    })?;
    let text = tail.last.strip_suffix(b"\n").unwrap_or(&tail.last);
    let mut numbered = (0..=lines).rev().zip(text.rsplit(|byte| *byte == b'\n'));
    let last = numbered.find_map(|(number, line)| {
        let line = message_of(line);
        let text = clean(&line);
        let split = prefix::split(&text);
        let (file, line) = (file.to_owned(), Some(number));
        Some((split.at?, Evidence { file, line, text: shown(&split) }))
    });
    Ok(Log { last, ..boots.finish(lines) })
}

/// A stream that keeps its last bytes.
struct Tail<'a> {
    inner: &'a mut dyn Read,
    last: Vec<u8>,
    keeps: usize,
}

impl Read for Tail<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.last.extend_from_slice(&buffer[read.saturating_sub(self.keeps)..read]);
        self.last.drain(..self.last.len().saturating_sub(self.keeps));
        Ok(read)
    }
}

/// A line that may continue on the next one.
struct Open {
    line: u64,
    at: Option<f64>,
    text: String,
    message: String,
    kind: Option<EventKind>,
    /// The line ends within a format, so that its rest is known even behind a prefix.
    is_open: bool,
    /// Nothing precedes the message: if the next line is quoted or indented, the line has lost its beginning.
    is_first_word: bool,
}

impl Open {
    /// The event of the line together with `rest`, and the text between them: mail programs fold at a blank, consoles
    /// anywhere. `None` if `rest` is a separate line, or adds nothing.
    fn joined(&self, rest: &str) -> Option<(&'static str, EventKind)> {
        let alone = parse::said(rest);
        let is_begun = self.message.starts_with("tsc:") || self.message.starts_with("clocksource:");
        let ends = [":", " watchdog", " watchdog on"].iter().any(|end| self.message.ends_with(end));
        let is_begun = is_begun && self.kind.is_none() && ends;
        if let Some(kind) = alone.kind.clone().filter(|_| is_begun) {
            return Some((" ", kind));
        }
        use EventKind::{OfPlatform, WatchdogNoise};
        let may_be_rest = |kind: &_| matches!(kind, WatchdogNoise | OfPlatform(_));
        if alone.kind.as_ref().is_some_and(|kind| !may_be_rest(kind)) || alone.is_open {
            return None;
        }
        // `=` at the end of a line in quoted-printable mails.
        let (message, gaps) = match self.message.strip_suffix('=') {
            Some(message) => (message, &[""][..]),
            None => (self.message.as_str(), &[" ", ""][..]),
        };
        gaps.iter().find_map(|gap| {
            let said = parse::said(&format!("{message}{gap}{rest}"));
            let is_new = |kind: &EventKind| {
                let is_in_rest = Some(kind) == alone.kind.as_ref() && matches!(kind, OfPlatform(_));
                Some(kind) != self.kind.as_ref() && !is_in_rest
            };
            let kind = said.kind.filter(is_new)?;
            let is_whole = match &kind {
                // Any word is a possible name, and some names are prefixes of others.
                EventKind::Switched(name) => watchdog::is_known(name),
                // Any text is a possible reason.
                EventKind::Unstable { reason, .. } => *reason != UnstableReason::Other,
                // The second line may have lost the first digits of its number.
                EventKind::Reading(_, Count { now, last, mask, .. })
                    if *mask >= u64::from(u32::MAX) =>
                {
                    !said.is_open && now >= last
                }
                _ => !said.is_open,
            };
            is_whole.then_some((*gap, kind))
        })
    }
}

/// The boots of a log; only the last one is kept.
#[derive(Default)]
struct Boots<'a> {
    file: &'a str,
    kept: Kept,
    count: u64,
    begins_at_boot: bool,
    /// Whether the log's first stamp was seen, or can no longer come.
    is_stamped: bool,
    /// Whether a stamp was seen, or a line that begins with one blank.
    may_lack_words: bool,
    /// The last `Linux version` line.
    version: Option<(u64, String)>,
    /// The line before was the first line of a boot on architectures with a device tree.
    entry: Option<(u64, Event)>,
    open: Option<Open>,
    /// The line before, if it is short enough to be folded and says nothing by itself.
    before: Vec<u8>,
}

impl Boots<'_> {
    fn take(&mut self, number: u64, bytes: &[u8]) {
        let has_keyword = parse::has_keyword(bytes);
        if self.open.is_none() && self.is_folded(bytes, has_keyword) {
            self.open = self.opened(number - 1);
        }
        self.before.clear();
        let is_looked_at = self.open.is_some() || (!self.is_stamped && number <= LOOKED_AT);
        if !has_keyword && bytes.len() <= FOLDED_TO {
            self.before.extend_from_slice(bytes);
        }
        if !is_looked_at && !has_keyword {
            return;
        }
        let mut text = clean(bytes);
        if has_keyword && text.contains("=3D") {
            // `=` in quoted-printable mails.
            text = Cow::Owned(text.replace("=3D", "="));
        }
        let split = prefix::split(&text);
        self.may_lack_words |= split.at.is_some() || split.start == 1 && text.starts_with(' ');
        if let Some(at) = split.at.filter(|_| !self.is_stamped) {
            self.is_stamped = true;
            self.begins_at_boot |= at < NEAR_START;
        }
        let open = self.open.take();
        if !open.is_some_and(|open| self.close(open, Some(&split))) {
            self.read(number, &split);
        }
    }

    /// Whether the line before may go on in this one: it ends within what comes before a keyword, or within one. In most
    /// logs all lines begin alike; then nothing is searched.
    fn is_folded(&self, bytes: &[u8], has_keyword: bool) -> bool {
        let (before, next) = (self.before.trim_ascii_end(), bytes.trim_ascii_start());
        let is_like = !has_keyword && bytes.get(..3) == before.get(..3);
        if before.len() < FOLDED_FROM || next.is_empty() || is_like {
            return false;
        }
        let tail = &before[before.len().saturating_sub(KEYWORD)..];
        has_keyword || parse::has_keyword(&[tail, b" ", &next[..next.len().min(KEYWORD)]].concat())
    }

    /// The line before, if it has a prefix: then the next one without a prefix may be its rest.
    fn opened(&self, line: u64) -> Option<Open> {
        let text = clean(&self.before);
        let split = prefix::split(&text);
        let (text, message) = (shown(&split), split.message.to_owned());
        // `clocksource: 'tsc'`, before the figures.
        let is_open = message.starts_with("clocksource:") && message.ends_with('\'');
        let at = split.at;
        let open = Open { line, at, text, message, kind: None, is_open, is_first_word: false };
        (!split.is_bare).then_some(open)
    }

    fn read(&mut self, line: u64, split: &Split) {
        if prefix::is_boot_mark(split.message) {
            return self.begin(line, None);
        }
        let Said { kind, is_open } = parse::said(split.message);
        // A long line with a prefix may be folded: then the line after it has none.
        let is_long = !split.is_bare && split.message.len() >= FOLDED_FROM;
        let may_go_on = is_long && kind.is_none() && parse::has_keyword(split.message.as_bytes());
        if is_open || may_go_on {
            let (text, message) = (shown(split), split.message.to_owned());
            let (at, is_first_word) = (split.at, split.start == 0);
            self.open = Some(Open { line, at, text, message, kind, is_open, is_first_word });
        } else if let Some(kind) = kind {
            self.push(line, split.at, shown(split), kind);
        }
    }

    /// Parses `open` together with the line after it, if that is its rest; returns whether it is.
    fn close(&mut self, open: Open, next: Option<&Split>) -> bool {
        let tells = |kind: &_| matches!(kind, EventKind::Unstable { .. } | EventKind::Reading(..));
        let may_be = |next: &&Split| {
            let is_like = next.is_bare && !(open.is_first_word && next.start > 0);
            !next.message.is_empty() && (is_like || !next.is_bare && open.is_open)
        };
        if let Some(rest) = next.filter(may_be)
            && let Some((gap, kind)) = open.joined(rest.message)
            && (rest.is_bare || tells(&kind))
        {
            let before = open.text.strip_suffix('=').unwrap_or(&open.text);
            let text = format!("{before}{gap}{}", rest.message);
            self.push(open.line, open.at, cut(text), kind);
            return true;
        }
        if let Some(kind) = open.kind {
            self.push(open.line, open.at, open.text, kind);
        }
        false
    }

    fn push(&mut self, line: u64, at: Option<f64>, text: String, kind: EventKind) {
        // The file's name is added later, to the events that are kept.
        let evidence = Evidence { file: String::new(), line: Some(line), text };
        let event = Event { evidence, at, kind };
        match &event.kind {
            EventKind::LinuxVersion(version) => {
                let version = version.clone();
                self.begin(line, Some(version));
            }
            // On ARM this line comes before the version.
            EventKind::ArmBoot if event.evidence.text.contains("Booting Linux") => {
                self.entry = Some((line, event.clone()));
            }
            _ => {}
        }
        self.kept.push(event);
    }

    /// Begins a boot, unless this line is a copy of the one that began it. `version` is `None` at a journal's mark of
    /// another boot.
    fn begin(&mut self, line: u64, version: Option<String>) {
        let known = self.version.as_ref().filter(|(_, text)| Some(text) == version.as_ref());
        if known.is_some_and(|(at, _)| line - at <= COPIED_WITHIN) && self.kept.has_only(is_first) {
            return;
        }
        let has_version = version.is_some();
        // A journal's mark may have begun this boot already.
        let was_announced = has_version && self.version.is_none() && self.count > 0;
        self.version = version.map(|text| (line, text));
        self.begins_at_boot = has_version;
        self.is_stamped |= has_version;
        self.kept = Kept::default();
        self.count += u64::from(!was_announced);
        let is_near = |(at, _): &(u64, Event)| has_version && line - at <= COPIED_WITHIN;
        if let Some((_, event)) = self.entry.take().filter(is_near) {
            self.kept.push(event);
        }
    }

    fn finish(mut self, lines: u64) -> Log {
        if let Some(open) = self.open.take() {
            self.close(open, None);
        }
        let (mut events, left_out) = self.kept.into_events();
        for event in &mut events {
            self.file.clone_into(&mut event.evidence.file);
        }
        // The lines before the first mark or version are a boot with its beginning cut off.
        Log {
            file: self.file.to_owned(),
            lines,
            events,
            begins_at_boot: self.begins_at_boot,
            may_lack_words: self.may_lack_words,
            boots: self.count.max(u64::from(lines > 0)),
            left_out,
            ..Log::default()
        }
    }
}

/// A line of the first moments, which may come between two `Linux version` lines of one boot.
fn is_first(kind: &EventKind) -> bool {
    use EventKind::{ArmBoot, CommandLine, Dmi, LinuxVersion, MachineModel};
    matches!(kind, LinuxVersion(_) | CommandLine(_) | Dmi(_) | ArmBoot | MachineModel(_))
}

/// The part of a line for the report.
fn shown(split: &Split) -> String {
    let stamp = split.stamp.map(|stamp| format!("[{stamp}] ")).unwrap_or_default();
    cut(stamp + split.message)
}

fn cut(mut text: String) -> String {
    // No character is shorter than a byte.
    if text.len() > TEXT_MAX {
        let end = text.char_indices().nth(TEXT_MAX).map_or(text.len(), |(at, _)| at);
        text.truncate(end);
        text.shrink_to_fit();
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests;
