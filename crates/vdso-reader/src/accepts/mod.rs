//! What each known reader of a vDSO makes of an image.
//!
//! A reader that dislikes an image does not say so: it goes on without it, and every clock read
//! becomes a system call; some crash at start. Each check here follows the reader's own source and
//! really looks up every function, through the tables which that reader uses.
//!
//! A function that the image does not export at all is no reason, except `clock_gettime`: kernels
//! differ in the others, and readers fall back to the system call.

mod readers;
mod reason;
mod tables;
mod unwind;

use std::fmt;

pub use reason::{Reason, Table};

use super::{Image, Machine};

/// A program or library that reads vDSO images in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reader {
    /// The GNU C library: `elf/setup-vdso.h`, `elf/dl-lookup.c`, `dl-vdso-setup.h`.
    Glibc,
    /// musl: `src/internal/vdso.c` up to 1.2.5, which needs `DT_HASH`.
    Musl,
    /// The runtime of Go programs: `runtime/vdso_linux.go`.
    Go,
    /// Rust programs with rustix's own system calls: `backend/linux_raw/vdso.rs`, `param/auxv.rs`.
    Rustix,
    /// The kernel's reference parser since 6.12, which many have copied:
    /// `tools/testing/selftests/vDSO/parse_vdso.c`.
    Kernel,
    /// The same as many have copied it before 6.12: functions by `DT_HASH` only.
    KernelOld,
    /// Abseil, and with it Chromium and gRPC: `debugging/internal/elf_mem_image.cc`.
    Abseil,
    /// The run-time library of AddressSanitizer: `asan_linux.cpp`.
    Asan,
    /// The debugger gdb, which reads the image from the memory of the program.
    Gdb,
    /// Unwinders that find frames by `PT_GNU_EH_FRAME`: libgcc, libunwind, perf, framehop.
    Unwinders,
}

/// What a reader makes of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderVerdict {
    /// Who reads the image.
    pub reader: Reader,
    /// What the reader makes of it.
    pub outcome: ReaderOutcome,
}

/// Whether a reader accepts an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReaderOutcome {
    /// It finds everything it looks for.
    Accepts,
    /// It goes on without the image or without some function, or crashes.
    Rejects(Vec<Reason>),
    /// It is not known what this reader looks for on this machine.
    NotJudged,
}

impl ReaderVerdict {
    /// Whether the reader finds everything it looks for.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.outcome == ReaderOutcome::Accepts
    }

    /// Why the reader rejects the image; empty if it does not.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        match &self.outcome {
            ReaderOutcome::Rejects(reasons) => reasons,
            ReaderOutcome::Accepts | ReaderOutcome::NotJudged => &[],
        }
    }
}

impl Reader {
    /// Every reader that is known, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::Glibc,
        Self::Musl,
        Self::Go,
        Self::Rustix,
        Self::Kernel,
        Self::KernelOld,
        Self::Abseil,
        Self::Asan,
        Self::Gdb,
        Self::Unwinders,
    ];

    /// Its name in lists and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// What it is, in words for people.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        self.words().1
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Glibc => ("glibc", "the GNU C library"),
            Self::Musl => ("musl", "musl libc to 1.2.5"),
            Self::Go => ("go", "Go's runtime"),
            Self::Rustix => ("rustix", "Rust programs on rustix"),
            Self::Kernel => ("parse_vdso", "the kernel's reference parser"),
            Self::KernelOld => ("parse_vdso-6.11", "the same before Linux 6.12, and its copies"),
            Self::Abseil => ("abseil", "Abseil, Chromium, gRPC"),
            Self::Asan => ("asan", "AddressSanitizer"),
            Self::Gdb => ("gdb", "the debugger, from memory"),
            Self::Unwinders => ("unwinders", "libgcc, libunwind, perf"),
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What every known reader makes of this image.
#[must_use]
pub fn check(image: &Image) -> Vec<ReaderVerdict> {
    Reader::ALL.into_iter().map(|reader| check_reader(image, reader)).collect()
}

/// What this reader makes of this image.
#[must_use]
pub(crate) fn check_reader(image: &Image, reader: Reader) -> ReaderVerdict {
    let outcome = match wants(reader, image.machine()) {
        None => ReaderOutcome::NotJudged,
        Some(wants) => match readers::reasons(image, reader, &wants) {
            reasons if reasons.is_empty() => ReaderOutcome::Accepts,
            reasons => ReaderOutcome::Rejects(reasons),
        },
    };
    ReaderVerdict { reader, outcome }
}

/// What a reader looks up on a machine.
struct Wants {
    /// The version of every function.
    version: &'static str,
    /// The functions it looks up, of which the first must exist.
    names: &'static [&'static str],
}

/// What this reader looks up on this machine, if that is known.
fn wants(reader: Reader, machine: Machine) -> Option<Wants> {
    let (version, names): (_, &'static [&'static str]) = match (machine, reader) {
        (Machine::X86_64, Reader::Musl | Reader::Rustix) => {
            ("LINUX_2.6", &["__vdso_clock_gettime", "__vdso_getcpu"])
        }
        (Machine::X86_64, Reader::Go) => {
            ("LINUX_2.6", &["__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_getrandom"])
        }
        (Machine::X86_64, Reader::Abseil) => ("LINUX_2.6", &["__vdso_getcpu"]),
        (Machine::X86_64, _) => ("LINUX_2.6", X86_64_NAMES),
        (Machine::Aarch64, Reader::Musl | Reader::Rustix) => {
            ("LINUX_2.6.39", &["__kernel_clock_gettime"])
        }
        (Machine::Aarch64, Reader::Go) => {
            ("LINUX_2.6.39", &["__kernel_clock_gettime", "__kernel_getrandom"])
        }
        (Machine::Aarch64, Reader::Abseil) => ("LINUX_2.6.39", &["__kernel_rt_sigreturn"]),
        (Machine::Aarch64, _) => ("LINUX_2.6.39", AARCH64_NAMES),
        (Machine::I386, Reader::Musl) => ("LINUX_2.6", &["__vdso_clock_gettime64"]),
        (Machine::I386, Reader::Go) => ("LINUX_2.6", &["__vdso_clock_gettime"]),
        (Machine::I386, Reader::Glibc | Reader::Kernel | Reader::KernelOld) => {
            ("LINUX_2.6", I386_NAMES)
        }
        // These do not look up functions by name.
        (_, Reader::Asan | Reader::Gdb | Reader::Unwinders) => ("", &[]),
        _ => return None,
    };
    Some(Wants { version, names })
}

const X86_64_NAMES: &[&str] = &[
    "__vdso_clock_gettime",
    "__vdso_gettimeofday",
    "__vdso_time",
    "__vdso_getcpu",
    "__vdso_clock_getres",
    "__vdso_getrandom",
];

const AARCH64_NAMES: &[&str] = &[
    "__kernel_clock_gettime",
    "__kernel_gettimeofday",
    "__kernel_clock_getres",
    "__kernel_getrandom",
];

const I386_NAMES: &[&str] = &[
    "__vdso_clock_gettime",
    "__vdso_clock_gettime64",
    "__vdso_gettimeofday",
    "__vdso_time",
    "__vdso_clock_getres",
];

#[cfg(test)]
mod tests;
