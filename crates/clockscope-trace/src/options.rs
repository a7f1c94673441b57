//! Options for tracing a program.

use clockscope_model::trace::Way;
use clockscope_syscalls::Breakdown;

/// Ways to count system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Via {
    /// eBPF where allowed; otherwise ptrace with -c, -e, --latency or --callers=syscalls, and none without
    Auto,
    /// eBPF on raw_syscalls; needs root, or CAP_BPF and CAP_PERFMON
    Bpf,
    /// ptrace: works everywhere, costs about 20 us a call
    Ptrace,
    /// code in the program, around each `syscall` instruction: no privileges; most errors, estimated times; can
    /// kill programs with computed gotos, data that looks like code, or filters on the instruction pointer
    Sites,
    /// eBPF, and compare with what code in the program counts
    Both,
    /// not at all
    None,
}

impl Via {
    /// Whether code in the program shall count system calls.
    pub fn has_sites(self) -> bool {
        matches!(self, Self::Sites | Self::Both)
    }
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

/// Options for counting system calls.
#[derive(Clone, Copy, Debug)]
pub struct CountOptions {
    /// The way to count.
    pub via: Via,
    /// Whether code in the program counts reads of the CPU's counter, too.
    pub counters: bool,
    /// Whether an option asks for system calls.
    pub asked: bool,
    /// Whether the program is followed after its start: ptrace and code in the program need that.
    pub follows: bool,
    /// Whether code in the program can answer all that is asked for.
    pub sites_answer: bool,
    /// Measure the time of each call, too.
    pub time: bool,
    /// Keep the distribution of these times.
    pub latency: bool,
    /// Level of the breakdown: total, by process, or by thread.
    pub breakdown: Breakdown,
}

impl Default for CountOptions {
    /// System calls are not counted.
    fn default() -> Self {
        Self {
            via: Via::None,
            counters: false,
            asked: false,
            follows: true,
            sites_answer: false,
            time: true,
            latency: false,
            breakdown: Breakdown::Total,
        }
    }
}

impl CountOptions {
    /// The way to count system calls, if eBPF can be used (`bpf`) or not; `None` if eBPF was asked for by
    /// name and cannot be used. Code in the program is chosen only if asked for by name, because it can kill
    /// the program.
    pub fn way(&self, bpf: bool) -> Option<Way> {
        match self.via {
            Via::None => Some(Way::None),
            Via::Ptrace => Some(Way::Ptrace),
            Via::Sites => Some(Way::Sites),
            Via::Auto | Via::Bpf | Via::Both if bpf => Some(Way::Bpf),
            Via::Bpf | Via::Both => None,
            Via::Auto if self.asked && self.follows => Some(Way::Ptrace),
            Via::Auto => Some(Way::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_the_one_that_was_decided() {
        use Way::{Bpf, Ptrace, Sites};
        const NOTHING: Option<Way> = Some(Way::None);
        const ALL: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];
        // Ways with eBPF; ways without it by `asked` and `follows`, as in `ALL`.
        for (via, with, without) in [
            (Via::Auto, Bpf, [NOTHING, NOTHING, NOTHING, Some(Ptrace)]),
            (Via::Bpf, Bpf, [None; 4]),
            (Via::Both, Bpf, [None; 4]),
            (Via::Ptrace, Ptrace, [Some(Ptrace); 4]),
            (Via::Sites, Sites, [Some(Sites); 4]),
            (Via::None, Way::None, [NOTHING; 4]),
        ] {
            for ([asked, follows], without) in ALL.into_iter().zip(without) {
                for sites_answer in [false, true] {
                    let options = CountOptions { via, asked, follows, ..CountOptions::default() };
                    let options = CountOptions { sites_answer, ..options };
                    assert_eq!(options.way(true), Some(with), "{options:?}");
                    assert_eq!(options.way(false), without, "{options:?}");
                }
            }
        }
    }
}
