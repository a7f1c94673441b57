//! A machine's files in an archive. The files that doctor reads are kept in memory, logs in parsed form. No file is
//! unpacked to a disk, and no link in the archive is followed.

use std::collections::BTreeMap;
use std::io::{self, Read};

use tar::{Entry, EntryType, PaxExtensions};

use super::paths::{self, Content};
use super::unpack::{HEAD, Packing, head_of, is_tar, packing, unpack};
use super::{SMALL, clean};
use crate::facts::{Log, Unread};
use crate::log::reader;
use clockscope_text::foreign::printable;
use clockscope_text::lines::cut_right;

/// Maximum depth of nested folders in the search for a machine's root.
const DEPTH: usize = 3;
/// Maximum number of bytes that are kept.
const KEPT: usize = 64 << 20;
/// Approximate size of a log event in memory, in bytes.
const EVENT: usize = 512;
/// Minimum number of files which doctor reads that make a folder a machine's root.
const MACHINE: usize = 3;
/// Longest name of a member (`PATH_MAX` of include/uapi/linux/limits.h), in bytes.
const NAME: u64 = 4096;
/// Maximum size of a PAX header that is read, in bytes; the longest are extended attributes.
const PAX: u64 = 1 << 20;

/// The members of an archive that were kept.
#[derive(Debug, Default)]
pub(super) struct Archive {
    files: BTreeMap<String, Kept>,
    /// Refused members, for the report.
    pub(super) refused: Vec<Unread>,
}

/// A member that doctor reads.
#[derive(Clone, Debug)]
enum Kept {
    Small(Vec<u8>),
    Log(Box<Log>),
    Refused(&'static str),
    /// A link to a member whose path ends so.
    Link(String),
}

impl Archive {
    /// Reads an unpacked archive to its end. `name` is its name in messages.
    ///
    /// # Errors
    ///
    /// If it is not an archive, is damaged, or contains more than the limits.
    pub(super) fn read(unpacked: impl Read, name: &str) -> io::Result<Archive> {
        let (head, rest) = head_of(unpacked, HEAD)?;
        if !is_tar(&head) {
            let why = packing(&head).err().unwrap_or("what is packed is no tar archive");
            return Err(io::Error::other(why));
        }
        let mut members = Members::default();
        let ended = members.read(unpack(io::Cursor::new(head).chain(rest), Packing::None));
        let has_end = ended.map_err(|error| stopped(members.count, &error))?;
        let mut archive = members.choose();
        if !has_end {
            let why = "the archive has no end mark: it may be cut off";
            archive.refused.push(Unread::new(name, why));
        }
        Ok(archive)
    }

    /// A short file; `None` if there is none.
    pub(super) fn file(&self, below: &str) -> Result<Option<&[u8]>, Unread> {
        match self.files.get(below) {
            Some(Kept::Small(bytes)) => Ok(Some(bytes)),
            kept => self.refusal(below, kept),
        }
    }

    /// A log; `None` if there is none.
    pub(super) fn log(&self, below: &str) -> Result<Option<&Log>, Unread> {
        match self.files.get(below) {
            Some(Kept::Log(log)) => Ok(Some(log)),
            kept => self.refusal(below, kept),
        }
    }

    /// The paths of all members.
    pub(super) fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    /// The reason why a member has no content of the wanted kind; `None` if there is no such member.
    fn refusal<T>(&self, below: &str, kept: Option<&Kept>) -> Result<Option<T>, Unread> {
        let why = match kept {
            None | Some(Kept::Small(_)) => return Ok(None),
            Some(Kept::Log(_)) => "a log, which is not kept as it was",
            Some(Kept::Refused(why)) => why,
            // The target is read by its own name: sosreport links its most important files in this way.
            Some(Kept::Link(end)) if self.files.keys().any(|path| is_at(path, end)) => {
                return Ok(None);
            }
            Some(Kept::Link(_)) => "a link in the archive, which is not followed",
        };
        Err(Unread::new(below, why))
    }
}

/// The members of an archive, grouped by the folder that may be the root.
#[derive(Default)]
struct Members {
    roots: BTreeMap<String, BTreeMap<String, Kept>>,
    kept: usize,
    count: u64,
    /// Members whose path may lead out of the archive: the first, and the number of all.
    outside: (String, u64),
    /// An archive inside the archive.
    nested: Option<String>,
}

impl Members {
    /// Reads all members; returns whether there was an end mark.
    fn read(&mut self, unpacked: impl Read) -> io::Result<bool> {
        let mut archive = tar::Archive::new(Watched { inner: unpacked, met_end: false });
        let mut name: Option<Vec<u8>> = None;
        for entry in archive.entries()?.raw(true) {
            let mut entry = entry?;
            let kind = entry.header().entry_type();
            match kind {
                EntryType::GNULongName => {
                    let bytes = at_most(&mut entry, NAME, "a name")?;
                    name = Some(bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
                }
                EntryType::XHeader => {
                    let bytes = at_most(&mut entry, PAX, "a PAX header")?;
                    name = pax_name(&bytes)?.or(name);
                }
                EntryType::GNULongLink | EntryType::XGlobalHeader => {}
                EntryType::GNUSparse if is_extended(&entry) => {
                    let text = "it has sparse members: pack it without --sparse";
                    return Err(io::Error::other(text));
                }
                _ => {
                    let path = name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
                    self.count += 1;
                    self.member(&path, &mut entry)?;
                }
            }
        }
        let mut rest = archive.into_inner();
        let has_end = !rest.met_end;
        // Reads to the end, so that the checksum there is verified.
        io::copy(&mut rest, &mut io::sink())?;
        Ok(has_end)
    }

    fn member(&mut self, path: &[u8], entry: &mut Entry<impl Read>) -> io::Result<()> {
        let path = String::from_utf8_lossy(path);
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if !parts.contains(&"..") && !path.starts_with('/') {
            return self.plain_member(&parts, entry);
        }
        if self.outside.1 == 0 {
            self.outside.0 = short(&path);
        }
        self.outside.1 += 1;
        Ok(())
    }

    fn plain_member(&mut self, parts: &[&str], entry: &mut Entry<impl Read>) -> io::Result<()> {
        let found = (0..=DEPTH.min(parts.len().saturating_sub(1))).find_map(|depth| {
            let below = parts[depth..].join("/");
            Some((parts[..depth].join("/"), paths::content(&below)?, below))
        });
        let Some((root, content, below)) = found else {
            if let Some(name) = parts.last().filter(|name| paths::is_archive(name)) {
                self.nested.get_or_insert_with(|| short(name));
            }
            return Ok(());
        };
        let kept = kept(content, &below, entry)?;
        self.kept += root.len()
            + below.len()
            + match &kept {
                Kept::Small(bytes) => bytes.len(),
                Kept::Log(log) => (log.events.len() + 1) * EVENT,
                Kept::Refused(_) | Kept::Link(_) => EVENT,
            };
        if self.kept > KEPT {
            let text = "it holds more than 64 MiB of files such as doctor reads: of many machines?";
            return Err(io::Error::other(text));
        }
        // Of a member that is there twice, the last one counts.
        self.roots.entry(root).or_default().insert(below, kept);
        Ok(())
    }

    /// Chooses the folder with most files; among equals, the least deep.
    fn choose(mut self) -> Archive {
        let rank = |(root, files): &(&String, &BTreeMap<String, Kept>)| {
            (files.len(), usize::MAX - root.matches('/').count() - usize::from(!root.is_empty()))
        };
        let root = self.roots.iter().max_by_key(rank).map(|(root, _)| root.clone());
        let root = root.unwrap_or_default();
        let files = self.roots.remove(&root).unwrap_or_default();
        let mut refused: Vec<Unread> = Vec::new();
        let mut say = |file: &str, why: &str| refused.push(Unread::new(file, why));
        if let (first, count @ 1..) = &self.outside {
            say(first, &format!("an absolute path or `..` in it, not read; such members: {count}"));
        }
        if let (true, Some(nested)) = (files.is_empty(), &self.nested) {
            say(nested, "an archive in the archive: unpack the outer one first");
        }
        if let Some((other, _)) = self.roots.iter().find(|(_, files)| files.len() >= MACHINE) {
            say(&short(other), "another machine's root: one is read");
        }
        Archive { files, refused }
    }
}

/// Why reading ended after that many members.
pub(super) fn stopped(count: u64, error: &io::Error) -> io::Error {
    let why = super::in_words(error);
    // Each reader and unpacker has its own message for a cut archive.
    let is_cut = error.kind() == io::ErrorKind::UnexpectedEof
        || ["EOF", "entire block", "fill whole buffer"].iter().any(|word| why.contains(word));
    let why = if is_cut { "it is cut off".to_owned() } else { why };
    let where_ = match count {
        0 => "from its beginning".to_owned(),
        1 => "after 1 member".to_owned(),
        count => format!("after {count} members"),
    };
    io::Error::other(format!("the archive cannot be read {where_}: {}", clean(&why)))
}

/// Whether the path ends in these parts.
fn is_at(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// The part of a member to keep.
fn kept(content: Content, below: &str, entry: &mut Entry<impl Read>) -> io::Result<Kept> {
    let why = match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous => {
            return Ok(match content {
                Content::Small => {
                    let mut bytes = Vec::new();
                    entry.take(SMALL).read_to_end(&mut bytes)?;
                    Kept::Small(bytes)
                }
                Content::Log => match reader::read(entry, below) {
                    Ok(log) => Kept::Log(Box::new(log)),
                    Err(error) if error.kind() == io::ErrorKind::Other => {
                        Kept::Refused("its packing is damaged, or is not read")
                    }
                    Err(error) => return Err(error),
                },
            });
        }
        EntryType::Symlink => {
            let link = entry.link_name_bytes().unwrap_or_default();
            let link = String::from_utf8_lossy(&link);
            return Ok(Kept::Link(link.trim_start_matches(['.', '/']).to_owned()));
        }
        EntryType::Link => "a link in the archive, which is not followed",
        EntryType::Directory => "a directory, not a file",
        EntryType::Fifo => "a FIFO, not a file",
        EntryType::Block | EntryType::Char => "a device, not a file",
        _ => "not a plain file",
    };
    Ok(Kept::Refused(why))
}

/// The whole content of a member that is not longer than `most` bytes.
fn at_most(entry: &mut Entry<impl Read>, most: u64, what: &str) -> io::Result<Vec<u8>> {
    if entry.size() > most {
        return Err(io::Error::other(format!("{what} of more than {most} bytes")));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The name in a PAX header.
fn pax_name(bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut name = None;
    for extension in PaxExtensions::new(bytes).flatten() {
        match extension.key() {
            Ok("path") => name = Some(extension.value_bytes().to_vec()),
            // Members of 8 GiB and more need this header, because the tar header cannot hold their size.
            Ok("size") => {
                return Err(io::Error::other("it has a member of a size that is not read"));
            }
            _ => {}
        }
    }
    Ok(name)
}

fn is_extended(entry: &Entry<impl Read>) -> bool {
    entry.header().as_gnu().is_some_and(tar::GnuHeader::is_extended)
}

/// A name in printable form, shortened.
fn short(name: &str) -> String {
    cut_right(&printable(name), 100)
}

/// Records whether the end was reached.
struct Watched<R> {
    inner: R,
    met_end: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.met_end |= read == 0 && !buffer.is_empty();
        Ok(read)
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
