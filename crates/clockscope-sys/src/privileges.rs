//! Becoming another user for good.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::check;

/// A user and the group that comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The number of the user.
    pub uid: u32,
    /// Number of its group.
    pub gid: u32,
}

/// Finds a user by name or by number; the group of a number without a name is the same number.
///
/// # Errors
///
/// `NotFound` if there is none of this name; otherwise those of `getpwnam_r(3)`.
pub fn user(name: &str) -> io::Result<User> {
    let not_found = || io::Error::new(io::ErrorKind::NotFound, "there is no such user");
    let text = CString::new(name).map_err(|_| not_found())?;
    let mut entry = MaybeUninit::<libc::passwd>::zeroed();
    let mut found = ptr::null_mut();
    let mut strings = vec![0; 64 << 10];
    // SAFETY: the name ends in a zero byte, and the pointers and the size are those of locals.
    let error = unsafe {
        let (into, room) = (entry.as_mut_ptr(), strings.as_mut_ptr());
        libc::getpwnam_r(text.as_ptr(), into, room, strings.len(), &raw mut found)
    };
    if !found.is_null() {
        // SAFETY: filled in by the call, and valid when zeroed.
        let entry = unsafe { entry.assume_init() };
        return Ok(User { uid: entry.pw_uid, gid: entry.pw_gid });
    }
    if let Ok(number) = name.parse() {
        return Ok(User { uid: number, gid: number });
    }
    // Some C libraries report in these ways that there is no such user.
    let is_absent = [0, libc::ENOENT, libc::ESRCH, libc::EBADF, libc::EPERM].contains(&error);
    Err(if is_absent { not_found() } else { io::Error::from_raw_os_error(error) })
}

/// Makes this process that user for good, without other groups and without capabilities. The process must have one
/// thread only.
///
/// # Errors
///
/// `EPERM` without root; then nothing has changed.
pub fn become_user(user: User) -> io::Result<()> {
    // SAFETY: an empty list, and numbers. The order matters: the user goes last.
    unsafe {
        check(libc::setgroups(0, ptr::null()))?;
        check(libc::setresgid(user.gid, user.gid, user.gid))?;
        check(libc::setresuid(user.uid, user.uid, user.uid)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        assert_eq!(user("root").unwrap(), User { uid: 0, gid: 0 });
        assert_eq!(user("4000000000").unwrap(), User { uid: 4_000_000_000, gid: 4_000_000_000 });
        for nobody in ["no such user", "", "-1", "a\0b"] {
            assert_eq!(user(nobody).unwrap_err().kind(), io::ErrorKind::NotFound, "{nobody:?}");
        }
    }
}
