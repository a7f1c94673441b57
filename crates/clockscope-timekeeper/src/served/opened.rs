//! The file of a page: a new one, or the one left by another timekeeper; locked and mapped.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use fastclock::page::{Page, SIZE};

use super::holder::lock_of;
use clockscope_sys::access::{self, folder};
use clockscope_sys::page_file::{self, Access};

/// A page that only this process writes.
#[derive(Debug)]
pub struct Opened {
    /// The page, mapped for writing.
    pub page: &'static Page,
    /// Why the existing page is replaced, if there was one.
    pub replaced: Option<String>,
    /// Locked while it is open.
    _lock: File,
}

impl Opened {
    /// Opens the page at `path`, or makes a new one.
    ///
    /// # Errors
    ///
    /// The reason why this process cannot write it, with the file's name.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = folder(path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)
            .with_context(|| format!("cannot make the directory {}", folder.display()))?;
        check_folder(folder)?;
        let lock = lock(path)?;
        let mut replaced = None;
        let page = match existing(path, &mut replaced)? {
            Some(page) => page,
            None => make(path).with_context(|| match &replaced {
                Some(why) => format!("{why}; cannot make the new page"),
                None => format!("cannot make the page {}", path.display()),
            })?,
        };
        Ok(Self { page, replaced, _lock: lock })
    }
}

/// Time that a timekeeper which was told to end may take to release the page.
const HANDOVER: Duration = Duration::from_secs(1);

/// Checks that only this user and root can replace the page's file. In a sticky directory such as /tmp another user can
/// only create the file first, which the check of the file detects.
fn check_folder(folder: &Path) -> Result<()> {
    if fs::symlink_metadata(folder).is_ok_and(|link| link.is_symlink() && !is_trusted(link.uid())) {
        bail!("the directory {} is a link of another user; choose another", folder.display());
    }
    let found = fs::metadata(folder)
        .with_context(|| format!("cannot look at the directory {}", folder.display()))?;
    let folder = folder.display();
    if !is_trusted(found.uid()) {
        bail!("the directory {folder} belongs to user {}; choose another", found.uid());
    }
    let is_sticky = found.mode() & libc::S_ISVTX != 0;
    if found.mode() & 0o022 != 0 && !is_sticky {
        bail!("others may write to the directory {folder}; choose another, or chmod go-w {folder}");
    }
    Ok(())
}

/// This user; and root, which can do everything anyway.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == access::effective_uid()
}

/// Checks that a file belongs to this user alone: no other user can truncate it, and it is not a hard link to another
/// file of ours.
fn check_file(found: &Metadata, name: &Path) -> Result<()> {
    let path = name.display();
    if !found.is_file() {
        bail!("{path} is not a regular file; remove it or choose another");
    }
    if !is_trusted(found.uid()) {
        bail!("{path} belongs to user {}; remove it or choose another", found.uid());
    }
    if found.nlink() != 1 {
        bail!("{path} has {} names; remove it or choose another", found.nlink());
    }
    Ok(())
}

/// The lock is a separate file that only its owner can open. Otherwise the page's readers could lock the page against
/// its writer.
fn lock(path: &Path) -> Result<File> {
    let name = lock_of(path);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(&name)
        .with_context(|| format!("cannot open the lock {}", name.display()))?;
    check_file(&file.metadata()?, &name)?;
    let start = Instant::now();
    let is_free =
        || page_file::lock(&file).with_context(|| format!("cannot lock {}", name.display()));
    while !is_free()? {
        if start.elapsed() < HANDOVER {
            std::thread::sleep(HANDOVER / 50);
            continue;
        }
        let mut holder = String::new();
        // Without its number the message is less specific.
        let _ = (&file).take(20).read_to_string(&mut holder);
        let holder = holder.trim();
        let process =
            if holder.is_empty() { String::new() } else { format!(" (process {holder})") };
        bail!("another timekeeper{process} writes {}", path.display());
    }
    // The number serves only the message above, which is less specific on a full file system.
    let _ = file.set_len(0).and_then(|()| file.rewind());
    let _ = writeln!(file, "{}", std::process::id());
    Ok(file)
}

/// The existing page, if it is of this version and boot; otherwise stores why it is replaced.
fn existing(path: &Path, replaced: &mut Option<String>) -> Result<Option<&'static Page>> {
    let mut refuse = |why: String| {
        *replaced = Some(format!("{}: {why}: it is replaced", path.display()));
        Ok(None)
    };
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            bail!("{} is a symbolic link; a page must be a regular file", path.display())
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot open the page {}", path.display()));
        }
    };
    let found = file.metadata()?;
    check_file(&found, path)?;
    if found.mode() & 0o022 != 0 {
        // A process that has opened it meanwhile can still truncate it.
        return refuse("others could write to the page".to_owned());
    }
    if found.len() != SIZE as u64 {
        return refuse(format!("the page has {} bytes instead of {SIZE}", found.len()));
    }
    page_file::reserve(&file).with_context(|| format!("no room for {}", path.display()))?;
    let page = page_file::map(&file, Access::Write)
        .with_context(|| format!("cannot map the page {}", path.display()))?;
    if let Err(reason) = page.check(fastclock::sys::boot_id().unwrap_or_default()) {
        return refuse(reason.to_string());
    }
    if found.permissions().mode() & 0o777 != 0o644 {
        file.set_permissions(Permissions::from_mode(0o644))
            .with_context(|| format!("cannot make {} readable for all", path.display()))?;
    }
    Ok(Some(page))
}

/// Makes a new page, and renames it into its place when it is complete. Readers of an earlier page keep that one.
fn make(path: &Path) -> io::Result<&'static Page> {
    let file = tempfile::Builder::new()
        .prefix(".page-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder(path))?;
    // Independent of the umask: all users may read the page.
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.as_file().write_all_at(&[0; SIZE], 0)?;
    page_file::reserve(file.as_file())?;
    let page = page_file::map(file.as_file(), Access::Write)?;
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(ErrorKind::AlreadyExists.into());
    }
    file.persist(path)?;
    Ok(page)
}
