//! From a place in a code object to its line, in the three formats of CPython. Pure.
//!
//! # References
//!
//! `Objects/lnotab_notes.txt` (3.9 and 3.10) and `Objects/locations.md` (3.11 and later) of CPython

/// Format of a table of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// `co_lnotab`, 3.9: pairs of a step in bytes and a step in lines.
    #[default]
    Bytes,
    /// `co_linetable` of 3.10: pairs of the length of a range, and the step of lines to it.
    Ranges,
    /// `co_linetable` from 3.11 on: entries of variable length.
    Locations,
}

/// The line of the instruction at `place` in a function that begins at line `first`; `None` if the
/// instruction has no line. Places count bytes, or pairs of bytes in [`Form::Locations`].
pub(super) fn line(form: Form, table: &[u8], first: i32, place: u64) -> Option<i32> {
    match form {
        Form::Bytes => Some(of_bytes(table, first, place)),
        Form::Ranges => of_ranges(table, first, place),
        Form::Locations => of_locations(table, first, place),
    }
}

fn of_bytes(table: &[u8], first: i32, place: u64) -> i32 {
    let (mut at, mut line) = (0_u64, first);
    for pair in table.chunks_exact(2) {
        at += u64::from(pair[0]);
        if at > place {
            break;
        }
        line = line.wrapping_add(pair[1].cast_signed().into());
    }
    line
}

fn of_ranges(table: &[u8], first: i32, place: u64) -> Option<i32> {
    const WITHOUT_LINE: i8 = -128;
    let (mut at, mut line) = (0_u64, first);
    for pair in table.chunks_exact(2) {
        at += u64::from(pair[0]);
        let step = pair[1].cast_signed();
        if step != WITHOUT_LINE {
            line = line.wrapping_add(step.into());
        }
        if place < at {
            return (step != WITHOUT_LINE).then_some(line);
        }
    }
    None
}

fn of_locations(table: &[u8], first: i32, place: u64) -> Option<i32> {
    const WITHOUT_LINE: u8 = 15;
    const LONG: u8 = 14;
    const WITHOUT_COLUMNS: u8 = 13;
    let (mut at, mut line) = (0_u64, first);
    let mut bytes = table.iter().copied();
    while let Some(head) = bytes.next() {
        let kind = head >> 3 & 15;
        match kind {
            WITHOUT_LINE => {}
            LONG => {
                line = line.wrapping_add(signed(number(&mut bytes)?));
                for _ in 0..3 {
                    number(&mut bytes)?;
                }
            }
            WITHOUT_COLUMNS => line = line.wrapping_add(signed(number(&mut bytes)?)),
            10..=12 => {
                line = line.wrapping_add(i32::from(kind) - 10);
                bytes.nth(1)?;
            }
            _ => drop(bytes.next()?),
        }
        at += u64::from(head & 7) + 1;
        if place < at {
            return (kind != WITHOUT_LINE).then_some(line);
        }
    }
    None
}

/// A number in groups of six bits, the lowest first; bit 6 is set if another group follows.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut value = 0;
    for shift in (0..32).step_by(6) {
        let byte = bytes.next()?;
        value |= u32::from(byte & 63).wrapping_shl(shift);
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// A signed number: the lowest bit is the sign.
fn signed(value: u32) -> i32 {
    let size = (value >> 1).cast_signed();
    if value & 1 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables written by the interpreters themselves for `def f(a):` on line 1, `x = 1`, `return
    /// g(` on line 3, `a,` and `x)`; with the line of each place.
    #[test]
    fn lines_are_those_that_python_says() {
        let of = |form, table: &[u8], places: &[u64]| -> Vec<Option<i32>> {
            places.iter().map(|place| line(form, table, 1, *place)).collect()
        };
        let bytes = [0, 1, 4, 1, 2, 1, 2, 1, 2, 254];
        assert_eq!(
            of(Form::Bytes, &bytes, &[0, 4, 6, 8, 10]),
            [Some(2), Some(3), Some(4), Some(5), Some(3)]
        );
        let ranges = [4, 1, 2, 1, 2, 1, 2, 1, 4, 254];
        assert_eq!(
            of(Form::Ranges, &ranges, &[0, 4, 6, 8, 12, 14]),
            [Some(2), Some(3), Some(4), Some(5), Some(3), None]
        );
        let locations = [
            128, 0, 216, 8, 9, 128, 65, 221, 11, 12, 216, 8, 9, 216, 8, 9, 241, 5, 2, 12, 11, 244,
            0, 2, 12, 11, 240, 0, 2, 5, 11,
        ];
        assert_eq!(
            of(Form::Locations, &locations, &[0, 1, 2, 3, 8, 9, 10, 11, 13, 18, 19]),
            [1, 2, 2, 3, 3, 4, 5, 3, 3, 3, 0].map(|line| Some(line).filter(|line| *line > 0)),
            "3.11"
        );
        let locations = [
            128, 0, 216, 8, 9, 128, 65, 220, 11, 12, 216, 8, 9, 216, 8, 9, 243, 5, 2, 12, 11, 240,
            0, 2, 5, 11,
        ];
        assert_eq!(
            of(Form::Locations, &locations, &[0, 1, 3, 7, 8, 9, 10, 14]),
            [1, 2, 3, 3, 4, 5, 3, 3].map(Some),
            "3.12 and 3.13"
        );
    }
}
