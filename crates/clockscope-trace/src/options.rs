//! What a user chooses of how a program is traced.

/// Ways to count system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Via {
    /// eBPF where allowed; otherwise code in the program if that can answer, or ptrace
    Auto,
    /// eBPF on raw_syscalls; needs root, or CAP_BPF and CAP_PERFMON
    Bpf,
    /// ptrace: works everywhere, costs about 20 us a call
    Ptrace,
    /// code in the program, around each `syscall` instruction: no privileges; most errors, estimated times
    Sites,
    /// eBPF, and compare with what code in the program counts
    Both,
    /// not at all
    None,
}

impl Via {
    /// Whether code in the program is asked for.
    #[must_use]
    pub fn has_sites(self) -> bool {
        matches!(self, Self::Sites | Self::Both)
    }
}

/// Ways to count system calls without privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutBpf {
    /// Code in the program.
    Sites,
    /// ptrace, because code in the program cannot tell what is asked for.
    Ptrace,
    /// Nobody, because the program is left alone.
    Nobody,
}

/// Calls whose callers are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum CallersOf {
    /// vDSO calls
    Vdso,
    /// system calls
    Syscalls,
    /// both
    All,
}

/// Where vDSO calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum CountBy {
    /// a slot owned by the thread, plain add
    Thread,
    /// a slot of the CPU, locked add
    Cpu,
}

/// How system calls are counted.
#[derive(Clone, Copy, Debug)]
pub struct CountOptions {
    /// By whom.
    pub via: Via,
    /// By whom where eBPF is not allowed and the user leaves the choice to clockscope.
    pub without_bpf: WithoutBpf,
    /// Measure the time of each call, too.
    pub time: bool,
    /// Keep the distribution of these times.
    pub latency: bool,
    /// What is told apart.
    pub breakdown: clockscope_syscalls::Breakdown,
}
