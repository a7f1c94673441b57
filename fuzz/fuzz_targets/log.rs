//! Any bytes are a log: reading them ends, does not panic, and does not depend on the size of the reads. Any text kept
//! from the log may be shown in a terminal.
#![no_main]

use std::io::Read;

use clock_doctor::facts::Log;
use clock_doctor::log::reader::read;

/// Most characters of a line in the evidence.
const TEXT_MAX: usize = 300;

/// A reader that gives up to seven bytes at a time.
struct Sips<'a>(&'a [u8]);

impl Read for Sips<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = self.0.len().min(buffer.len()).min(7);
        let (now, later) = self.0.split_at(size);
        buffer[..size].copy_from_slice(now);
        self.0 = later;
        Ok(size)
    }
}

/// The log; an empty one if it is packed in a way that is not read, or damaged.
fn of(bytes: &mut dyn Read) -> Log {
    read(bytes, "log").unwrap_or_default()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let log = of(&mut &bytes[..]);
    assert_eq!(log, of(&mut Sips(bytes)), "bytes that come in small pieces give another log");
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let mut before = 0;
    for (place, event) in log.events.iter().enumerate() {
        let text = &event.evidence.text;
        let line = event.evidence.line.expect("each line has a number");
        assert!(!text.chars().any(char::is_control), "a control character in {text:?}");
        assert!(text.chars().count() <= TEXT_MAX, "{text:?} is too long");
        // The reader also ends a line at a NUL, which does not count as a line.
        assert!(before <= line && line <= log.lines, "line {line} after {before}");
        assert!(event.at.is_none_or(f64::is_finite), "{event:?}");
        before = line;
        // The evidence text gives the same event as its line, unless the text was cut. Eight events are enough.
        let length = |line: u64| lines.get(line as usize).map_or(0, |line| line.len());
        if length(line - 1) + length(line) < TEXT_MAX && place < 8 {
            let again = of(&mut text.as_bytes());
            assert!(again.events.iter().any(|one| one.kind == event.kind), "{text:?} reads as {again:?}");
        }
    }
});
