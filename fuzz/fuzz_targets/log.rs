//! Any bytes are a log: reading them ends, does not panic, does not depend on how they come, and
//! what is kept of them may be shown in a terminal.
#![no_main]

use std::io::Read;

use clock_doctor::facts::Log;
use clock_doctor::log::reader::read;

/// Most characters of a line that is shown.
const TEXT_MAX: usize = 300;

/// Gives a few bytes at a time.
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

fn of(bytes: &mut dyn Read) -> Log {
    read(bytes, "log").expect("memory has no errors")
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
        // A NUL ends a line too, which does not count.
        assert!(before <= line && line <= log.lines, "line {line} after {before}");
        assert!(event.at.is_none_or(f64::is_finite), "{event:?}");
        before = line;
        // What is shown is understood as the line was, unless it was cut. A few will do.
        let length = |line: u64| lines.get(line as usize).map_or(0, |line| line.len());
        if length(line - 1) + length(line) < TEXT_MAX && place < 8 {
            let again = of(&mut text.as_bytes());
            assert!(again.events.iter().any(|one| one.kind == event.kind), "{text:?} reads as {again:?}");
        }
    }
});
