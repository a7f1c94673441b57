//! Source maps: lines of the file from which a compiler has made JavaScript, such as TypeScript's.
//!
//! Only a map that lies beside the script as `NAME.map` is read. It can change nothing but the file and line that are
//! shown.
//!
//! # References
//!
//! ECMA-426, Source map format (December 2024), "Mappings structure"

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use serde::Deserialize;

/// Most bytes of all maps that are read: some tenths of a second of work.
const MAPS_MAX: u64 = 32 << 20;
/// Most sources of a map.
const SOURCES_MAX: usize = 10_000;

/// A place in the script that has a line in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Segment {
    /// Line and column in the script, from 0, in UTF-16 code units.
    generated: (u32, u32),
    /// Index of the source.
    source: u32,
    /// Line in the source, from 0.
    line: u32,
}

/// A map's text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    source_root: Option<String>,
    sources: Vec<Option<String>>,
    mappings: String,
}

/// The map of one script.
#[derive(Debug)]
pub(super) struct SourceMap {
    /// Paths of the sources.
    sources: Vec<String>,
    /// In ascending order.
    segments: Vec<Segment>,
}

/// Device, inode, and the time of the last change of the inode, as it may be used again.
type FileState = (u64, u64, (i64, i64));

/// The maps of all processes. Those that execute the same script share its map.
#[derive(Debug)]
pub(super) struct SourceMaps {
    /// By script and file.
    by_file: HashMap<(String, FileState), Option<Rc<SourceMap>>>,
    /// Bytes that may still be read.
    left: u64,
}

impl Default for SourceMaps {
    fn default() -> SourceMaps {
        SourceMaps { by_file: HashMap::new(), left: MAPS_MAX }
    }
}

impl SourceMaps {
    /// The map beside a script of a process; `None` if there is none that can be read.
    pub(super) fn beside(&mut self, pid: i32, script: &str) -> Option<Rc<SourceMap>> {
        let inside = Path::new(script).strip_prefix("/").ok()?;
        let root = format!("/proc/{pid}/root");
        let root = Dir::open_ambient_dir(root, cap_std::ambient_authority()).ok()?;
        let mut options = OpenOptions::new();
        // Neither wait for a FIFO nor acquire a controlling terminal.
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = root.open_with(format!("{}.map", inside.to_str()?), &options).ok()?;
        let data = file.metadata().ok().filter(cap_std::fs::Metadata::is_file)?;
        let left = &mut self.left;
        let read = || {
            *left = left.checked_sub(data.len())?;
            let mut text = Vec::new();
            file.take(data.len()).read_to_end(&mut text).ok()?;
            SourceMap::parse(&text, Path::new(script).parent()?).map(Rc::new)
        };
        let state = (data.dev(), data.ino(), (data.ctime(), data.ctime_nsec()));
        self.by_file.entry((script.to_owned(), state)).or_insert_with(read).clone()
    }
}

impl SourceMap {
    /// From a map's text; relative sources are relative to `folder`.
    fn parse(text: &[u8], folder: &Path) -> Option<SourceMap> {
        let map: Text = serde_json::from_slice(text).ok()?;
        (map.sources.len() <= SOURCES_MAX).then_some(())?;
        let root = map.source_root.unwrap_or_default();
        let slash = if root.is_empty() || root.ends_with('/') { "" } else { "/" };
        let path = |source: &Option<String>| {
            let source = format!("{root}{slash}{}", source.as_deref().unwrap_or_default());
            if source.contains("://") { source } else { joined(folder, &source) }
        };
        let sources: Vec<String> = map.sources.iter().map(path).collect();
        let mut segments = segments(&map.mappings)?;
        segments.retain(|segment| (segment.source as usize) < sources.len());
        segments.sort_unstable();
        Some(SourceMap { sources, segments })
    }

    /// The source's path and the line in it, from 1, of a place in the script: line and column from 0.
    pub(super) fn original(&self, line: u32, column: u32) -> Option<(&str, u32)> {
        let behind = self.segments.partition_point(|segment| segment.generated <= (line, column));
        let segment = self.segments[..behind].last()?;
        // A line without segments of its own was added by the compiler.
        (segment.generated.0 == line).then_some(())?;
        Some((self.sources.get(segment.source as usize)?, segment.line.checked_add(1)?))
    }
}

/// A source's path without `.` and `..`.
fn joined(folder: &Path, source: &str) -> String {
    let mut path = PathBuf::new();
    for part in folder.join(source).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path.display().to_string()
}

/// Decodes the mappings: lines end by `;`, segments by `,`. A segment has the column, relative to the segment before it
/// in its line, and mostly the source and its line and column, relative to the last ones.
fn segments(mappings: &str) -> Option<Vec<Segment>> {
    let mut found = Vec::new();
    let (mut source, mut source_line) = (0_i64, 0_i64);
    for (line, text) in (0..).zip(mappings.split(';')) {
        let mut column = 0_i64;
        for segment in text.split(',').filter(|segment| !segment.is_empty()) {
            let fields = fields(segment)?;
            column = column.checked_add(*fields.first()?)?;
            let [_, of_source, of_line, ..] = fields[..] else { continue };
            source = source.checked_add(of_source)?;
            source_line = source_line.checked_add(of_line)?;
            found.push(Segment {
                generated: (line, u32::try_from(column).ok()?),
                source: u32::try_from(source).ok()?,
                line: u32::try_from(source_line).ok()?,
            });
        }
    }
    Some(found)
}

/// Decodes numbers of base 64: five bits a letter from the lowest, the sixth if more follow, the lowest of all the sign.
fn fields(text: &str) -> Option<Vec<i64>> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut fields = Vec::new();
    let (mut value, mut shift) = (0_i64, 0);
    for letter in text.bytes() {
        let bits = LETTERS.iter().position(|known| *known == letter)? as i64;
        (shift <= 30).then_some(())?;
        value |= (bits & 31) << shift;
        shift += 5;
        if bits & 32 == 0 {
            fields.push(if value & 1 == 1 { -(value >> 1) } else { value >> 1 });
            (value, shift) = (0, 0);
        }
    }
    (shift == 0).then_some(fields)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// What `tsc` 5 writes for a file of three functions behind an interface.
    const MAP: &str = r#"{"version":3,"file":"s.js","sourceRoot":"","sources":["../src/s.ts"],"names":[],
        "mappings":"AAAA,IAAI,GAAG,GAAW,CAAC,CAAC;AAGpB,SAAS,KAAK,KAAW,GAAG,IAAI,WAAW,CAAC,GAAG,EAAE,CAAC,CAAC,CAAC"}"#;

    #[test]
    fn a_place_has_the_line_of_the_segment_before_it() {
        let map = SourceMap::parse(MAP.as_bytes(), Path::new("/srv/dist")).unwrap();
        assert_eq!(map.original(0, 4), Some(("/srv/src/s.ts", 1)));
        assert_eq!(map.original(1, 14), Some(("/srv/src/s.ts", 4)));
        assert_eq!(map.original(1, 4000), Some(("/srv/src/s.ts", 4)));
        assert_eq!(map.original(2, 0), None, "a line that the compiler added");
    }

    #[test]
    fn sources_have_roots_and_schemes() {
        let with = |root: &str, source: &str| {
            let text = MAP.replace("\"sourceRoot\":\"\"", &format!("\"sourceRoot\":\"{root}\""));
            let text = text.replace("../src/s.ts", source);
            SourceMap::parse(text.as_bytes(), Path::new("/srv")).unwrap().sources[0].clone()
        };
        assert_eq!(with("src/", "./a.ts"), "/srv/src/a.ts");
        assert_eq!(with("/opt/src", "a.ts"), "/opt/src/a.ts");
        assert_eq!(with("", "webpack://app/./src/a.ts"), "webpack://app/./src/a.ts");
        assert_eq!(with("", "/opt/a.ts"), "/opt/a.ts");
    }

    #[test]
    fn numbers_of_base_64() {
        assert_eq!(fields("AAgBC"), Some(vec![0, 0, 16, 1]));
        assert_eq!(fields("D"), Some(vec![-1]));
        assert_eq!(fields("g"), None, "cut");
        assert_eq!(fields("gggggggggA"), None, "too large");
        assert_eq!(fields("A!"), None);
    }

    #[test]
    fn damaged_maps_are_none_or_name_what_exists() {
        for cut in 0..MAP.len() {
            assert!(SourceMap::parse(&MAP.as_bytes()[..cut], Path::new("/")).is_none());
        }
        let beyond = MAP.replace("AAAA", "AYAA");
        assert!(SourceMap::parse(beyond.as_bytes(), Path::new("/")).unwrap().segments.is_empty());
        for before in ["ADAA", "AADA", "DAAA"] {
            let text = MAP.replace("AAAA", before);
            assert!(SourceMap::parse(text.as_bytes(), Path::new("/")).is_none(), "{before}");
        }
    }

    #[test]
    fn a_map_lies_beside_its_script() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("s.js");
        let script = script.to_str().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let beside = |script: &str| SourceMaps::default().beside(own, script);
        assert!(beside(script).is_none());
        std::fs::create_dir(format!("{script}.map")).unwrap();
        assert!(beside(script).is_none(), "a folder");
        std::fs::remove_dir(format!("{script}.map")).unwrap();
        std::fs::write(format!("{script}.map"), MAP).unwrap();
        let source = folder.path().parent().unwrap().join("src/s.ts");
        let map = beside(script).unwrap();
        assert_eq!(map.original(0, 0), Some((source.to_str().unwrap(), 1)));
        assert!(beside("s.js").is_none(), "not a path");
    }

    #[test]
    fn a_map_is_read_once_for_all_processes_and_all_maps_together_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for name in ["one", "two"] {
            std::fs::write(script(name) + ".map", MAP).unwrap();
        }
        let own = i32::try_from(std::process::id()).unwrap();
        let mut maps = SourceMaps { left: MAP.len() as u64, ..SourceMaps::default() };
        let first = maps.beside(own, &script("one")).unwrap();
        assert!(Rc::ptr_eq(&first, &maps.beside(own, &script("one")).unwrap()));
        assert!(maps.beside(own, &script("two")).is_none(), "beyond the limit");
    }

    /// A package manager links one file into many folders, and a file system uses the inodes of removed files again.
    #[test]
    fn one_inode_may_be_the_map_of_several_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (one, two) = (at("one/dist"), at("two/dist"));
        for folder in [&one, &two] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let own = i32::try_from(std::process::id()).unwrap();
        let mut maps = SourceMaps::default();
        let mut source = |folder: &Path| {
            let map = maps.beside(own, folder.join("s.js").to_str().unwrap()).unwrap();
            map.original(0, 0).map(|(source, line)| (source.to_owned(), line))
        };
        let expected = |name: &str| Some((at(name).to_str().unwrap().to_owned(), 1));
        std::fs::write(one.join("s.js.map"), MAP).unwrap();
        std::fs::hard_link(one.join("s.js.map"), two.join("s.js.map")).unwrap();
        assert_eq!(source(&one), expected("one/src/s.ts"));
        assert_eq!(source(&two), expected("two/src/s.ts"));
        // The same file with another content, after the kernel's next tick, which is what its times count.
        let map = one.join("s.js.map");
        let changed = || std::fs::metadata(&map).map(|it| (it.ctime(), it.ctime_nsec())).unwrap();
        let before = changed();
        while changed() == before {
            std::fs::write(&map, MAP.replace("s.ts", "t.ts")).unwrap();
        }
        assert_eq!(source(&one), expected("one/src/t.ts"));
    }
}
