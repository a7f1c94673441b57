//! Names of code made at run time, from files that runtimes write for profilers.
//!
//! A runtime writes either a text file `/tmp/perf-PID.map`, or a file `jit-PID.dump` that it maps
//! so that profilers notice the file. Code may be discarded and its memory reused: the last name
//! counts.
//!
//! Any user can put a file at such a path, and make it as long as the disk. So a file must be owned
//! by the process's user or by root. It is read as a stream, for all wanted addresses at once, and
//! again only after it has grown. The total number of bytes is limited, and unread parts are
//! reported.
//!
//! # References
//!
//! `tools/perf/Documentation/jit-interface.txt`, `jitdump-specification.txt` (Linux 6.12)

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::rc::Rc;

use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _};

use super::frames::ProgramId;
use super::jit_files::{of_dump, of_map};
use super::jit_wanted::Wanted;
use clockscope_sys::proc_text;
use clockscope_text::foreign::Foreign;

/// Most dumps that are read for one process.
pub(super) const DUMPS_MAX: usize = 4;
/// Most bytes of a map that are read: its end, which has the newest names. Of a dump the beginning
/// is read.
const FILE_MAX: u64 = 256 << 20;
/// Most bytes of all maps and dumps that are read while programs run and after they have ended:
/// about two seconds of work.
pub(super) const ALL_MAX: u64 = 512 << 20;

/// A process that executes code made at run time.
#[derive(Default)]
pub(super) struct Program {
    /// The program of the process that this one was forked from.
    pub(super) parent: Option<ProgramId>,
    pub(super) pid: i32,
    /// Its root directory, which stays accessible when the process ends.
    root: Option<Dir>,
    /// Its process id in its own PID namespace.
    own_pid: i32,
    /// The users with whose rights the process acts (`Uid:` in `/proc/PID/status`).
    users: Vec<u32>,
    dumps: Vec<Rc<File>>,
    /// The result of each lookup, by address.
    names: HashMap<u64, Option<Foreign>>,
    /// Total size of its files at the last lookup, in bytes.
    length: u64,
    /// Reasons for missing names, as clauses.
    pub(super) missing: BTreeSet<String>,
}

impl Program {
    /// A process whose first frame of this kind was just seen.
    pub(super) fn seen(pid: i32, parent: Option<ProgramId>, dumps: Vec<Rc<File>>) -> Program {
        let root = Dir::open_ambient_dir(format!("/proc/{pid}/root"), cap_std::ambient_authority());
        let status = proc_text::read(format!("/proc/{pid}/status")).unwrap_or_default();
        Program {
            parent,
            pid,
            root: root.ok(),
            own_pid: numbers(&status, "NSpid:").last().copied().unwrap_or(pid.unsigned_abs())
                as i32,
            users: numbers(&status, "Uid:"),
            dumps,
            ..Program::default()
        }
    }

    /// The name of the code at an address, if it was looked up and found.
    pub(super) fn name(&self, at: u64) -> Option<Foreign> {
        self.names.get(&at).cloned().flatten()
    }

    /// Whether this address was looked up.
    pub(super) fn has_looked_up(&self, at: u64) -> bool {
        self.names.contains_key(&at)
    }

    /// Looks up names in the process's files. Reads at most `budget` bytes and reduces `budget` by
    /// the bytes read.
    pub(super) fn look_up(&mut self, places: Vec<u64>, budget: &mut u64) {
        let map = self.map();
        let dumps: Vec<Rc<File>> =
            self.dumps.iter().filter(|dump| self.is_own(dump)).cloned().collect();
        let length = map.iter().flatten().chain(dumps.iter().map(Rc::as_ref)).map(size).sum();
        let has_grown = length != self.length;
        self.length = length;
        let is_open = |at: &u64| match self.names.get(at) {
            None => true,
            Some(name) => name.is_none() && has_grown,
        };
        let places: Vec<u64> = places.into_iter().filter(is_open).collect();
        if places.is_empty() {
            return;
        }
        self.missing.clear();
        let mut wanted = Wanted::new(places);
        // If a read fails, the names read so far are kept.
        match map {
            Ok(Some(map)) => drop(self.read_map(map, &mut wanted, budget)),
            Ok(None) => {}
            Err(why) => drop(self.missing.insert(why)),
        }
        for dump in dumps {
            let length = size(&dump).min(FILE_MAX).min(*budget / 2);
            self.note_cut("jitdump", size(&dump), length);
            let open = || {
                let mut file = dump.try_clone()?;
                file.seek(SeekFrom::Start(0))?;
                Ok(BufReader::new(file.take(length)))
            };
            let _ = of_dump(open, &mut wanted);
            *budget -= 2 * length;
        }
        let found = wanted.names().map(|(at, name)| (at, name.map(|name| Foreign::from(&*name))));
        self.names.extend(found);
    }

    fn read_map(&mut self, mut map: File, wanted: &mut Wanted, budget: &mut u64) -> io::Result<()> {
        let (whole, length) = (size(&map), size(&map).min(FILE_MAX).min(*budget));
        self.note_cut(&format!("/tmp/perf-{}.map", self.own_pid), whole, length);
        *budget -= length;
        let skipped = whole - length;
        map.seek(SeekFrom::Start(skipped))?;
        // Lines written meanwhile are read next time.
        let mut lines = BufReader::with_capacity(1 << 16, map.take(length));
        if skipped > 0 {
            lines.skip_until(b'\n')?;
        }
        of_map(&mut lines, wanted)
    }

    /// Notes that a part of a file is not read.
    fn note_cut(&mut self, file: &str, whole: u64, length: u64) {
        if length < whole.min(FILE_MAX) {
            // The next lookup may read more, after the program has ended.
            self.length = u64::MAX;
        }
        if length < whole {
            let (whole, length) = (whole >> 20, length >> 20);
            self.missing.insert(format!(
                "only {length} of {whole} MiB of its {file} were read, which is the most that is \
                 read in one run"
            ));
        }
    }

    /// The process's map file.
    ///
    /// # Errors
    ///
    /// The reason why the file is not read.
    fn map(&self) -> Result<Option<File>, String> {
        let path = format!("tmp/perf-{}.map", self.own_pid);
        let refused = |why: &str| Err(format!("its /{path} {why}"));
        let Some(root) = &self.root else { return Ok(None) };
        let Ok(found) = root.symlink_metadata(&path) else { return Ok(None) };
        if !found.is_file() {
            return refused("is no regular file");
        }
        let mut options = OpenOptions::new();
        // The file may have been replaced: do not wait for a FIFO, and acquire no controlling
        // terminal.
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let Ok(file) = root.open_with(&path, &options) else {
            return refused("cannot be read");
        };
        let file = file.into_std();
        let is_same = |data: std::fs::Metadata| {
            data.is_file() && (data.dev(), data.ino()) == (found.dev(), found.ino())
        };
        if !file.metadata().is_ok_and(is_same) {
            return refused("is no regular file");
        }
        if !self.is_own(&file) {
            return refused("belongs to another user");
        }
        Ok(Some(file))
    }

    /// Whether the owner of a file is the process's user or root.
    fn is_own(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|data| data.uid() == 0 || self.users.contains(&data.uid()))
    }
}

fn size(file: &File) -> u64 {
    file.metadata().map_or(0, |data| data.len())
}

/// The numbers of a line of `/proc/PID/status`.
fn numbers(status: &str, name: &str) -> Vec<u32> {
    let line = proc_text::field(status, name).unwrap_or_default();
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A process with this user whose root is a folder.
    fn program(folder: &tempfile::TempDir, users: Vec<u32>) -> Program {
        fs::create_dir_all(folder.path().join("tmp")).unwrap();
        let root = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).ok();
        Program { pid: 7, root, own_pid: 7, users, ..Program::default() }
    }

    fn own_user() -> u32 {
        fs::metadata("/proc/self").unwrap().uid()
    }

    #[test]
    fn a_map_is_read_once_for_all_addresses_and_again_only_when_it_has_grown() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = program(&folder, vec![own_user()]);
        let map = folder.path().join("tmp/perf-7.map");
        let text = "1000 10 first\n2000 10 second\n";
        fs::write(&map, text).unwrap();
        let mut budget = 1000;
        program.look_up(vec![0x1000, 0x2008, 0x3000], &mut budget);
        assert_eq!(budget, 1000 - text.len() as u64);
        program.look_up(vec![0x1000, 0x2008, 0x3000], &mut budget);
        assert_eq!(budget, 1000 - text.len() as u64, "nothing is new");
        fs::write(&map, format!("{text}3000 1 third\n")).unwrap();
        program.look_up(vec![0x1000, 0x2008, 0x3000], &mut budget);
        let names = [0x1000, 0x2008, 0x3000].map(|at| program.name(at).unwrap().to_string());
        assert_eq!(names, ["first", "second", "third"]);
        assert!(program.missing.is_empty());
    }

    #[test]
    fn of_a_map_that_is_too_long_the_end_is_read_and_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = program(&folder, vec![own_user()]);
        let text = "1000 10 old\n".repeat(1000) + "1000 10 new\n2000 10 x\n";
        fs::write(folder.path().join("tmp/perf-7.map"), text).unwrap();
        let mut budget = 50;
        program.look_up(vec![0x1000], &mut budget);
        assert_eq!((program.name(0x1000).unwrap().to_string().as_str(), budget), ("new", 0));
        assert_eq!(program.missing.len(), 1, "{:?}", program.missing);
        program.look_up(vec![0x9000], &mut budget);
        assert_eq!(budget, 0);
    }

    #[test]
    fn what_is_no_regular_file_of_the_process_is_not_read_and_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("tmp/perf-7.map");
        let said = |users: Vec<u32>| {
            let mut program = program(&folder, users);
            let mut budget = 1000;
            program.look_up(vec![0x1000], &mut budget);
            assert_eq!((program.name(0x1000), budget), (None, 1000));
            program.missing.into_iter().collect::<Vec<_>>().join("; ")
        };
        assert_eq!(said(vec![own_user()]), "", "there is none");
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "1000 10 name\n").unwrap();
        symlink(&elsewhere, &map).unwrap();
        assert_eq!(said(vec![own_user()]), "its /tmp/perf-7.map is no regular file");
        fs::remove_file(&map).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&map).status().unwrap().success());
        assert_eq!(said(vec![own_user()]), "its /tmp/perf-7.map is no regular file");
        fs::remove_file(&map).unwrap();
        fs::write(&map, "1000 10 name\n").unwrap();
        if own_user() != 0 {
            assert_eq!(said(vec![own_user() + 1]), "its /tmp/perf-7.map belongs to another user");
        } else if std::os::unix::fs::chown(&map, Some(1234), None).is_ok() {
            assert_eq!(said(vec![0]), "its /tmp/perf-7.map belongs to another user");
        }
    }
}
