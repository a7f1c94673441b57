//! Advice on a call site, as far as the figures support it.

use clockscope_text::units;

/// A piece of advice with the figures behind it.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// A coarse clock would have returned the same time.
    Coarse {
        /// Least share (0 to 1) of the reads that came within the same timer tick as the previous read.
        share: f64,
        /// Length of a tick, in nanoseconds.
        tick_ns: u64,
    },
    /// The next read of the same clock follows at once.
    Merge {
        /// Share (0 to 1) of the reads that are followed by another.
        share: f64,
        /// Median time between the two, in nanoseconds.
        gap_ns: u64,
        /// The call site of the following read; `None` if it is the same one.
        with: Option<String>,
    },
    /// The program has a setting that avoids these reads.
    Known {
        /// The advice, as a sentence.
        advice: &'static str,
    },
    /// The vDSO should answer in user space, but makes system calls.
    FallenBack {
        /// Time of one read, in picoseconds.
        each_ps: u64,
    },
    /// Clocks that no vDSO answers by itself.
    AlwaysKernel {
        /// Name of the clock.
        clock: String,
        /// Time of one read, in picoseconds; 0 if no read was timed.
        each_ps: u64,
    },
    /// System calls made directly, past the vDSO.
    PastVdso {
        /// Time of one read, in picoseconds; 0 if no read was timed.
        each_ps: u64,
    },
}

impl Advice {
    /// The short form, after [`Self::sentence`] was printed for another call site.
    pub fn again(&self) -> String {
        match self {
            Self::Coarse { share, .. } => {
                format!("{} within the same tick, as above", at_least(*share))
            }
            Self::FallenBack { each_ps } => {
                format!("not answered in user space either ({} each)", units::picos(*each_ps))
            }
            Self::PastVdso { each_ps } => {
                format!("by system call past the vDSO as well{}", each(*each_ps))
            }
            Self::Known { .. } => "as above".to_owned(),
            Self::Merge { .. } | Self::AlwaysKernel { .. } => self.sentence(),
        }
    }

    /// The advice as a sentence; names are as in the model and not yet safe to print.
    pub fn sentence(&self) -> String {
        match self {
            Self::Coarse { share, tick_ns } => format!(
                "{} of these reads came within the same {} tick as the thread's read \
                 before: for time stamps a coarse clock, or a time that is kept for a while, would have \
                 said the same (try: clockscope run --clock coarse)",
                at_least(*share),
                units::nanos(*tick_ns)
            ),
            Self::Merge { share, gap_ns, with } => {
                let next = match with {
                    Some(site) => format!("the one in {site}"),
                    None => "the same one again".to_owned(),
                };
                format!(
                    "{} are followed within {} (median) by {next}: one read can serve both, unless \
                     the time between them is what is measured",
                    units::share(*share),
                    units::nanos(*gap_ns)
                )
            }
            Self::Known { advice } => (*advice).to_owned(),
            Self::FallenBack { each_ps } => format!(
                "the vDSO did not answer these in user space ({} each): see clockscope doctor, or \
                 try clockscope run --clock tsc",
                units::picos(*each_ps)
            ),
            Self::AlwaysKernel { clock, each_ps } => format!(
                "{clock} is a system call on every host{}: only fewer reads help",
                each(*each_ps)
            ),
            Self::PastVdso { each_ps } => format!(
                "made by system call past the vDSO{}: the C library's function asks the vDSO first",
                each(*each_ps)
            ),
        }
    }
}

/// A lower bound of a share as words; 100 % becomes "all".
fn at_least(share: f64) -> String {
    match units::share(share).as_str() {
        "100 %" => "all".to_owned(),
        share => format!("at least {share}"),
    }
}

fn each(ps: u64) -> String {
    if ps == 0 { String::new() } else { format!(" ({} each)", units::picos(ps)) }
}
