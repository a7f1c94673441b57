//! A machine's files below a directory. Links are followed as if the directory were `/`, and never out of the
//! directory.

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, FileType, FileTypeExt, OpenOptions, OpenOptionsExt};

use super::clean;
use super::paths::is_of_machine;
use crate::facts::Unread;

/// Maximum number of absolute links that are followed for one file; as in the kernel (`MAXSYMLINKS` of
/// include/linux/namei.h).
const LINKS: usize = 40;
/// Maximum number of names that are read of one directory.
const NAMES: usize = 4096;
/// Maximum depth of nested folders in the search for a machine's root.
const DEPTH: usize = 3;

/// The directory that is taken as a machine's root.
#[derive(Debug)]
pub(super) struct Directory {
    top: Dir,
}

impl Directory {
    /// Opens the directory, or the only folder in it if that is the machine's root.
    pub(super) fn open(path: &Path) -> io::Result<Directory> {
        let mut top = Dir::open_ambient_dir(path, ambient_authority())?;
        for _ in 0..DEPTH {
            match only_folder(&top) {
                Some(folder) => top = folder,
                None => break,
            }
        }
        Ok(Directory { top })
    }

    /// Opens a regular file; `None` if there is none.
    pub(super) fn file(&self, below: &str) -> Result<Option<File>, Unread> {
        self.resolved(below, |path| self.open_regular(path))
    }

    /// Reports an unreadable folder once instead of each file in it.
    fn denied(&self, below: &str) -> Unread {
        let folder = self.closed_folder(below);
        let file = folder.as_deref().unwrap_or(below);
        Unread { is_denied: true, ..Unread::new(file, "permission denied") }
    }

    /// The outermost folder of a path that may not be searched.
    fn closed_folder(&self, below: &str) -> Option<String> {
        let folders: Vec<&Path> = Path::new(below).ancestors().skip(1).collect();
        let is_closed = |folder: &&&Path| {
            let inside = self.top.metadata(folder.join("."));
            inside.is_err_and(|error| error.raw_os_error() == Some(libc::EACCES))
        };
        folders.iter().rev().find(is_closed).map(|folder| folder.display().to_string())
    }

    /// Names in a directory, sorted; none if it cannot be read.
    pub(super) fn names(&self, below: &str) -> Vec<String> {
        let names = |path: &Path| -> io::Result<Vec<String>> {
            let entries = self.top.read_dir(path)?.take(NAMES).flatten();
            Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
        };
        let found = self.resolved(below, |path| names(path).map_err(Refusal::of));
        let mut names = found.ok().flatten().unwrap_or_default();
        names.sort();
        names
    }

    fn open_regular(&self, path: &Path) -> Result<File, Refusal> {
        // Opening some devices acts on them, so the kind is checked before; and again after opening, because the file
        // may have been replaced.
        let kind = self.top.metadata(path).map_err(Refusal::of)?.file_type();
        refuse_other_kinds(kind)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC);
        let file = self.top.open_with(path, &options).map_err(Refusal::of)?;
        refuse_other_kinds(file.metadata().map_err(Refusal::of)?.file_type())?;
        Ok(file)
    }

    /// Calls `act` with the path, and again with the target below the root if the path contains an absolute link.
    fn resolved<T>(
        &self,
        below: &str,
        mut act: impl FnMut(&Path) -> Result<T, Refusal>,
    ) -> Result<Option<T>, Unread> {
        let refused = |why: &str| Err(Unread::new(below, clean(why)));
        let mut path = PathBuf::from(below);
        for _ in 0..LINKS {
            match act(&path) {
                Ok(value) => return Ok(Some(value)),
                Err(Refusal::Absent) if path.as_os_str() == below => return Ok(None),
                Err(Refusal::Absent) => return refused("a link to what is not in the root"),
                Err(Refusal::Other(why)) => return refused(&why),
                Err(Refusal::Denied) => return Err(self.denied(below)),
                Err(Refusal::Escapes) => match self.past_absolute_link(&path) {
                    Some(there) => path = there,
                    None => return refused("a link that leads out of the root"),
                },
            }
        }
        refused("links in a loop")
    }

    /// The path with its first absolute link replaced by the target, relative to the root.
    fn past_absolute_link(&self, path: &Path) -> Option<PathBuf> {
        let mut so_far = PathBuf::new();
        let mut parts = path.components();
        while let Some(part) = parts.next() {
            so_far.push(part);
            let Ok(target) = self.top.read_link_contents(&so_far) else { continue };
            if target.is_absolute() {
                let below = target.components().filter(|part| matches!(part, Component::Normal(_)));
                // `..` after a link may lead elsewhere than the text suggests, so such links are not followed.
                if target.components().any(|part| part == Component::ParentDir) {
                    return None;
                }
                // Joined part by part: joining an empty path would append a slash.
                return Some(below.chain(parts).collect());
            }
        }
        None
    }
}

/// Why a path was not opened.
enum Refusal {
    Absent,
    /// The path leads out, as far as can be determined without following absolute links.
    Escapes,
    Denied,
    Other(String),
}

impl Refusal {
    fn of(error: io::Error) -> Refusal {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _) => Refusal::Absent,
            // `cap-std` returns this, without an error number, for a path that leads out.
            (io::ErrorKind::PermissionDenied, None) | (_, Some(libc::EXDEV)) => Refusal::Escapes,
            (io::ErrorKind::PermissionDenied, _) => Refusal::Denied,
            (_, Some(libc::ELOOP)) => Refusal::Other("links in a loop".to_owned()),
            _ => Refusal::Other(error.to_string()),
        }
    }
}

fn refuse_other_kinds(kind: FileType) -> Result<(), Refusal> {
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "something else",
    };
    Err(Refusal::Other(format!("{what}, not a file")))
}

/// The only folder of a directory that contains nothing of a machine's root.
fn only_folder(top: &Dir) -> Option<Dir> {
    let mut folder = None;
    for entry in top.entries().ok()?.take(NAMES) {
        let entry = entry.ok()?;
        let name = entry.file_name();
        if name.to_str().is_some_and(is_of_machine) {
            return None;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && folder.replace(entry).is_some() {
            return None;
        }
    }
    folder?.open_dir().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::collect::tests::root;

    fn text(directory: &Directory, below: &str) -> Result<Option<String>, String> {
        let file = directory.file(below).map_err(|unread| unread.why)?;
        Ok(file.map(|file| io::read_to_string(file).unwrap()))
    }

    #[test]
    fn a_folder_around_the_root_is_entered() {
        let version = "unpacked/sosreport-box/proc/version";
        let folder = root(&[("unpacked/README", ""), (version, "Linux")]);
        let directory = Directory::open(folder.path()).unwrap();
        assert_eq!(text(&directory, "proc/version"), Ok(Some("Linux".to_owned())));
        // Two folders may be two machines, or none.
        fs::create_dir(folder.path().join("unpacked/other")).unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        assert_eq!(text(&directory, "proc/version"), Ok(None));
    }

    #[test]
    fn a_link_is_no_folder_to_enter() {
        let (folder, outside) = (root(&[]), root(&[("proc/version", "secret")]));
        symlink(outside.path(), folder.path().join("box")).unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        assert_eq!(text(&directory, "proc/version"), Ok(None));
    }

    #[test]
    fn names_are_sorted_and_those_of_no_folder_are_none() {
        let folder = root(&[("proc/b", ""), ("proc/a", "")]);
        let directory = Directory::open(folder.path()).unwrap();
        assert_eq!(directory.names("proc"), ["a", "b"]);
        assert_eq!(directory.names("proc/a"), [""; 0]);
        assert_eq!(directory.names("none"), [""; 0]);
    }
}
