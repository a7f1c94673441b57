//! Finds the lines worth reading in a stream of any length, in constant memory.

use std::io::{self, ErrorKind, Read};

use memchr::{memchr_iter, memchr2, memrchr2};

use super::keywords::Found;

/// How much is held at once, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of a line, what follows is not looked at. The longest lines of the kernel are command
    /// lines: 4096 bytes on s390, 2048 on x86 and arm64 (`COMMAND_LINE_SIZE`, 6.12).
    pub(crate) line: usize,
    /// Of the stream; more than a line.
    pub(crate) block: usize,
}

impl Limits {
    /// Those in use. 256 KiB stay in the second-level cache.
    pub(crate) const USUAL: Limits = Limits { line: 4608, block: 256 << 10 };
}

/// A line of the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// From 1.
    pub(crate) number: u64,
    /// Without its end, cut at the limit.
    pub(crate) bytes: &'a [u8],
    /// Its first keyword, if that was looked for.
    pub(crate) first: Option<Found>,
}

/// What the reader wants to see next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The next line, whatever is in it.
    Next,
    /// The next line with a keyword.
    Candidate,
}

/// Finds the first keyword in many lines.
pub(crate) type Find = fn(&[u8]) -> Option<Found>;

/// Gives `take` the lines in which `find` finds something; all lines while it wants the next one.
/// A NUL ends a line as well, for a log that was being written when the power failed, but only line
/// feeds count. Returns the number of lines.
///
/// # Errors
///
/// Those of `bytes`.
pub(crate) fn scan(
    bytes: &mut dyn Read,
    limits: Limits,
    find: Find,
    take: &mut dyn FnMut(Line) -> Want,
) -> io::Result<u64> {
    let mut buffer = vec![0; limits.block.max(limits.line + 1)];
    let mut scanner =
        Scanner { limit: limits.line, find, take, want: Want::Next, number: 1, skips: false };
    let mut kept = 0;
    let mut ends_open = false;
    loop {
        let read = fill(bytes, &mut buffer[kept..])?;
        let held = kept + read;
        let is_last = held < buffer.len();
        if held > 0 {
            ends_open = buffer[held - 1] != b'\n';
        }
        // Whole lines, and what follows the last one.
        let end = memrchr2(b'\n', 0, &buffer[..held]).map_or(0, |at| at + 1);
        scanner.lines(&buffer[..end]);
        let tail = held - end;
        if is_last || tail > limits.line {
            scanner.last_of_block(&buffer[end..held]);
            kept = 0;
        } else {
            buffer.copy_within(end..held, 0);
            kept = tail;
        }
        if is_last {
            return Ok(scanner.number - u64::from(!ends_open));
        }
    }
}

/// Reads until `buffer` is full or the stream ends, so that blocks do not depend on the reader.
fn fill(bytes: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match bytes.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

struct Scanner<'a> {
    limit: usize,
    find: Find,
    take: &'a mut dyn FnMut(Line) -> Want,
    want: Want,
    /// Of the line that comes next.
    number: u64,
    /// The rest of a line that was too long comes next.
    skips: bool,
}

impl Scanner<'_> {
    /// `block` holds whole lines.
    fn lines(&mut self, block: &[u8]) {
        let mut at = 0;
        if self.skips && !block.is_empty() {
            at = self.end_of(block, 0);
            self.skips = false;
        }
        while at < block.len() {
            // A page of NULs has nothing to say.
            if block[at] == 0 {
                at += block[at..].iter().position(|byte| *byte != 0).unwrap_or(block.len() - at);
            } else if self.want == Want::Next {
                let end = memchr2(b'\n', 0, &block[at..]).map_or(block.len(), |end| at + end);
                self.give(&block[at..end], None);
                at = self.end_of(block, at);
            } else {
                at = self.candidate(block, at);
            }
        }
    }

    /// Looks for the next line with a keyword from `at`; returns where the line after it begins.
    fn candidate(&mut self, block: &[u8], at: usize) -> usize {
        let Some(found) = (self.find)(&block[at..]) else {
            self.count(&block[at..]);
            return block.len();
        };
        let start = memrchr2(b'\n', 0, &block[at..at + found.start]).map_or(at, |end| at + end + 1);
        self.count(&block[at..start]);
        let after = at + found.end;
        let end = memchr2(b'\n', 0, &block[after..]).map_or(block.len(), |end| after + end);
        let line = &block[start..end];
        // A match behind the limit is none, but there may be another one before it.
        let first = match after - start <= self.limit {
            true => {
                let before = start - at;
                Some(Found { start: found.start - before, end: found.end - before, ..found })
            }
            false => (self.find)(&line[..self.limit.min(line.len())]),
        };
        if first.is_some() {
            self.give(line, first);
        }
        self.end_of(block, end)
    }

    /// What follows the last whole line of a block: an unfinished line, or the beginning of a long
    /// one.
    fn last_of_block(&mut self, line: &[u8]) {
        if line.is_empty() || self.skips {
            return;
        }
        let cut = &line[..self.limit.min(line.len())];
        if self.want == Want::Next || (self.find)(cut).is_some() {
            self.give(cut, None);
        }
        self.skips = true;
    }

    fn give(&mut self, line: &[u8], first: Option<Found>) {
        let bytes = &line[..self.limit.min(line.len())];
        self.want = (self.take)(Line { number: self.number, bytes, first });
    }

    /// Goes to the line after that which holds `at`, and counts.
    fn end_of(&mut self, block: &[u8], at: usize) -> usize {
        let end = memchr2(b'\n', 0, &block[at..]).map_or(block.len(), |end| at + end + 1);
        self.number += u64::from(end > at && block[end - 1] == b'\n');
        end
    }

    fn count(&mut self, passed: &[u8]) {
        self.number += memchr_iter(b'\n', passed).count() as u64;
    }
}
