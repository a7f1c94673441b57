//! The command line of the suite.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Compares clockscope with its peers on this machine.
#[derive(Debug, Parser)]
#[command(
    name = "peers",
    after_help = "Run it as: cargo bench -p clockscope --bench peers -- [OPTIONS] [SECTION]..."
)]
pub(crate) struct Options {
    /// Sections to run; all of them if none is named
    #[arg(value_enum, value_delimiter = ',')]
    pub(crate) sections: Vec<Section>,
    /// A fast look: few rounds, short loads; its figures are not for the documentation
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds of the loops; six are the fewest that give a 95 % interval
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,
    /// Write the page to FILE as well
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Start the clocks, say how right their rates are, and end: one of the starts of `start`
    #[arg(long, hide = true)]
    pub(crate) one_start: bool,
    /// Passed by cargo bench
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

/// The parts of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// clock reads through the vDSO
    Vdso,
    /// system calls
    Syscalls,
    /// reads of the CPU's counter by the program itself
    Counters,
    /// what a tracer costs other programs
    Bystander,
    /// what it costs to start programs
    Launch,
    /// a build, git, and scripts, which start many programs
    Builds,
    /// nginx, Redis, PostgreSQL, SQLite
    Real,
    /// memory and size
    Memory,
    /// signals and forks
    Signals,
    /// what clockscope bench measures, beside a plain loop, google-benchmark, counting, perf bench
    Agreement,
    /// what fastclock and its peers cost a reading
    Fastclock,
    /// how right the rate of fastclock and its peers is just after their start
    Start,
    /// how far fastclock and its peers are from CLOCK_MONOTONIC, and whether the bound holds
    Accuracy,
    /// whether threads see time run backwards
    Order,
    /// clockscope run --clock tsc
    RunTsc,
    /// what sampling callers costs
    Sampling,
    /// how long a program stands still when a tool attaches to it
    Attach,
}

impl Options {
    /// The sections to run, in the order of the page.
    pub(crate) fn chosen_sections(&self) -> Vec<Section> {
        let all = Section::value_variants().iter().copied();
        all.filter(|section| self.sections.is_empty() || self.sections.contains(section)).collect()
    }

    /// Rounds of the loops.
    pub(crate) fn loop_rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 15 })
    }

    /// Rounds of loops under peers that take seconds to start.
    pub(crate) fn peer_rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 9 })
    }

    /// Rounds of loads that take seconds each.
    pub(crate) fn load_rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 7 })
    }

    /// `full`, or `quick` in quick mode.
    pub(crate) fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}
