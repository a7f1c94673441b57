//! Splits a stream of any length into lines, in constant memory.

use std::io::{self, BufRead, ErrorKind};

use memchr::memchr2;

/// Gives `take` each line with its number, cut at `limit` bytes. A NUL ends a line as well, for a log that was being
/// written when the power failed, but only line feeds count. Returns the number of lines.
///
/// # Errors
///
/// Those of `bytes`.
pub(crate) fn each(
    bytes: &mut dyn BufRead,
    limit: usize,
    take: &mut dyn FnMut(u64, &[u8]),
) -> io::Result<u64> {
    // The beginning of a line that continues in the next block.
    let mut begun = Vec::new();
    let (mut number, mut ends_open) = (1, false);
    loop {
        let block = match bytes.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            block => block?,
        };
        if block.is_empty() {
            if !begun.is_empty() {
                take(number, &begun);
            }
            return Ok(number - u64::from(!ends_open));
        }
        let end = memchr2(b'\n', 0, block);
        let piece = &block[..end.unwrap_or(block.len())];
        let ends_line = end.is_some_and(|end| block[end] == b'\n');
        ends_open = !ends_line;
        if begun.is_empty() && end.is_some() {
            // A page of NULs contains no lines.
            if ends_line || !piece.is_empty() {
                take(number, &piece[..limit.min(piece.len())]);
            }
        } else {
            begun.extend_from_slice(&piece[..piece.len().min(limit - begun.len())]);
            if end.is_some() {
                take(number, &begun);
                begun.clear();
            }
        }
        number += u64::from(ends_line);
        let used = piece.len() + usize::from(end.is_some());
        bytes.consume(used);
    }
}
