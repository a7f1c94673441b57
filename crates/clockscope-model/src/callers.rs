//! Who makes the calls, as data: the field `callers` of the JSON schema of `trace`.

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
    /// Files whose functions have no names, and what would name them: a sentence for each of at most three.
    pub stripped: Vec<String>,
    /// Estimated cost of sampling as a share of the processor time of the program: more than 1 where sampling
    /// took more than that.
    #[serde(deserialize_with = "null_is_no_number")]
    pub cost_share: f64,
    /// What waiting for samples has meant; there if an interpreter's frames were read, which change with the
    /// next instruction.
    pub waits: Option<Waits>,
}

/// Threads of an interpreter's that waited until their frames were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// How often a thread waited until it was read: for a sample, or for the call that followed one.
    pub count: u64,
    /// Samples that are left out because the frames were not read before the thread went on.
    pub missed: u64,
    /// Mean time that a sample took the thread, in nanoseconds; `null` if none is known.
    pub mean_ns: Option<u64>,
}

/// Calls of one function (on one clock), or one system call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CalledRow {
    /// How it is made.
    pub via: Via,
    /// Name.
    pub name: String,
    /// Clock, for functions that take one.
    pub clock: Option<String>,
    /// Exact number of calls; of system calls that were not counted an estimate.
    pub calls: u64,
    /// Stacks sampled.
    pub samples: u64,
    /// As many samples of equal weight say as much about who makes the calls. Samples stand for different
    /// numbers of calls, those of a program's first calls for the fewest.
    #[serde(deserialize_with = "null_is_no_number")]
    pub samples_effective: f64,
    /// Whether `calls` is an estimate, made from the samples.
    pub estimated: bool,
}

/// A function (or an unknown address) in stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct FrameRow {
    /// Name, demangled; `null` if nothing is known.
    pub function: Option<Foreign>,
    /// File of the program or library; `[vdso]`, `[jit]`, `[anonymous]`; `null` if unknown.
    pub module: Option<Foreign>,
    /// Offset of the call in that file's code, as `addr2line` takes it; 0 for code made at run time.
    pub address: u64,
    /// Where the function begins, in the same counting: where it has no name and the unwind tables say so.
    pub start: Option<u64>,
    /// Source file, where debugging information is installed.
    pub file: Option<Foreign>,
    /// Line in it.
    pub line: Option<u32>,
    /// What kind of frame it is.
    pub kind: FrameKind,
}

/// Kinds of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameKind {
    /// Machine code of a file.
    #[default]
    Native,
    /// A function that the compiler has put into its caller.
    Inlined,
    /// The code that a signal handler returns to: its caller is what the signal interrupted.
    Signal,
    /// Code made at run time.
    Jit,
    /// Nothing is known of the address, or the report has a word that this version does not know.
    #[serde(other)]
    Unknown,
}

/// A stack of callers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackRow {
    /// What was called: index into `called`.
    pub called: usize,
    /// Process id.
    pub pid: i32,
    /// Indices into `frames`: the caller first, the thread's first function last.
    pub frames: Vec<usize>,
    /// Samples of it.
    pub samples: u64,
    /// Calls that these stand for: of each row of `called` they add up to its exact calls.
    #[serde(deserialize_with = "null_is_no_number")]
    pub calls: f64,
    /// Whether it reaches the thread's first function.
    pub complete: bool,
}

/// A call and the next one of the same thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PairRow {
    /// Stack of the first: index into `stacks`.
    pub first: usize,
    /// Stack of the second.
    pub second: usize,
    /// Samples of the pair.
    pub samples: u64,
    /// Share (0 to 1) of the first's calls that are followed by the second.
    #[serde(deserialize_with = "null_is_no_number")]
    pub share: f64,
    /// Median of the time between the two, in nanoseconds.
    pub gap_ns: u64,
}

/// Stacks that end early.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CutRow {
    /// Why, as a clause.
    pub reason: String,
    /// File in whose code they end; `null` if it is no file's.
    pub module: Option<Foreign>,
    /// Samples.
    pub samples: u64,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Called {
    /// A function of the vDSO: number of the counter in `vdso_image::layout`.
    Vdso(u8),
    /// A system call, by its number on x86-64.
    Syscall(u32),
}
