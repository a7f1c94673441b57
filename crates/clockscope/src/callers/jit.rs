//! Names of code made at run time, as runtimes leave them for profilers.
//!
//! Either a text file `/tmp/perf-PID.map`, or a file `jit-PID.dump` that the runtime maps so that
//! profilers notice it. Code may be thrown away and its place used again: the last name counts.
//!
//! # References
//!
//! `tools/perf/Documentation/jit-interface.txt`, `jitdump-specification.txt` (Linux 6.12)

use crate::foreign::Foreign;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::rc::Rc;

use super::frames::ProgramId;
use super::module_file::Bytes;

/// Dumps that are read for one process.
pub(super) const DUMPS_MAX: usize = 4;
/// Most bytes of a map or dump.
const FILE_MAX: u64 = 256 << 20;
/// Most bytes of a line or a name.
const NAME_MAX: usize = 4096;
/// Header of a dump: its magic number, and how long the header is.
const DUMP_MAGIC: u32 = 0x4a69_5444;
/// Record of a dump that gives code a name.
const CODE_LOAD: u32 = 0;
/// Record of a dump that moves code.
const CODE_MOVE: u32 = 1;

/// A process that executes code made at run time.
pub(super) struct Program {
    /// That of the process that it was forked from.
    pub(super) parent: Option<ProgramId>,
    /// Its root directory, which stays when the process ends.
    root: Option<File>,
    /// Its number as it knows it.
    own_pid: i32,
    dumps: Vec<Rc<File>>,
    pieces: Option<Vec<Piece>>,
}

/// Code with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    start: u64,
    size: u64,
    name: String,
}

impl Program {
    /// A process whose first such frame was just seen.
    pub(super) fn seen(pid: i32, parent: Option<ProgramId>, dumps: Vec<Rc<File>>) -> Program {
        let root = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(format!("/proc/{pid}/root"))
            .ok();
        Program { parent, root, own_pid: own_pid(pid).unwrap_or(pid), dumps, pieces: None }
    }

    /// The name of the code at an address. Files are read when the first name is asked for.
    pub(super) fn name(&mut self, at: u64) -> Option<Foreign> {
        let (map, dumps) = (self.map(), &self.dumps);
        let pieces = self.pieces.get_or_insert_with(|| {
            let mut pieces = map.map(of_map).unwrap_or_default();
            for dump in dumps {
                let length = dump.metadata().map_or(0, |data| data.len());
                let bytes = Bytes::File(Rc::clone(dump)).read(0, length.min(FILE_MAX));
                of_dump(&bytes.unwrap_or_default(), &mut pieces);
            }
            pieces
        });
        let found = pieces
            .iter()
            .rev()
            .find(|piece| at.checked_sub(piece.start).is_some_and(|behind| behind < piece.size));
        found.map(|piece| piece.name.as_str().into())
    }

    /// The map that the process has written.
    fn map(&self) -> Option<File> {
        if self.pieces.is_some() {
            return None;
        }
        let root = self.root.as_ref()?.as_raw_fd();
        let file = OpenOptions::new()
            .read(true)
            // Whatever lies there: no waiting for a FIFO, and no link to elsewhere.
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY)
            .open(format!("/proc/self/fd/{root}/tmp/perf-{}.map", self.own_pid))
            .ok()?;
        file.metadata().ok().filter(std::fs::Metadata::is_file).map(|_| file)
    }
}

/// The number that a process has in its own namespace.
fn own_pid(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Reads lines `start size name`; what is no such line is left out.
fn of_map(file: File) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut lines = BufReader::new(file.take(FILE_MAX));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        line.truncate(NAME_MAX);
        pieces.extend(of_line(&String::from_utf8_lossy(&line)));
        line.clear();
    }
    pieces
}

fn of_line(line: &str) -> Option<Piece> {
    let mut words = line.trim_end().splitn(3, ' ');
    let mut hex = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    let (start, size) = (hex()?, hex()?);
    let name = words.next().filter(|name| !name.is_empty())?.to_owned();
    Some(Piece { start, size, name })
}

/// Reads the records of a dump; one that is cut ends it.
fn of_dump(bytes: &[u8], pieces: &mut Vec<Piece>) {
    let short =
        |at: usize| Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let long =
        |at: usize| Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let size = |at: usize| usize::try_from(short(at)?).ok();
    if short(0) != Some(DUMP_MAGIC) {
        return;
    }
    let mut at = size(8).unwrap_or(usize::MAX);
    while let (Some(kind), Some(length)) = (short(at), at.checked_add(4).and_then(size)) {
        const HEAD: usize = 16;
        let body = at + HEAD;
        if kind == CODE_LOAD {
            let name = bytes.get(body + 40..).unwrap_or_default();
            let end = name.iter().take(NAME_MAX).position(|byte| *byte == 0);
            if let (Some(start), Some(size), Some(end)) = (long(body + 16), long(body + 24), end) {
                let name = String::from_utf8_lossy(&name[..end]).into_owned();
                pieces.push(Piece { start, size, name });
            }
        } else if kind == CODE_MOVE {
            let moved = (long(body + 16), long(body + 24), long(body + 32));
            if let (Some(old), Some(new), Some(size)) = moved {
                let piece = pieces.iter().rev().find(|piece| piece.start == old);
                if let Some(name) = piece.map(|piece| piece.name.clone()) {
                    pieces.push(Piece { start: new, size, name });
                }
            }
        }
        let Some(next) = at.checked_add(length).filter(|_| length >= HEAD) else { break };
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dump() -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [DUMP_MAGIC, 1, 40, 62, 0, 7] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.resize(40, 0);
        let mut record = |kind: u32, body: &[u64], name: &[u8]| {
            let length = u32::try_from(16 + body.len() * 8 + name.len()).unwrap();
            bytes.extend(kind.to_le_bytes());
            bytes.extend(length.to_le_bytes());
            bytes.extend(5_u64.to_le_bytes());
            body.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            bytes.extend(name);
        };
        record(CODE_LOAD, &[0, 0x7000, 0x7000, 0x100, 1], b"Main.read\0\x90\x90");
        record(CODE_MOVE, &[0, 0, 0x7000, 0x8000, 0x80, 1], b"");
        bytes
    }

    fn names(pieces: Vec<Piece>, places: &[u64]) -> Vec<Option<String>> {
        let mut program = Program {
            parent: None,
            root: None,
            own_pid: 1,
            dumps: Vec::new(),
            pieces: Some(pieces),
        };
        places.iter().map(|at| program.name(*at).map(|name| name.printable())).collect()
    }

    #[test]
    fn lines_of_maps_are_read() {
        let lines = ["7f00 20 LazyCompile:~read a.js:3", "0x7f10 0x8 later", "x 20 a", "7f00 20"];
        let pieces: Vec<_> = lines.iter().filter_map(|line| of_line(line)).collect();
        let found = names(pieces, &[0x7f00, 0x7f10, 0x7f20]);
        let first = "LazyCompile:~read a.js:3".to_owned();
        assert_eq!(found, [Some(first), Some("later".into()), None]);
    }

    #[test]
    fn dumps_have_names_and_moves() {
        let mut pieces = Vec::new();
        of_dump(&dump(), &mut pieces);
        let name = Some("Main.read".to_owned());
        let found = names(pieces, &[0x7000, 0x70ff, 0x7100, 0x807f, 0x8080]);
        assert_eq!(found, [name.clone(), name.clone(), None, name, None]);
    }

    proptest! {
        #[test]
        fn damaged_dumps_never_panic(at in 0_usize..200, value: u8, cut in 0_usize..200) {
            let mut bytes = dump();
            bytes.truncate(cut.max(1));
            let at = at % bytes.len();
            bytes[at] = value;
            of_dump(&bytes, &mut Vec::new());
        }
    }
}
