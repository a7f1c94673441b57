//! Callers, as data: the field `callers` of the JSON schema of `trace`.

use clockscope_text::foreign::Foreign;
use serde::{Deserialize, Serialize};

use crate::trace::{Via, null_is_no_number};

/// Sampled stacks of calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Callers {
    /// Stacks sampled.
    pub samples: u64,
    /// Samples that were lost because clockscope did not read them in time.
    pub lost: u64,
    /// Samples a second aimed at (`--freq`).
    pub freq: u32,
    /// The calls whose callers were sampled, most calls first.
    pub called: Vec<CalledRow>,
    /// Every distinct frame of the stacks.
    pub frames: Vec<FrameRow>,
    /// Every distinct stack, most calls first.
    pub stacks: Vec<StackRow>,
    /// Calls that follow one another in a thread, most first.
    pub pairs: Vec<PairRow>,
    /// Why stacks end before the first function of their thread, most samples first.
    pub cut: Vec<CutRow>,
    /// Processes whose stacks could not be sampled, and why.
    pub declines: Vec<crate::trace::DeclineRow>,
    /// Files without function names, and the package or file that would supply them: a sentence each, at most
    /// three.
    pub stripped: Vec<String>,
    /// Estimated cost of sampling as a share of the program's processor time; above 1 if sampling took longer
    /// than the program itself.
    #[serde(deserialize_with = "null_is_no_number")]
    pub cost_share: f64,
    /// Cost of waiting for samples. Present if frames of an interpreter were read: they change with every
    /// instruction, which is why their thread waits meanwhile.
    pub waits: Option<Waits>,
}

/// Threads of an interpreter that waited until their frames were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// Number of waits: for a sample, or for the call that followed one.
    pub count: u64,
    /// Samples left out because the thread went on before its frames were read.
    pub missed: u64,
    /// Mean time that a sample delayed the thread, in nanoseconds; `null` if unknown.
    pub mean_ns: Option<u64>,
}

/// Calls of one function (on one clock), or one system call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CalledRow {
    /// Route of the call.
    pub via: Via,
    /// Name of the function or system call.
    pub name: String,
    /// Clock, for functions that take one.
    pub clock: Option<String>,
    /// Exact number of calls, or an estimate if `estimated`.
    pub calls: u64,
    /// Stacks sampled.
    pub samples: u64,
    /// Number of equally weighted samples that would give the same certainty. Samples stand for different
    /// numbers of calls, the samples of a program's first calls for the fewest.
    #[serde(deserialize_with = "null_is_no_number")]
    pub samples_effective: f64,
    /// Whether `calls` is estimated from the samples, because these system calls were not counted.
    pub estimated: bool,
}

/// A function (or an unknown address) in stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct FrameRow {
    /// Name, demangled; `null` if unknown.
    pub function: Option<Foreign>,
    /// File of the program or library; `[vdso]`, `[jit]`, `[anonymous]`; `null` if unknown.
    pub module: Option<Foreign>,
    /// Offset of the call in that file's code, as `addr2line` takes it; 0 for code made at run time.
    pub address: u64,
    /// Offset of the function's start, on the same scale as `address`; only if the function has no name and
    /// the unwind tables give its start.
    pub start: Option<u64>,
    /// Source file, where debugging information is installed.
    pub file: Option<Foreign>,
    /// Line in `file`.
    pub line: Option<u32>,
    /// Kind of the frame.
    pub kind: FrameKind,
}

/// Kinds of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameKind {
    /// Machine code of a file.
    #[default]
    Native,
    /// A function that the compiler inlined into its caller.
    Inlined,
    /// Return code of a signal handler: its caller is the interrupted function.
    Signal,
    /// Code made at run time.
    Jit,
    /// Nothing is known of the address, or this version does not know the report's word.
    #[serde(other)]
    Unknown,
}

/// A stack of callers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackRow {
    /// The called function: index into `called`.
    pub called: usize,
    /// Process id.
    pub pid: i32,
    /// Indices into `frames`: the caller first, the thread's first function last.
    pub frames: Vec<usize>,
    /// Samples of this stack.
    pub samples: u64,
    /// Calls that these samples stand for. The stacks of a row of `called` add up to its exact number of calls.
    #[serde(deserialize_with = "null_is_no_number")]
    pub calls: f64,
    /// Whether the stack reaches the thread's first function.
    pub complete: bool,
}

/// A call and the next one of the same thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PairRow {
    /// Stack of the first call: index into `stacks`.
    pub first: usize,
    /// Stack of the second call: index into `stacks`.
    pub second: usize,
    /// Samples of the pair.
    pub samples: u64,
    /// Share (0 to 1) of the first stack's calls that are followed by the second.
    #[serde(deserialize_with = "null_is_no_number")]
    pub share: f64,
    /// Median time from the begin of the first call to the begin of the second, in nanoseconds.
    pub gap_ns: u64,
    /// Deciles of that time, from the shortest to the longest sampled one; empty if unknown. None is above two to the power
    /// of 32 ticks of the CPU's counter, a second or more.
    pub gaps_ns: Vec<u64>,
}

/// Stacks that end early, by reason and file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CutRow {
    /// Reason, as a clause.
    pub reason: String,
    /// File whose code the stacks end in; `null` if the code is in no file.
    pub module: Option<Foreign>,
    /// Number of samples.
    pub samples: u64,
}

/// A called function or system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Called {
    /// A function of the vDSO: number of the counter in `vdso_image::layout`.
    Vdso(u8),
    /// A system call, by its number on x86-64.
    Syscall(u32),
}
