//! The system calls that can be measured, in a table with one row for each call.
//!
//! To add a call, add a row to [`TABLE`] and a function that prepares the call and wraps it in a closure. The closure
//! makes the call by the instruction itself and gives the kernel's result.

use std::fs::File;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use rustix::event::epoll::CreateFlags;

use super::loops::Loop;
use super::raw_syscall::{self, argument};

/// Size of the file that `read` reads, in bytes; a power of two.
const FILE_BYTES: usize = 1 << 20;
/// A number without a system call on every architecture (on x86-64 they end at 547, Linux 6.18).
const NO_SUCH_CALL: libc::c_long = 65_535;
const PAGE: usize = 4096;

/// A row of the table.
#[derive(Debug)]
pub struct SystemCall {
    /// Its name on the command line and in JSON.
    pub name: &'static str,
    /// The error that the call must give; `None` if it must succeed.
    pub expected_error: Option<i32>,
    /// The call is made by the C library's function, not by the instruction in the loop itself.
    pub by_libc: bool,
    /// Opens and allocates the resources of the call; gives the errors of doing so.
    pub prepare: fn() -> io::Result<PreparedCall>,
}

/// A system call, ready to be made.
pub struct PreparedCall {
    /// The loop around it.
    pub calling: Loop,
    /// The call by itself.
    pub once: Once,
}

/// One call, with the kernel's answer.
pub struct Once(Box<dyn Fn() -> isize + Send + Sync>);

const fn row(name: &'static str, prepare: fn() -> io::Result<PreparedCall>) -> SystemCall {
    SystemCall { name, expected_error: None, by_libc: false, prepare }
}

/// Every system call that can be measured, in the order of the report.
pub static TABLE: [SystemCall; 15] = [
    row("getppid", bare::<{ libc::SYS_getppid }>),
    // As perf bench calls it.
    SystemCall { by_libc: true, ..row("getppid-libc", getppid_by_libc) },
    row("getpid", bare::<{ libc::SYS_getpid }>),
    row("read", read),
    row("read-zero", read_zero),
    row("write", write),
    row("lseek", lseek),
    row("fstat", fstat),
    row("open+close", open_and_close),
    row("mmap+munmap", mmap_and_munmap),
    row("clock_gettime", clock_gettime),
    SystemCall { expected_error: Some(libc::ENOSYS), ..row("enosys", bare::<NO_SUCH_CALL>) },
    row("futex-wake", futex_wake),
    row("epoll_wait", epoll_wait),
    row("sched_yield", bare::<{ libc::SYS_sched_yield }>),
];

impl SystemCall {
    /// Makes the call once and checks the result.
    ///
    /// # Errors
    ///
    /// The kernel's result, if it is not the one in the table.
    pub fn try_once(&self, once: &Once) -> io::Result<()> {
        self.judge((once.0)())
    }

    fn judge(&self, answer: isize) -> io::Result<()> {
        let error = i32::try_from(answer).ok().filter(|a| (-4095..0).contains(a)).map(|a| -a);
        match error {
            error if error == self.expected_error => Ok(()),
            Some(number) => Err(io::Error::from_raw_os_error(number)),
            None => Err(io::Error::other("it succeeded, which it cannot")),
        }
    }
}

impl PreparedCall {
    fn of(call: impl Fn() -> isize + Send + Sync + Clone + 'static) -> Self {
        let again = call.clone();
        let calling = Loop::around(move || {
            again();
        });
        Self { calling, once: Once(Box::new(call)) }
    }
}

/// A file descriptor, open as long as a copy of this value exists.
#[derive(Clone, Debug)]
struct Shared {
    number: RawFd,
    _open: Arc<OwnedFd>,
}

impl Shared {
    fn new(file: impl Into<OwnedFd>) -> Self {
        let open: OwnedFd = file.into();
        Self { number: open.as_raw_fd(), _open: Arc::new(open) }
    }

    fn argument(&self) -> usize {
        argument(self.number)
    }
}

/// A file of [`FILE_BYTES`] in the directory of temporary files, without a name.
fn file() -> io::Result<Shared> {
    let folder = std::env::temp_dir();
    let filled = tempfile::tempfile_in(&folder).and_then(|mut file| {
        file.write_all(&vec![b'x'; FILE_BYTES])?;
        Ok(Shared::new(file))
    });
    filled.map_err(|error| {
        let text = format!("a file in {} cannot be made: {error}", folder.display());
        io::Error::new(error.kind(), text)
    })
}

/// `NUMBER` is that of a call without arguments.
fn bare<const NUMBER: libc::c_long>() -> io::Result<PreparedCall> {
    // SAFETY: the calls in the table with this function take and change nothing, or do not exist.
    Ok(PreparedCall::of(|| unsafe { raw_syscall::none(NUMBER) }))
}

fn getppid_by_libc() -> io::Result<PreparedCall> {
    // SAFETY: takes and changes nothing.
    Ok(PreparedCall::of(|| unsafe { libc::getppid() } as isize))
}

/// Reads one byte at the position of `from`.
fn read_of(from: Shared) -> impl Fn() -> isize + Send + Sync + Clone + 'static {
    move || {
        let mut byte = 0_u8;
        let into = (&raw mut byte).expose_provenance();
        // SAFETY: the pointer is to one byte of a local.
        unsafe { raw_syscall::three(libc::SYS_read, from.argument(), into, 1) }
    }
}

/// At the end of the file a read gives no byte and costs less. So the loop goes back to the start before its first
/// read, and again after as many reads as the file has bytes: one `lseek` in a batch.
fn read() -> io::Result<PreparedCall> {
    let file = file()?;
    let start = file.clone();
    let rewind = move || {
        let whence = argument(libc::SEEK_SET);
        // SAFETY: takes numbers.
        unsafe { raw_syscall::three(libc::SYS_lseek, start.argument(), 0, whence) };
    };
    let once = read_of(file);
    let (again, before) = (once.clone(), rewind.clone());
    let call = move || {
        again();
    };
    let calling = Loop::in_stretches(FILE_BYTES as u64, before, call);
    let rewound = move || {
        rewind();
        once()
    };
    Ok(PreparedCall { calling, once: Once(Box::new(rewound)) })
}

fn read_zero() -> io::Result<PreparedCall> {
    Ok(PreparedCall::of(read_of(Shared::new(File::open("/dev/zero")?))))
}

fn write() -> io::Result<PreparedCall> {
    let null = Shared::new(File::options().write(true).open("/dev/null")?);
    Ok(PreparedCall::of(move || {
        let byte = b'x';
        let from = (&raw const byte).expose_provenance();
        // SAFETY: the pointer is to one byte of a local.
        unsafe { raw_syscall::three(libc::SYS_write, null.argument(), from, 1) }
    }))
}

fn lseek() -> io::Result<PreparedCall> {
    let file = file()?;
    let whence = argument(libc::SEEK_CUR);
    // SAFETY: takes numbers.
    Ok(PreparedCall::of(move || unsafe {
        raw_syscall::three(libc::SYS_lseek, file.argument(), 0, whence)
    }))
}

fn fstat() -> io::Result<PreparedCall> {
    let file = file()?;
    Ok(PreparedCall::of(move || {
        let mut stat = MaybeUninit::<libc::stat>::uninit();
        let into = stat.as_mut_ptr().expose_provenance();
        // SAFETY: the pointer is to a local of the type that the call fills in.
        unsafe { raw_syscall::two(libc::SYS_fstat, file.argument(), into) }
    }))
}

fn open_and_close() -> io::Result<PreparedCall> {
    let here = argument(libc::AT_FDCWD);
    let flags = argument(libc::O_RDONLY | libc::O_CLOEXEC);
    Ok(PreparedCall::of(move || {
        let path = c"/dev/null".as_ptr().expose_provenance();
        // SAFETY: the path is a literal; the descriptor that is closed is the one just opened, or
        // an error number, which no descriptor has.
        unsafe {
            let opened = raw_syscall::three(libc::SYS_openat, here, path, flags);
            let closed = raw_syscall::one(libc::SYS_close, opened.cast_unsigned());
            if opened < 0 { opened } else { closed }
        }
    }))
}

fn mmap_and_munmap() -> io::Result<PreparedCall> {
    let access = argument(libc::PROT_READ | libc::PROT_WRITE);
    let flags = argument(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    Ok(PreparedCall::of(move || {
        // SAFETY: the mapping is new and has no other user; an error number is not the address of a page, and is
        // refused.
        unsafe {
            let mapped = raw_syscall::six(libc::SYS_mmap, 0, PAGE, access, flags, argument(-1), 0);
            let unmapped = raw_syscall::two(libc::SYS_munmap, mapped.cast_unsigned(), PAGE);
            if (-4095..0).contains(&mapped) { mapped } else { unmapped }
        }
    }))
}

fn clock_gettime() -> io::Result<PreparedCall> {
    let clock = argument(libc::CLOCK_MONOTONIC);
    Ok(PreparedCall::of(move || {
        let mut time = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: the pointer is to a local of the type that the call fills in.
        unsafe {
            raw_syscall::two(libc::SYS_clock_gettime, clock, time.as_mut_ptr().expose_provenance())
        }
    }))
}

fn futex_wake() -> io::Result<PreparedCall> {
    let word = Arc::new(AtomicU32::new(0));
    let wake = argument(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG);
    Ok(PreparedCall::of(move || {
        // SAFETY: the address is that of a word that lives as long as this closure.
        unsafe { raw_syscall::three(libc::SYS_futex, word.as_ptr().expose_provenance(), wake, 1) }
    }))
}

fn epoll_wait() -> io::Result<PreparedCall> {
    let set = Shared::new(rustix::event::epoll::create(CreateFlags::CLOEXEC)?);
    Ok(PreparedCall::of(move || {
        let mut event = MaybeUninit::<libc::epoll_event>::uninit();
        let events = event.as_mut_ptr().expose_provenance();
        // `epoll_pwait` without a mask is `epoll_wait`, which newer architectures do not have.
        // SAFETY: there is room for the one event that is asked for.
        unsafe { raw_syscall::six(libc::SYS_epoll_pwait, set.argument(), events, 1, 0, 0, 0) }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vdso_call::{FENCED, forbid};

    fn of(name: &str) -> &'static SystemCall {
        TABLE.iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn every_call_of_the_table_gives_the_answer_that_it_should_here() {
        for row in &TABLE {
            let prepared = (row.prepare)().unwrap_or_else(|error| panic!("{}: {error}", row.name));
            row.try_once(&prepared.once).unwrap_or_else(|error| panic!("{}: {error}", row.name));
            prepared.calling.run(3);
            row.try_once(&prepared.once).unwrap_or_else(|error| panic!("{}: {error}", row.name));
        }
    }

    #[test]
    fn a_call_that_a_filter_forbids_is_refused_and_the_others_are_not() {
        let tried = std::thread::spawn(|| {
            assert!(forbid(&[libc::SYS_lseek]));
            ["lseek", "getppid"].map(|name| {
                let row = of(name);
                row.try_once(&(row.prepare)().unwrap().once).map_err(|error| error.raw_os_error())
            })
        });
        assert_eq!(tried.join().unwrap(), [Err(Some(FENCED)), Ok(())]);
    }

    #[test]
    fn names_are_given_once() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..index].iter().all(|other| other.name != row.name), "{}", row.name);
        }
    }

    #[test]
    fn an_answer_is_judged_by_what_the_table_expects() {
        let (read, enosys) = (of("read"), of("enosys"));
        assert!(read.judge(0).is_ok() && read.judge(1).is_ok());
        let eperm = isize::try_from(-libc::EPERM).unwrap();
        assert_eq!(read.judge(eperm).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(enosys.judge(isize::try_from(-libc::ENOSYS).unwrap()).is_ok());
        assert_eq!(enosys.judge(eperm).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(enosys.judge(0).is_err());
        assert!(read.judge(0x7f00_0000_0000).is_ok(), "an address is no error");
        assert!(read.judge(-5000).is_ok(), "error numbers end at 4095");
    }

    /// A loop of 1,000,000 reads of one byte: each of them gives a byte, also those after as many reads as the file has
    /// bytes.
    #[test]
    fn the_read_loop_never_stands_at_the_end_of_the_file() {
        let file = file().unwrap();
        let position = |file: &Shared| {
            // SAFETY: takes numbers.
            unsafe {
                raw_syscall::three(libc::SYS_lseek, file.argument(), 0, argument(libc::SEEK_CUR))
            }
        };
        assert_eq!(position(&file).cast_unsigned(), FILE_BYTES);
        assert_eq!(read_of(file.clone())(), 0, "at the end nothing is read");
        let prepared = read().unwrap();
        prepared.calling.run(FILE_BYTES as u64 + 5);
        assert_eq!((prepared.once.0)(), 1);
    }
}
