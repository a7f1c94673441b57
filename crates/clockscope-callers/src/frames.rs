//! Stack frames, before they have names.

pub use super::managed::ManagedId;

/// A file with code, or an image that clockscope knows; numbered in the order of first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(pub(super) usize);

/// A program's lifetime in a process: code made at run time is known only within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(pub(super) usize);

/// The place of a frame's code: the same code has the same value in every process that maps the
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameAddress {
    /// In a file.
    Code {
        /// The file.
        module: ModuleId,
        /// Address in the file (as `addr2line` takes it), within the instruction that calls.
        at: u64,
    },
    /// In memory that no file fills: code made at run time.
    RunTime {
        /// The program.
        program: ProgramId,
        /// Address in the program's memory, within the instruction that calls.
        at: u64,
    },
    /// A function that a runtime executes, from the runtime's own tables.
    Managed(ManagedId),
    /// No mapping is known at the address.
    Unknown {
        /// Address in the memory of its process.
        at: u64,
    },
}

/// The reason why a stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The stack ends with the first function of its thread.
    Complete,
    /// The kernel copied only the top of the stack.
    StackTooShort,
    /// The thread was on another stack (of a signal, of a goroutine), which was not copied.
    OtherStack,
    /// The code has no unwind information.
    NoInformation(ModuleId),
    /// The unwind information is damaged, or no compiler writes this kind.
    Damaged(ModuleId),
    /// The file of the code could not be read.
    Unreadable(ModuleId),
    /// Code made at run time that keeps no frame pointers.
    RunTimeCode,
    /// A return address where no code is mapped.
    NotMapped,
    /// The process is not known.
    UnknownProcess,
}

impl End {
    /// Whether the stack reaches the thread's first function.
    pub fn is_complete(self) -> bool {
        self == Self::Complete
    }

    /// The reason as a clause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Complete => "first function of the thread",
            Self::StackTooShort => "the stack is larger than what is copied of it",
            Self::OtherStack => "goes on on another stack, which is not copied",
            Self::NoInformation(_) => "code without unwind information",
            Self::Damaged(_) => "damaged unwind information",
            Self::Unreadable(_) => "the file could not be read",
            Self::RunTimeCode => "code made at run time, without unwind information",
            Self::NotMapped => "a return address where no code is mapped",
            Self::UnknownProcess => "a process whose memory is not known",
        }
    }

    /// The file whose code is the reason.
    pub fn module(self) -> Option<ModuleId> {
        match self {
            Self::NoInformation(module) | Self::Damaged(module) | Self::Unreadable(module) => {
                Some(module)
            }
            _ => None,
        }
    }
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwound {
    /// The function that calls first, the thread's first function last.
    pub frames: Vec<FrameAddress>,
    /// The reason why the stack ends there.
    pub end: End,
}
