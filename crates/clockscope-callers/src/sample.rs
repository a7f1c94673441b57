//! What the kernel copies of a thread that makes a call.

use std::path::PathBuf;

pub use super::arch::registers::{FP, GENERAL, SP};
pub use clockscope_model::callers::Called;

/// The registers of a frame, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Where it goes on; in a sample of a vDSO call the address in the shim where it was taken.
    pub ip: u64,
    /// The general registers, as DWARF numbers them. In a sample of a vDSO call they are those of a function's first
    /// instruction.
    pub general: [Option<u64>; GENERAL],
}

impl Registers {
    /// Those of a caller of which no more is known.
    pub(crate) fn of_frame(ip: u64, sp: u64, fp: u64) -> Self {
        let mut registers = Self { ip, ..Self::default() };
        registers.general[SP] = Some(sp);
        registers.general[FP] = Some(fp);
        registers
    }

    /// The stack pointer; 0 if it is not known.
    pub fn sp(&self) -> u64 {
        self.general[SP].unwrap_or(0)
    }
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What is called.
    pub called: Called,
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub time_ns: u64,
    /// What it stands for, in proportion to the other samples of the same call (of calls of the
    /// vDSO their number); 0 if it is only there as the second of a pair.
    pub weight: u64,
    /// Ticks since the sampled call of the same thread just before, if this is the next one.
    pub after_ticks: Option<u64>,
    /// The registers.
    pub registers: Registers,
    /// The stack from the stack pointer on.
    pub stack: Vec<u8>,
    /// Return addresses that the kernel found by the frame pointers, the innermost first.
    pub frame_pointers: Vec<u64>,
}

/// Part of a process's memory that can be executed.
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
    /// Device and inode number; zero for what is no file.
    pub inode: (u64, u64),
}

/// What happens to the memory of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryEvent {
    /// A process is seen for the first time, or executed a program: what it has mapped is all.
    Begun {
        /// Process id.
        pid: i32,
        /// Its mappings.
        mappings: Vec<Mapping>,
    },
    /// Something was mapped.
    Mapped {
        /// Process id.
        pid: i32,
        /// What.
        mapping: Mapping,
    },
    /// clockscope's image lies in a process, or will when it is made executable.
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
        /// That of the parent.
        parent: i32,
    },
    /// A process has ended.
    Ended {
        /// Process id.
        pid: i32,
    },
}
