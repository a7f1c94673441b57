//! Writes a file as a whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use clockscope_sys::access::folder;
use clockscope_text::foreign::printable_lines;

/// Replaces a file by a new one; a concurrent reader sees either the old bytes or the new ones. The new file
/// keeps the mode and, if permitted, the owner and group of the old one. Without an old file, the mode is
/// 0644 less the umask.
///
/// A path that is no regular file, or is below `/dev` (but not `/dev/shm`) or `/proc`, such as `/dev/stdout`,
/// is written in place. A link stays, and its target is replaced. A dangling link is itself replaced: another
/// user may have made it to let root create a file where that user cannot. A file in a folder without write
/// permission is written in place.
///
/// # Errors
///
/// When the file cannot be written; no temporary file is left behind.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Prepared::new(path)?.write(bytes)
}

/// Replaces a file by text that is harmless on a terminal.
///
/// # Errors
///
/// When the file cannot be written; the error has a remedy.
pub(crate) fn replace_text(path: &Path, text: &str) -> anyhow::Result<()> {
    replace(path, printable_lines(text).as_bytes())
        .with_context(|| format!("cannot write to {}; try -o elsewhere", path.display()))
}

/// A file that will be written as a whole, checked to be writable before the work on its content starts.
/// Until then it is unchanged.
#[derive(Debug)]
pub(crate) struct Prepared {
    target: PathBuf,
    /// Open file for paths that are written in place instead of being replaced.
    in_place: Option<File>,
}

impl Prepared {
    /// Checks whether the file can be written.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        let open = || OpenOptions::new().write(true).open(path);
        let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
        let is_stream = is_device || path.starts_with("/proc");
        if is_stream || fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
            return Ok(Self { in_place: Some(open()?), target });
        }
        if target.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A file without a name cannot be left behind.
        let in_place = match tempfile::tempfile_in(folder(&target)) {
            Ok(_) if target.exists() => open().map(|_| None)?,
            Ok(_) => None,
            Err(error) => Some(open().map_err(|_| error)?),
        };
        Ok(Self { target, in_place })
    }

    /// Checks the file of an option, if there is one.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn of_option(path: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let prepared = |path: &Path| {
            Self::new(path).with_context(|| format!("cannot write to {}", path.display()))
        };
        path.map(prepared).transpose()
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; a file to be replaced is then unchanged.
    pub(crate) fn write(self, bytes: &[u8]) -> io::Result<()> {
        if let Some(mut file) = self.in_place {
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            return file.write_all(bytes);
        }
        let old = fs::metadata(&self.target).ok();
        let mode = old.as_ref().map_or(0o644, |old| old.permissions().mode() & 0o777);
        let mut file = tempfile::Builder::new()
            .prefix(".clockscope-")
            .suffix(".tmp")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder(&self.target))?;
        file.write_all(bytes)?;
        if let Some(old) = old {
            // The owner comes first, because changing it may clear bits of the mode. Without the right to
            // give a file away, the user keeps it.
            let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
            file.as_file().set_permissions(Permissions::from_mode(mode))?;
        }
        file.as_file().sync_all()?;
        file.persist(&self.target)?;
        Ok(())
    }

    /// Writes text that is harmless on a terminal.
    ///
    /// # Errors
    ///
    /// As those of [`Prepared::write()`]; the error has a remedy.
    pub(crate) fn write_text(self, text: &str) -> anyhow::Result<()> {
        let path = self.target.clone();
        self.write(printable_lines(text).as_bytes())
            .with_context(|| format!("cannot write to {}; try another file", path.display()))
    }

    /// Whether the path is a terminal, on which binary output is useless.
    pub(crate) fn is_terminal(&self) -> bool {
        self.in_place.as_ref().is_some_and(File::is_terminal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old and longer").unwrap();
        let before = fs::File::open(&path).unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(io::read_to_string(before).unwrap(), "old and longer");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o600, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_only_prepared_is_as_it_was_and_a_new_one_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "old").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        let prepared = [Prepared::new(&old).unwrap(), Prepared::new(&new).unwrap()];
        assert_eq!(fs::read(&old).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        prepared.into_iter().for_each(|file| file.write(b"written").unwrap());
        assert_eq!(
            (fs::read(&old).unwrap(), fs::read(&new).unwrap()),
            (b"written".into(), b"written".into())
        );
        assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_new_file_in_shared_memory_is_made() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("file");
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn the_file_of_another_user_stays_that_users() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        if fchown(File::open(&path).unwrap(), Some(65_534), Some(65_533)).is_err() {
            return skips::skip("only root can give a file away");
        }
        replace(&path, b"new").unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid()), (65_534, 65_533));
    }

    #[test]
    fn nothing_is_made_where_a_link_leads_that_names_nothing_and_one_to_itself_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let [link, nothing, ring] =
            ["link", "nothing", "ring"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(&nothing, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert!(!nothing.exists() && fs::symlink_metadata(&link).unwrap().is_file());
        std::os::unix::fs::symlink(&ring, &ring).unwrap();
        assert!(replace(&ring, b"new").is_err());
    }

    #[test]
    fn a_link_stays_and_a_device_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
        replace(Path::new("/dev/null"), b"bytes").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert!(replace(folder.path(), b"bytes").is_err());
        assert!(replace(&folder.path().join("none/file"), b"bytes").is_err());
    }
}
