//! The kernel's copy of a thread that makes a call.

use std::path::PathBuf;

pub use super::arch::registers::{FP, GENERAL, SP};
pub use clockscope_model::callers::Called;

/// The registers of a frame, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Address where the frame goes on; in a sample of a vDSO call the address in the shim where
    /// the sample was taken.
    pub ip: u64,
    /// The general registers by DWARF number. In a sample of a vDSO call they have their values
    /// from the function's first instruction.
    pub general: [Option<u64>; GENERAL],
}

impl Registers {
    /// A caller's registers if only these three are known.
    pub(crate) fn of_frame(ip: u64, sp: u64, fp: u64) -> Self {
        let mut registers = Self { ip, ..Self::default() };
        registers.general[SP] = Some(sp);
        registers.general[FP] = Some(fp);
        registers
    }

    /// The stack pointer; 0 if unknown.
    pub fn sp(&self) -> u64 {
        self.general[SP].unwrap_or(0)
    }
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The called clock function.
    pub called: Called,
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub time_ns: u64,
    /// Weight in proportion to the other samples of the same call (for vDSO calls the number of
    /// calls); 0 if the sample is only the second of a pair.
    pub weight: u64,
    /// Ticks since the thread's previous sampled call, if this is the next call after it.
    pub after_ticks: Option<u64>,
    /// The registers.
    pub registers: Registers,
    /// The stack from the stack pointer on.
    pub stack: Vec<u8>,
    /// Return addresses that the kernel found by following frame pointers, the innermost first.
    pub frame_pointers: Vec<u64>,
}

/// An executable part of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// As in `/proc/PID/maps`: a path, `[vdso]`, `//anon`, or empty.
    pub name: PathBuf,
    /// Device and inode number; zero if there is no file.
    pub inode: (u64, u64),
}

/// A change to the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryEvent {
    /// A process is seen for the first time, or executed a program: these are all of its mappings.
    Begun {
        /// Process id.
        pid: i32,
        /// Its mappings.
        mappings: Vec<Mapping>,
    },
    /// A part of memory was mapped.
    Mapped {
        /// Process id.
        pid: i32,
        /// The new mapping.
        mapping: Mapping,
    },
    /// clockscope's image lies in a process, or will lie there once it is made executable.
    Image {
        /// Process id.
        pid: i32,
        /// Its address.
        at: u64,
    },
    /// A process has a copy of its parent's memory.
    Forked {
        /// Process id.
        pid: i32,
        /// Process id of the parent.
        parent: i32,
    },
    /// A process has ended.
    Ended {
        /// Process id.
        pid: i32,
    },
}
