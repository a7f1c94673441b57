//! A capture of a machine: the files that doctor read, its measurements, and the log lines about clocks. Pure except
//! for reading below the root.

use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::facts::{Facts, Log, Unread};
use super::log::event::{Event, EventKind};
use super::log::reader;
use super::measured;
use super::root::Root;
use super::root::paths::{self, Content, DMI_FIELDS};

/// The folder in the archive. It does not name the machine.
const TOP: &str = "clockscope-capture";
/// The remark of each file that holds the kernel's command line.
const COMMAND_LINE: &str = "has the kernel's command line: look whether that holds a secret";
/// The log's file in the archive.
const LOG: &str = "dmesg";
/// Lines of `/proc/cpuinfo` that doctor uses. A Raspberry Pi's file has a serial number too.
const CPUINFO: &str = "processor|vendor_id|cpu family|physical id|model name|Model|Processor|flags|\
    Features|CPU architecture|CPU implementer|CPU part";

/// A file of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Relative to the root.
    pub path: String,
    /// The saved bytes.
    pub bytes: Vec<u8>,
    /// A remark for the user, as a clause.
    pub remark: Option<String>,
}

/// The capture of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Sorted by path.
    pub members: Vec<Member>,
    /// Files that exist but were not read.
    pub unread: Vec<Unread>,
}

/// Collects the files of `facts` from `root`, which they were read from.
///
/// # Errors
///
/// If the measurements cannot be written as JSON.
pub fn collect(root: &Root, facts: &Facts) -> io::Result<Capture> {
    let mut capture = Capture { members: Vec::new(), unread: facts.unread.clone() };
    let small = |path: &&String| {
        let is_left_out = [measured::FILE, paths::BOOT_ID].contains(&path.as_str());
        paths::content(path) == Some(Content::Small) && !is_left_out
    };
    for path in facts.read.iter().filter(small) {
        match root.bytes(path) {
            Ok(Some(bytes)) => capture.members.push(reduced(path, bytes)),
            Ok(None) => {}
            Err(unread) => capture.unread.push(unread),
        }
    }
    if let Some(log) = &facts.log {
        let lines = log.events.len();
        let mut remark =
            format!("{lines} lines that speak of clocks or the machine, of {}", log.lines);
        if log.events.iter().any(|event| matches!(event.kind, EventKind::CommandLine(_))) {
            remark += &format!("; {COMMAND_LINE}");
        }
        let bytes = rendered(log).into_bytes();
        capture.members.push(Member { path: LOG.to_owned(), bytes, remark: Some(remark) });
    }
    if let Some(measured) = &facts.measured {
        // It is saved as a separate file; a line that may hold a secret must not be copied more often than needed.
        let mut measured = measured.clone();
        measured.host.command_line = None;
        let bytes = serde_json::to_vec_pretty(&measured)?;
        let remark = Some("what clockscope measured, and who traces system calls".to_owned());
        capture.members.push(Member { path: measured::FILE.to_owned(), bytes, remark });
    }
    capture.members.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(capture)
}

/// The part of a file that doctor uses.
fn reduced(path: &str, bytes: Vec<u8>) -> Member {
    let text = || String::from_utf8_lossy(&bytes);
    let (kept, remark) = match path {
        "proc/cpuinfo" => (Some(cpuinfo(&text())), Some("the lines that doctor uses")),
        _ if paths::DMIDECODE.contains(&path) => {
            (Some(dmidecode(&text())), Some("names of maker and product, no serial numbers"))
        }
        _ if paths::UNAME.contains(&path) => {
            (Some(uname(&text())), Some("without the host's name"))
        }
        "proc/cmdline" => (None, Some(COMMAND_LINE)),
        _ => (None, None),
    };
    let bytes = kept.map_or(bytes, String::into_bytes);
    Member { path: path.to_owned(), bytes, remark: remark.map(str::to_owned) }
}

fn cpuinfo(text: &str) -> String {
    let is_used = |line: &&str| {
        let key = line.split(':').next().unwrap_or_default().trim();
        key.is_empty() || CPUINFO.split('|').any(|used| used == key)
    };
    text.lines().filter(is_used).map(|line| format!("{line}\n")).collect()
}

fn dmidecode(text: &str) -> String {
    let mut section = "";
    let mut kept = String::new();
    for line in text.lines() {
        let is_head = !line.starts_with(char::is_whitespace);
        if is_head {
            section = line.trim();
        }
        let key = line.trim().split(':').next().unwrap_or_default();
        let is_of =
            |(at, name, _): &(&str, &str, &str)| *at == section && (is_head || *name == key);
        if DMI_FIELDS.iter().any(is_of) {
            kept.extend([line, "\n"]);
        }
    }
    kept
}

/// `Linux HOST RELEASE ...` with another word for the host.
fn uname(text: &str) -> String {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    if let [first, host, ..] = &mut words[..]
        && *first == "Linux"
        && *host != "version"
    {
        *host = "host";
    }
    words.join(" ") + "\n"
}

/// The log as its events' lines, in the kernel's own form.
fn rendered(log: &Log) -> String {
    let mut text: String = log.events.iter().map(line).collect();
    let Ok(again) = reader::read(&mut text.as_bytes(), LOG) else { return text };
    let stamp = |log: &Log| log.last.as_ref().map(|(at, _)| *at);
    if let Some(at) = stamp(log).filter(|_| stamp(&again) != stamp(log)) {
        text += &format!("[{at:12.6}] clockscope: the log ends here\n");
    }
    match log.begins_at_boot && !again.begins_at_boot {
        true => format!("[    0.000000] clockscope: the log begins here\n{text}"),
        false => text,
    }
}

fn line(event: &Event) -> String {
    let text = match &event.kind {
        // The command line may be longer than an evidence text.
        EventKind::CommandLine(line) => format!("Command line: {line}"),
        _ => event.evidence.text.clone(),
    };
    match event.at {
        Some(at) => format!("[{at:12.6}] {text}\n"),
        None => format!("{text}\n"),
    }
}

/// The archive: tar, packed with zstd. The same capture and date give the same bytes.
///
/// # Errors
///
/// If a path is longer than tar can hold.
pub fn archive(capture: &Capture, unix_seconds: u64) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for member in &capture.members {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_mtime(unix_seconds);
        header.set_size(member.bytes.len() as u64);
        builder.append_data(&mut header, format!("{TOP}/{}", member.path), &member.bytes[..])?;
    }
    Ok(packed(&builder.into_inner()?))
}

/// Compressed bytes, or an uncompressed zstd frame if the compressor's output does not unpack to the same bytes.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let packed = compress_to_vec(bytes, CompressionLevel::Fastest);
    let mut again = Vec::new();
    let is_right = StreamingDecoder::new(&packed[..])
        .is_ok_and(|mut decoder| decoder.read_to_end(&mut again).is_ok() && again == bytes);
    if is_right { packed } else { compress_to_vec(bytes, CompressionLevel::Uncompressed) }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
