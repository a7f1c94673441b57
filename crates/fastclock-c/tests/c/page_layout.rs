//! The page's layout outside of the Rust: docs/PAGE.md, the C header, and a C program that reads a
//! page.
#![allow(unsafe_code, reason = "a page lies in a file that is mapped")]

use std::fs::File;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use fastclock::page::{Base, Content, Page, SIZE, Slot, State, Writer};
use fastclock::{Bound, Decline, Line, Nanos, Offsets, TickLength, Ticks};

use crate::prefix::{output_of, source};

/// Name, offset and size of every field.
fn fields() -> Vec<(String, usize, usize)> {
    let mut fields = Vec::new();
    macro_rules! fields {
        ($of:literal, $at:expr, $type:ty, $($field:ident: $size:expr),*) => {
            $(fields.push((
                format!(concat!($of, "{}"), stringify!($field)),
                $at + offset_of!($type, $field),
                $size,
            ));)*
        };
    }
    fields!("", 0, Page, magic: 8, version: 4, size: 4, boot_id: 16, writer: 4, flags: 4, head: 8);
    fields!("", 0, Page, slots: 2 * size_of::<Slot>());
    fields!("base.", 0, Base, sec: 8, nsec: 8);
    fields!("slot.", 0, Slot, base: 8, span: 8, whole: 8, fraction: 8, mono: 16, bound: 8);
    fields!("slot.", 0, Slot, growth: 8, real: 16, boot: 16, tai: 16, grace: 8, reason: 8);
    fields!("slot.", 0, Slot, previous_base: 8, previous_whole: 8, previous_fraction: 8);
    fields!("slot.", 0, Slot, previous_mono: 8);
    fields
}

#[test]
fn the_documentation_draws_the_page_as_it_is() {
    let text = std::fs::read_to_string(source("../../docs/PAGE.md")).unwrap();
    let mut drawn: Vec<(String, usize, usize)> = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, offset, size, name, ..] = cells[..]
            && let (Ok(offset), Ok(size)) = (offset.parse(), size.parse())
            && name != "reserved"
        {
            drawn.push((name.trim_matches('`').to_owned(), offset, size));
        }
    }
    let (mut drawn, mut fields) = (drawn, fields());
    drawn.sort();
    fields.sort();
    assert_eq!(drawn, fields);
}

#[test]
fn the_documentation_lists_every_reason() {
    let text = std::fs::read_to_string(source("../../docs/PAGE.md")).unwrap();
    for reason in Decline::ALL {
        let row = format!("| {} | {reason} |", reason.as_raw());
        assert!(text.contains(&row), "no row {row:?}");
    }
}

#[test]
fn a_c_program_reads_what_was_published() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (reader, path) = (directory.join("page_fields"), directory.join("page_fields.page"));
    let flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"];
    let mut compiler = Command::new("cc");
    compiler.args(flags).args([source("include"), source("tests/programs/page_fields.c")]);
    output_of(compiler.arg("-o").arg(&reader));
    let file =
        File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.set_len(SIZE as u64).unwrap();
    // SAFETY: the file belongs to this test and keeps its length.
    let mut mapping = unsafe { memmap2::MmapMut::map_mut(&file).unwrap() };
    // SAFETY: the mapping is a page long, begins at a page's boundary and outlives the reference.
    let page = unsafe { &*mapping.as_mut_ptr().cast::<Page>() };
    let run = || Command::new(&reader).arg(&path).output().unwrap();
    assert_eq!(run().status.code(), Some(3), "a page of zeroes is none");

    let mut writer = Writer::create(page, [0x1234, 0xabcd_ef01_2345_6789], 4321);
    writer.own(77);
    let previous =
        Line { base: Ticks(111), mono: Nanos(222), tick: TickLength { whole: 3, fraction: 444 } };
    let content = Content {
        line: Line {
            base: Ticks(1_000_000_007),
            mono: Nanos(5_000_000_011),
            tick: TickLength { whole: 1, fraction: 0x8000_0000_0000_0001 },
        },
        span: Ticks(13),
        grace: Ticks(17),
        previous: Some(previous),
        offsets: Offsets {
            real: Nanos(1_700_000_000_000_000_019),
            boot: Nanos(23),
            tai: Nanos(-6_000_000_000),
        },
        bound: Bound { at_base: 29, growth: 31 },
        state: State::Ended(Decline::Suspended),
    };
    writer.publish(content);
    let output = run();
    assert!(output.status.success());
    let expected = include_str!("../programs/page_fields.txt");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
