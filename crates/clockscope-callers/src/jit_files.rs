//! Reads the files that runtimes write for profilers: perf maps and dumps. Each is read as a
//! stream, and only the names of the wanted addresses are kept.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use super::jit_wanted::Wanted;

/// Most bytes of a line or a name.
const NAME_MAX: usize = 4096;
/// Magic number of a dump, its first four bytes.
const DUMP_MAGIC: u32 = 0x4a69_5444;
/// Record of a dump that gives code a name.
const CODE_LOAD: u32 = 0;
/// Record of a dump that moves code.
const CODE_MOVE: u32 = 1;
/// Bytes of the head of a record.
const HEAD: usize = 16;
/// Bytes of the fixed part of a record that names code, behind its head.
const LOAD: usize = 40;
/// Most moves that are followed.
const MOVES_MAX: usize = 1 << 16;

/// Reads lines `start size name`; other lines are skipped.
pub(super) fn of_map(lines: &mut impl BufRead, wanted: &mut Wanted) -> io::Result<()> {
    each_line(lines, |line| {
        let Some((start, size, name)) = of_line(line) else { return };
        if let Some(range) = wanted.within(start, size) {
            wanted.give(range, String::from_utf8_lossy(name).into());
        }
    })
}

/// Calls `act` with the first [`NAME_MAX`] bytes of each line, however long it is.
fn each_line(lines: &mut impl BufRead, mut act: impl FnMut(&[u8])) -> io::Result<()> {
    let mut kept: Vec<u8> = Vec::new();
    loop {
        let bytes = lines.fill_buf()?;
        if bytes.is_empty() {
            act(&kept);
            return Ok(());
        }
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let part = &part[..part.len().min(NAME_MAX - kept.len())];
        if end.is_some() && kept.is_empty() {
            act(part);
        } else {
            kept.extend(part);
            if end.is_some() {
                act(&kept);
                kept.clear();
            }
        }
        let used = end.map_or(bytes.len(), |end| end + 1);
        lines.consume(used);
    }
}

fn of_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut words = line.trim_ascii_end().splitn(3, |byte| *byte == b' ');
    let mut hex = || {
        let text = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let (start, size) = (hex()?, hex()?);
    let name = words.next().filter(|name| !name.is_empty())?;
    Some((start, size, name))
}

/// The content of a record of a dump.
enum Said {
    /// Code with a name: address, size, name.
    Load(u64, u64, Vec<u8>),
    /// Code was moved: from, to, size.
    Move(u64, u64, u64),
}

/// Reads a dump, which `open` opens at its beginning; a truncated record ends the dump.
pub(super) fn of_dump<R: Read>(
    open: impl Fn() -> io::Result<R>,
    wanted: &mut Wanted,
) -> io::Result<()> {
    let mut moves: Vec<(u64, u64, u64)> = Vec::new();
    each_record(open()?, |said| match said {
        Said::Move(from, to, size) if moves.len() < MOVES_MAX => moves.push((from, to, size)),
        Said::Move(..) | Said::Load(..) => {}
    })?;
    // Earlier addresses of code that is wanted at its present address.
    let mut origins: HashMap<u64, Rc<str>> = HashMap::new();
    let mut is_origin: HashSet<u64> = HashSet::new();
    for (from, to, size) in moves.iter().rev() {
        if wanted.within(*to, *size).is_some() || is_origin.contains(to) {
            is_origin.insert(*from);
        }
    }
    each_record(open()?, |said| {
        let (start, size, name) = match said {
            Said::Load(start, size, name) => (start, size, Some(name)),
            Said::Move(from, to, size) => match origins.get(&from).cloned() {
                Some(name) => return moved(&name, to, size, &is_origin, &mut origins, wanted),
                None => return,
            },
        };
        let range = wanted.within(start, size);
        if range.is_none() && !is_origin.contains(&start) {
            return;
        }
        let name: Rc<str> = String::from_utf8_lossy(&name.unwrap_or_default()).into();
        moved(&name, start, size, &is_origin, &mut origins, wanted);
    })
}

/// Code of this name is now at `start`.
fn moved(
    name: &Rc<str>,
    start: u64,
    size: u64,
    is_origin: &HashSet<u64>,
    origins: &mut HashMap<u64, Rc<str>>,
    wanted: &mut Wanted,
) {
    if is_origin.contains(&start) {
        origins.insert(start, Rc::clone(name));
    }
    if let Some(range) = wanted.within(start, size) {
        wanted.give(range, Rc::clone(name));
    }
}

fn each_record(mut bytes: impl Read, mut act: impl FnMut(Said)) -> io::Result<()> {
    let mut body = Vec::new();
    if !filled(&mut bytes, &mut body, 12)? || short(&body, 0) != DUMP_MAGIC {
        return Ok(());
    }
    skip(&mut bytes, u64::from(short(&body, 8)).saturating_sub(12))?;
    while filled(&mut bytes, &mut body, HEAD)? {
        let (kind, length) = (short(&body, 0), u64::from(short(&body, 4)));
        let Some(length) = length.checked_sub(HEAD as u64) else { break };
        let most = if matches!(kind, CODE_LOAD | CODE_MOVE) { LOAD + NAME_MAX } else { 0 };
        let kept = usize::try_from(length).unwrap_or(most).min(most);
        if !filled(&mut bytes, &mut body, kept)? {
            break;
        }
        skip(&mut bytes, length - kept as u64)?;
        if kept < LOAD {
            continue;
        }
        if kind == CODE_MOVE {
            act(Said::Move(long(&body, 16), long(&body, 24), long(&body, 32)));
        } else if let Some(end) = memchr::memchr(0, &body[LOAD..]) {
            act(Said::Load(long(&body, 16), long(&body, 24), body[LOAD..LOAD + end].to_vec()));
        }
    }
    Ok(())
}

/// Reads `count` bytes; false if there are fewer.
fn filled(bytes: &mut impl Read, into: &mut Vec<u8>, count: usize) -> io::Result<bool> {
    into.clear();
    bytes.take(count as u64).read_to_end(into).map(|read| read == count)
}

fn skip(bytes: &mut impl Read, count: u64) -> io::Result<()> {
    io::copy(&mut bytes.take(count), &mut io::sink()).map(drop)
}

fn short(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(short(bytes, at)) | u64::from(short(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        record(CODE_MOVE, &[0, 0, 0x8000, 0x9000, 0x80, 1], b"");
        bytes
    }

    fn names(wanted: &Wanted) -> Vec<Option<String>> {
        wanted.names().map(|(_, name)| name.map(|name| name.to_string())).collect()
    }

    fn of_text(text: &[u8], places: &[u64]) -> Vec<Option<String>> {
        let mut wanted = Wanted::new(places.to_vec());
        of_map(&mut io::BufReader::with_capacity(16, text), &mut wanted).unwrap();
        names(&wanted)
    }

    #[test]
    fn lines_of_maps_are_read_and_the_last_name_counts() {
        let text = b"7f00 20 LazyCompile:~read a.js:3\n0x7f10 0x8 later\nx 20 a\n7f00 20\n30 1 end";
        let found = of_text(text, &[0x30, 0x7f00, 0x7f10, 0x7f18, 0x7f20]);
        let first = Some("LazyCompile:~read a.js:3".to_owned());
        let expected = [Some("end".into()), first.clone(), Some("later".into()), first, None];
        assert_eq!(found, expected);
    }

    /// `DOTNET_PerfMapEnabled=1` and `erl +JPperf true` write such lines.
    #[test]
    fn names_of_dotnet_and_erlang_are_whole() {
        let names = [
            "void [System.Private.CoreLib] System.Foo::Bar(int32, class [a]B`1<int32>)[Tier1]",
            "$my_module:fun/2",
            "$my_module:'-loop/1-fun-0-'/1",
        ];
        let text = format!(
            "00007f0000001000 40 {}\n7f0000002000 80 {}\n7f0000003000 20 {}\n",
            names[0], names[1], names[2]
        );
        let found =
            of_text(text.as_bytes(), &[0x7f00_0000_1000, 0x7f00_0000_207f, 0x7f00_0000_3000]);
        assert_eq!(found, names.map(|name| Some(name.to_owned())));
    }

    #[test]
    fn of_a_line_without_end_the_beginning_is_kept_and_no_more() {
        let text = [b"10 1 ".to_vec(), vec![b'x'; 100_000], b"\n20 1 y\n".to_vec()].concat();
        let found = of_text(&text, &[0x10, 0x20]);
        assert_eq!(found[0].as_ref().unwrap().len(), NAME_MAX - 5);
        assert_eq!(found[1].as_deref(), Some("y"));
    }

    #[test]
    fn dumps_have_names_and_moves_also_of_what_was_moved_before() {
        let mut wanted = Wanted::new(vec![0x7000, 0x70ff, 0x7100, 0x807f, 0x8080, 0x9001]);
        of_dump(|| Ok(io::Cursor::new(dump())), &mut wanted).unwrap();
        let name = Some("Main.read".to_owned());
        assert_eq!(names(&wanted), [name.clone(), name.clone(), None, name.clone(), None, name]);
        let mut moved = Wanted::new(vec![0x9001]);
        of_dump(|| Ok(io::Cursor::new(dump())), &mut moved).unwrap();
        assert_eq!(names(&moved), [Some("Main.read".to_owned())]);
    }

    proptest! {
        #[test]
        fn damaged_dumps_never_panic(at in 0_usize..300, value: u8, cut in 0_usize..300) {
            let mut bytes = dump();
            bytes.truncate(cut.max(1));
            let at = at % bytes.len();
            bytes[at] = value;
            of_dump(|| Ok(&bytes[..]), &mut Wanted::new(vec![0x7000, 0x8000, 0x9000])).unwrap();
        }

        #[test]
        fn no_map_makes_the_reader_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
            of_map(&mut &text[..], &mut Wanted::new(vec![0, 1, u64::MAX])).unwrap();
        }
    }
}
