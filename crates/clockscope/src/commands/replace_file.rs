//! Writes a file at once or not at all.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Replaces a file by a new one, so that whoever reads it meanwhile sees the old bytes or the new
/// ones. The mode is 0644 less the umask. What is no regular file, such as `/dev/stdout`, is written
/// to; a link stays, and what it names is replaced.
///
/// # Errors
///
/// Where it cannot be written; nothing is left behind then.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        return OpenOptions::new().write(true).open(&target)?.write_all(bytes);
    }
    let folder = target.parent().filter(|folder| *folder != Path::new(""));
    let mut file = tempfile::Builder::new()
        .prefix(".clockscope-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&target)?;
    Ok(())
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
