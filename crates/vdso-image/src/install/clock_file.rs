//! Attaches the clock page: a System V segment if only root can write it, otherwise a memory file that only its creator
//! can write, however the file is opened (`F_SEAL_FUTURE_WRITE`).
//!
//! The file is opened through `/proc/KEEPER/fd`. In another PID namespace that number may belong to another process, so
//! the file is used only if its inode is the one that the tracer has named.

use core::mem::MaybeUninit;

use super::{
    Failure, PROT_READ, SHM_RDONLY, SHM_REMAP, SYS_MMAP, SYS_SHMAT, check, failed, syscall,
    syscall_5,
};
use crate::arch::syscall::{SYS_CLOSE, SYS_FSTAT, open};
use crate::layout::{CLOCK_OFFSET, InstallStep, LaunchParams, PAGE};
use crate::slots::session;

/// `O_RDONLY | O_CLOEXEC`.
const O_CLOEXEC: usize = 0o2_000_000;
const MAP_SHARED_FIXED: usize = 0x01 | 0x10;
const ESTALE: usize = 116;

/// Attaches the clock page, if the session has one.
pub(crate) fn map_clock(base: usize, params: &LaunchParams) -> Result<(), Failure> {
    if session().clock == 0 {
        return Ok(());
    }
    let at = base + CLOCK_OFFSET;
    let (keeper, number) = (params.clock >> 32, params.clock & 0xffff_ffff);
    let mapped = if keeper == 0 {
        syscall(SYS_SHMAT, number as usize, at, SHM_REMAP | SHM_RDONLY, 0)
    } else {
        map_file(at, keeper, number, params.clock_inode)
    };
    check(InstallStep::AttachClock, mapped)
}

/// Maps the page of the file behind one of the keeper's file descriptors. Returns an error number on failure.
fn map_file(at: usize, keeper: u64, number: u64, inode: u64) -> usize {
    let path = Path::of(keeper, number);
    let file = open(path.address(), O_CLOEXEC);
    if failed(file) {
        return file;
    }
    // `struct stat`. The buffer is not zeroed, because the compiler would call a library for it.
    let mut stat = MaybeUninit::<[u64; 18]>::uninit();
    let told = syscall(SYS_FSTAT, file, stat.as_mut_ptr() as usize, 0, 0);
    // SAFETY: the inode number is the second word, which the kernel has written unless the call failed.
    let is_other = || unsafe { stat.as_ptr().cast::<u64>().add(1).read() } != inode;
    let mapped = if failed(told) || is_other() {
        ESTALE.wrapping_neg()
    } else {
        // The sixth argument, `INSTALL_MARK`, is the offset in the file.
        syscall_5(SYS_MMAP, at, PAGE, PROT_READ, MAP_SHARED_FIXED, file)
    };
    syscall(SYS_CLOSE, file, 0, 0, 0);
    mapped
}

/// `/proc/KEEPER/fd/NUMBER`, written from its end.
struct Path {
    bytes: [MaybeUninit<u8>; 40],
    start: usize,
}

impl Path {
    fn of(keeper: u64, number: u64) -> Self {
        let mut path = Self { bytes: [const { MaybeUninit::uninit() }; 40], start: 40 };
        path.put(0);
        path.number(number);
        path.text(b"/fd/");
        path.number(keeper);
        path.text(b"/proc/");
        path
    }

    fn put(&mut self, byte: u8) {
        // The buffer is large enough: both numbers have at most ten digits.
        if let Some(start) = self.start.checked_sub(1)
            && let Some(place) = self.bytes.get_mut(start)
        {
            place.write(byte);
            self.start = start;
        }
    }

    fn text(&mut self, text: &[u8]) {
        for byte in text.iter().rev() {
            self.put(*byte);
        }
    }

    fn number(&mut self, mut number: u64) {
        loop {
            self.put(b'0' + (number % 10) as u8);
            number /= 10;
            if number == 0 {
                return;
            }
        }
    }

    fn address(&self) -> usize {
        &raw const self.bytes as usize + self.start
    }
}
