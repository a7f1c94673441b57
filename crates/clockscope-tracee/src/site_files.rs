//! Executable mappings of files in a process, and the system calls in these files.

use std::fs::{File, Metadata};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clockscope_sites::{Found, Wanted};
use clockscope_sys::memory;
use clockscope_sys::own_library::OwnLibrary;

/// Larger files are not read. No program is that large.
pub(crate) const FILE_MAX: u64 = 1 << 30;
/// Name of the mapping of the kernel's image, wherever it has been moved.
pub(crate) const VDSO: &str = "[vdso]";

/// A file, identified as in the list of mappings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    device: (u32, u32),
    inode: u64,
}

/// The state of a file: a file system gives the number of a removed file to the next one. Size, seconds and nanoseconds
/// of the last change of its contents, and of its inode (`stat(2)`).
pub(crate) type FileState = (u64, [i64; 4]);

/// An executable mapping of a file.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) key: FileKey,
    pub(crate) name: String,
}

impl Executed {
    /// Paths of the file: by its mapping, which needs a privilege, and by its name.
    fn paths(&self, pid: i32) -> [PathBuf; 2] {
        [
            PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end)),
            PathBuf::from(format!("/proc/{pid}/root{}", self.name)),
        ]
    }

    /// The state of the file; `None` for the kernel's image, and for a file that cannot be found any more.
    pub(crate) fn state(&self, pid: i32) -> Option<FileState> {
        if self.name == VDSO {
            return None;
        }
        // The kernel finds a file faster by its name.
        let [by_address, by_name] = self.paths(pid);
        let of = |path| std::fs::metadata(path).ok().and_then(|file| self.state_of(&file));
        of(by_name).or_else(|| of(by_address))
    }

    fn state_of(&self, file: &Metadata) -> Option<FileState> {
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        (file.is_file() && file.ino() == self.key.inode).then_some((file.len(), times))
    }
}

/// What is looked at of a mapped file, if the file can be read and is still the same.
fn read(pid: i32, mapping: &Executed) -> Option<Box<dyn Deref<Target = [u8]>>> {
    if mapping.name == VDSO {
        // The kernel's image has no file; it is read from the process's memory.
        let mut bytes = vec![0; usize::try_from(mapping.end - mapping.start).ok()?];
        memory::read_exact(pid, mapping.start, &mut bytes).ok()?;
        return Some(Box::new(bytes));
    }
    if pid == std::process::id().cast_signed()
        && let Ok(own) = OwnLibrary::map(Path::new(&mapping.name), mapping.key.inode)
    {
        return Some(Box::new(own));
    }
    let (file, length) = open(pid, mapping)?;
    Some(Box::new(clockscope_sites::read_parts(&file, length).ok()?))
}

/// A mapped file and its length, if the file can be read and is still the same.
pub(crate) fn open(pid: i32, mapping: &Executed) -> Option<(File, u64)> {
    let [by_address, by_name] = mapping.paths(pid);
    let file = File::open(by_address).or_else(|_| File::open(by_name)).ok()?;
    let (length, _) = mapping.state_of(&file.metadata().ok()?)?;
    (length <= FILE_MAX).then_some((file, length))
}

/// The instructions to look for, with those that read the CPU's `counters` or without.
pub(crate) fn wanted(counters: bool) -> Wanted {
    if counters { Wanted::CallsAndCounters } else { Wanted::Calls }
}

/// The sites in the file of a mapping. The vDSO reads the counter for the clock reads that are counted already, and the
/// system's libraries seldom.
pub(crate) fn found_in(pid: i32, mapping: &Executed, wanted: Wanted) -> Option<Found> {
    let is_left = mapping.name == VDSO || is_system(Path::new(&mapping.name));
    let wanted = if is_left { Wanted::Calls } else { wanted };
    read(pid, mapping).and_then(|file| clockscope_sites::find(&file, wanted).ok())
}

/// Parses a line of `/proc/PID/maps`, if it is an executable mapping of a file.
pub(crate) fn executed(line: &str) -> Option<Executed> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let perms = words.next()?;
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let offset = number(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode = words.next()?.parse().ok()?;
    let name = words.next()?.trim_start();
    let is_of_file = name.starts_with('/') || name == VDSO;
    (perms.contains('x') && perms.ends_with('p') && is_of_file).then_some(())?;
    let key = FileKey { device, inode };
    Some(Executed { start: number(start)?, end: number(end)?, offset, key, name: name.to_owned() })
}

/// Whether a file is a shared library in one of the loader's own directories, or in that of an architecture below them.
pub(crate) fn is_system(path: &Path) -> bool {
    let name = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    let is_own = |directory: &Path| {
        ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].iter().any(|own| directory == Path::new(own))
    };
    let of_architecture = |directory: &Path| {
        directory.to_string_lossy().contains("-linux-") && directory.parent().is_some_and(is_own)
    };
    name && path.parent().is_some_and(|directory| is_own(directory) || of_architecture(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_loaders_directories_are_the_systems() {
        for (path, is) in [
            ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", true),
            ("/lib/ld-musl-x86_64.so.1", true),
            ("/usr/lib64/libc.so.6", true),
            ("/usr/lib/jvm/java-17/lib/server/libjvm.so", false),
            ("/usr/lib/postgresql/19/bin/postgres", false),
            ("/usr/lib/systemd/systemd", false),
            ("/opt/x86_64-linux-gnu/liba.so", false),
        ] {
            assert_eq!(is_system(Path::new(path)), is, "{path}");
        }
    }
}
