//! The files of a machine: below a directory, or in an archive. Their content is not trusted.

mod archive;
mod directory;
pub mod paths;
pub(crate) mod unpack;

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Cursor, Read, Seek as _, SeekFrom};
use std::path::Path;

pub use super::evidence::clean;
use super::evidence::{Unread, in_words};
use super::log::{Log, reader};
use archive::Archive;
use directory::Directory;
use paths::Content;

/// Bytes that are searched for the first whole line of a cut log.
const LINE: u64 = 1 << 20;
/// Maximum number of bytes that are read of a short file; the rest is ignored.
pub(crate) const SMALL: u64 = 1 << 20;

/// Maximum number of bytes that are read of one log, from its end, which contains the newest boot. Takes seconds to read.
/// The longest log seen, of a year, has 1.3 GiB.
const LOG_MAX: u64 = 2 << 30;

/// Whether a folder looks like a machine's root, an sosreport or a capture, and not like a folder of these.
pub fn is_machine(folder: &Path) -> bool {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name.to_str().is_some_and(paths::is_of_machine))
}

/// The files of a machine.
#[derive(Debug)]
pub struct Root {
    tree: Tree,
    log_max: u64,
}

#[derive(Debug)]
enum Tree {
    Directory(Directory),
    Archive(Archive),
    /// A log by itself.
    Log(Box<Log>),
}

impl Root {
    /// Opens a directory, an archive or a log, recognised by its content and not by its name.
    ///
    /// # Errors
    ///
    /// If it is none of them, or cannot be read; a clause, without the path.
    pub fn open(path: &Path) -> io::Result<Root> {
        Root::opened(path).map_err(|error| io::Error::new(error.kind(), in_words(&error)))
    }

    fn opened(path: &Path) -> io::Result<Root> {
        let kind = fs::metadata(path)?.file_type();
        if kind.is_dir() {
            return Ok(Root::of(Tree::Directory(Directory::open(path)?)));
        }
        if !kind.is_file() {
            // Opening a FIFO would wait for its writer.
            let text = "it is neither a directory nor a plain file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        Root::from_archive(File::open(path)?, &clean(&name.to_string_lossy()))
    }

    /// Reads an archive, or a log by itself, to its end. `name` is its name in messages.
    ///
    /// # Errors
    ///
    /// If it is neither, is damaged, or contains more than the limits.
    pub fn from_archive(packed: impl Read, name: &str) -> io::Result<Root> {
        let stopped = |error: io::Error| archive::stopped(0, &error);
        let unpacked = unpack::log(packed)?;
        let (head, rest) = unpack::head_of(unpacked, unpack::HEAD).map_err(stopped)?;
        // A text in place of an archive is none.
        let is_log = unpack::is_text(&head) && !paths::is_archive(name);
        let mut whole = Cursor::new(head).chain(rest);
        Ok(Root::of(if is_log {
            Tree::Log(Box::new(reader::read(&mut whole, name).map_err(stopped)?))
        } else {
            Tree::Archive(Archive::read(whole, name)?)
        }))
    }

    fn of(tree: Tree) -> Root {
        Root { tree, log_max: LOG_MAX }
    }

    /// Files that were refused while the root was opened.
    pub fn refused(&self) -> &[Unread] {
        match &self.tree {
            Tree::Directory(_) | Tree::Log(_) => &[],
            Tree::Archive(archive) => &archive.refused,
        }
    }

    /// The first `SMALL` bytes of a regular file below the root that is listed in [`paths`]; `None` if there is none. In
    /// an archive only short files; [`Root::log`] gives its logs.
    ///
    /// # Errors
    ///
    /// If the file exists but could not be read: the reason.
    pub fn bytes(&self, below: &str) -> Result<Option<Vec<u8>>, Unread> {
        debug_assert!(paths::content(below).is_some(), "{below} is not in the table of paths");
        let directory = match &self.tree {
            Tree::Directory(directory) => directory,
            Tree::Archive(archive) => return Ok(archive.file(below)?.map(<[u8]>::to_vec)),
            Tree::Log(_) => return Ok(None),
        };
        let Some(file) = directory.file(below)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(SMALL).read_to_end(&mut bytes).map_err(|error| Unread::of(below, &error))?;
        Ok(Some(bytes))
    }

    /// The text of a short file: at most `SMALL` bytes. Control characters and bytes that are not UTF-8 are replaced. A
    /// NUL, which separates strings in device trees, becomes a line end.
    ///
    /// # Errors
    ///
    /// If the file exists but could not be read: the reason.
    pub fn text(&self, below: &str) -> Result<Option<String>, Unread> {
        Ok(self.bytes(below)?.map(|bytes| clean(&String::from_utf8_lossy(&bytes))))
    }

    /// Reads a log; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the log exists but could not be read: the reason.
    pub fn log(&self, below: &str) -> Result<Option<Log>, Unread> {
        let directory = match &self.tree {
            Tree::Directory(directory) => directory,
            Tree::Archive(archive) => return Ok(archive.log(below)?.cloned()),
            Tree::Log(log) => return Ok(Some(Log::clone(log))),
        };
        let Some(file) = directory.file(below)? else { return Ok(None) };
        self.end_of_log(file, below).map(Some).map_err(|error| Unread::of(below, &error))
    }

    /// Reads as much of a log as the limit permits, from its end.
    fn end_of_log(&self, mut file: cap_std::fs::File, below: &str) -> io::Result<Log> {
        let length = file.metadata()?.len();
        let skipped_bytes = length.saturating_sub(self.log_max);
        let mut start = file.seek(SeekFrom::Start(skipped_bytes))?;
        // A log that grows meanwhile must not be read without end.
        let mut bytes = BufReader::new((&mut file).take(self.log_max));
        if skipped_bytes > 0 {
            // Skips to the next line, if there is one near.
            let part = (&mut bytes).take(LINE).skip_until(b'\n')?;
            start += part as u64;
        }
        let log = reader::read(&mut bytes, below)?;
        Ok(if skipped_bytes > 0 { Log { skipped_bytes: start, ..log } } else { log })
    }

    /// The possible logs, in the order of `paths::LOGS`, with those that are not to be read.
    pub fn logs(&self) -> Vec<String> {
        if let Tree::Log(log) = &self.tree {
            return vec![log.file.clone()];
        }
        let of = |start: &&str| {
            let mut found = self.paths_like(start);
            found.retain(|path| paths::content(path) == Some(Content::Log));
            if paths::is_left_out(start).is_none() {
                // The name itself is looked for even where the folder cannot be listed.
                found.retain(|path| path != start);
                found.insert(0, (*start).to_owned());
            }
            found
        };
        paths::LOGS.iter().flat_map(of).collect()
    }

    /// Why a log among others is not read, as a clause; `None` if it is, as is any log that was given by itself.
    pub(crate) fn leaves_out(&self, below: &str) -> Option<&'static str> {
        if matches!(self.tree, Tree::Log(_)) { None } else { paths::is_left_out(below) }
    }

    /// Paths of files that begin with `start`, with those of some other files.
    fn paths_like(&self, start: &str) -> Vec<String> {
        let mut paths = match (&self.tree, start.rsplit_once('/')) {
            (Tree::Directory(directory), None) => directory.names("."),
            (Tree::Directory(directory), Some((folder, _))) => {
                directory.names(folder).iter().map(|name| format!("{folder}/{name}")).collect()
            }
            (Tree::Archive(archive), _) => archive.paths(),
            (Tree::Log(_), _) => Vec::new(),
        };
        paths.retain(|path| path.starts_with(start));
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::facts;

    const BOOT: &str = "[    0.000000] Linux version 6.1.0 (gcc)\n\
                        [    1.000000] tsc: Marking TSC unstable due to clocksource watchdog\n";

    fn root(logs: &[(&str, &str)], log_max: u64) -> (tempfile::TempDir, Root) {
        let folder = crate::collect::tests::root(logs);
        let root = Root::open(folder.path()).unwrap();
        (folder, Root { log_max, ..root })
    }

    #[test]
    fn of_a_log_that_is_too_long_the_end_is_read_and_that_is_said() {
        let long = "old line\n".repeat(100) + BOOT;
        let (_folder, root) = root(&[("var/log/dmesg", &long)], 150);
        let log = root.log("var/log/dmesg").unwrap().unwrap();
        assert_eq!((log.events.len(), log.begins_at_boot), (2, true));
        assert!(log.skipped_bytes >= 900 - 150 && log.skipped_bytes <= 900, "{log:?}");
        let told = facts(&root).unread;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].file, "var/log/dmesg");
        assert!(told[0].why.contains("bytes of its oldest lines"), "{told:?}");
    }

    #[test]
    fn a_log_by_itself_is_read_whatever_its_name() {
        for name in ["kern.log.1", "dmesg.0", "messages-20261124", "notes"] {
            let facts = facts(&Root::from_archive(BOOT.as_bytes(), name).unwrap());
            assert_eq!((facts.log.unwrap().events.len(), facts.unread), (2, vec![]), "{name}");
        }
    }

    #[test]
    fn a_log_within_the_limit_is_read_whole() {
        let (_folder, root) = root(&[("dmesg", BOOT)], BOOT.len() as u64);
        let log = root.log("dmesg").unwrap().unwrap();
        assert_eq!((log.skipped_bytes, log.lines, log.events.len()), (0, 2, 2));
        assert_eq!(facts(&Root::open(_folder.path()).unwrap()).unread, []);
    }
}
