//! The files of a machine: below a directory, or in an archive. What is in them is not trusted.

mod archive;
mod directory;
pub mod paths;
mod unpack;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::facts::{Log, Unread};
use super::log::reader;
use crate::foreign::printable_lines;
use archive::Archive;
use directory::Directory;

pub use super::collect::facts::{facts, facts_with_log};

/// The most that is read of a short file, in bytes; the rest is left.
pub const SMALL: u64 = 1 << 20;

/// The files of a machine.
#[derive(Debug)]
pub struct Root {
    tree: Tree,
}

#[derive(Debug)]
enum Tree {
    Directory(Directory),
    Archive(Archive),
}

impl Root {
    /// Opens a directory or an archive, by what it is and not by its name.
    ///
    /// # Errors
    ///
    /// If it is neither, or cannot be read; a clause, without the path.
    pub fn open(path: &Path) -> io::Result<Root> {
        Root::opened(path).map_err(|error| io::Error::new(error.kind(), in_words(&error)))
    }

    fn opened(path: &Path) -> io::Result<Root> {
        let kind = fs::metadata(path)?.file_type();
        if kind.is_dir() {
            return Ok(Root { tree: Tree::Directory(Directory::open(path)?) });
        }
        if !kind.is_file() {
            // To open a FIFO is to wait for its writer.
            let text = "it is neither a directory nor a plain file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Root::from_archive(File::open(path)?, &clean(&path.display().to_string()))
    }

    /// Reads an archive to its end. `name` is what to call it.
    ///
    /// # Errors
    ///
    /// If it is none, is damaged, or holds more than is read.
    pub fn from_archive(packed: impl Read, name: &str) -> io::Result<Root> {
        Ok(Root { tree: Tree::Archive(Archive::read(packed, name)?) })
    }

    /// What was refused when it was opened.
    #[must_use]
    pub fn refused(&self) -> &[Unread] {
        match &self.tree {
            Tree::Directory(_) => &[],
            Tree::Archive(archive) => &archive.refused,
        }
    }

    /// Opens a regular file below the root, of those in [`paths`]; `None` if there is none. Of
    /// an archive only short files: logs are [`Root::log`]'s.
    ///
    /// # Errors
    ///
    /// Why it is there and was not opened.
    pub fn file(&self, below: &str) -> Result<Option<Box<dyn Read + '_>>, Unread> {
        debug_assert!(paths::content(below).is_some(), "{below} is not in the table of paths");
        match &self.tree {
            Tree::Directory(directory) => match directory.file(below) {
                Ok(file) => Ok(file.map(|file| Box::new(file) as Box<dyn Read>)),
                Err(why) => {
                    // A folder that is closed is told once, not with each file.
                    let closed = (why == directory::DENIED).then(|| directory.closed_folder(below));
                    let file = closed.flatten().unwrap_or_else(|| below.to_owned());
                    Err(unread(&file, &why))
                }
            },
            Tree::Archive(archive) => match archive.file(below) {
                Ok(bytes) => Ok(bytes.map(|bytes| Box::new(bytes) as Box<dyn Read>)),
                Err(why) => Err(unread(below, &why)),
            },
        }
    }

    /// The text of a short file: at most [`SMALL`] bytes, what is not UTF-8 replaced, control
    /// characters too. NUL, which separates strings in device trees, becomes a line's end.
    ///
    /// # Errors
    ///
    /// Why it is there and was not read.
    pub fn text(&self, below: &str) -> Result<Option<String>, Unread> {
        let Some(file) = self.file(below)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(SMALL)
            .read_to_end(&mut bytes)
            .map_err(|error| unread(below, &in_words(&error)))?;
        Ok(Some(clean(&String::from_utf8_lossy(&bytes))))
    }

    /// Reads a log; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Why it is there and was not read.
    pub fn log(&self, below: &str) -> Result<Option<Log>, Unread> {
        if let Tree::Archive(archive) = &self.tree {
            let log = archive.log(below).map_err(|why| unread(below, &why))?;
            return Ok(log.cloned());
        }
        let Some(mut file) = self.file(below)? else { return Ok(None) };
        reader::read(&mut file, below).map(Some).map_err(|error| unread(below, &in_words(&error)))
    }

    /// The logs that there may be, in the order of [`paths::LOGS`].
    #[must_use]
    pub fn logs(&self) -> Vec<String> {
        let one = |pattern: &&str| match pattern.strip_suffix('*') {
            None => vec![(*pattern).to_owned()],
            Some(start) => {
                let (folder, _) = start.rsplit_once('/').unwrap_or(("", start));
                let paths = self.names(folder).into_iter().map(|name| format!("{folder}/{name}"));
                paths
                    .filter(|path| path.strip_prefix(start).is_some_and(paths::is_plain_ending))
                    .collect()
            }
        };
        paths::LOGS.iter().flat_map(one).collect()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        match &self.tree {
            Tree::Directory(directory) => directory.names(folder),
            Tree::Archive(archive) => archive.names(folder),
        }
    }
}

fn unread(below: &str, why: &str) -> Unread {
    Unread { file: below.to_owned(), why: clean(why) }
}

/// An error in lower case, without its number.
pub(in crate::host) fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_lowercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

/// The text without what would act on a terminal or hide in it; line ends and tabs stay, and a zero
/// byte is a line end.
#[must_use]
pub fn clean(text: &str) -> String {
    printable_lines(&text.replace('\0', "\n").replace('\r', " "))
}
