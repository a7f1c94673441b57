//! What code in the programs has counted, and how often it has timed it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use clockscope_sites::{ERRORS, FIRST, KINDS, MAPPED, NEXT, OTHERS, SEEN, TIMED, TIMES, UNSEEN};
use vdso_image::layout::Shared;

/// `exit(2)` and `exit_group(2)`, which are never in error.
const NEVER_RETURN: [libc::c_long; 2] = [libc::SYS_exit, libc::SYS_exit_group];

/// The words of the table, all parts of it together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteWords {
    by_kind: [Vec<u64>; KINDS],
    /// Calls of which all were to be timed, by number: the first of each part.
    first: Vec<u64>,
    /// What is known of those that were timed.
    times: [Vec<u64>; TIMES],
}

/// Calls of a number, of which some were timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedCalls {
    /// Calls.
    pub calls: u64,
    /// Those that were timed.
    pub timed: u64,
    /// Their ticks.
    pub ticks: u64,
    /// The sum of the squares of these.
    pub squares: u128,
}

/// How often code in the program has counted a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteCalls {
    /// Its number; `None` stands for all numbers that the table has no word for.
    pub number: Option<u32>,
    /// Calls.
    pub calls: u64,
    /// Those that returned an error; `None` if that was not seen of all of them.
    pub errors: Option<u64>,
    /// The first calls, and the others, if some of all calls could be timed.
    pub times: Option<[TimedCalls; 2]>,
}

impl SiteWords {
    /// Adds what stands in the pages of a process.
    pub(crate) fn add(&mut self, pages: &Shared) {
        let used = pages.header.site_parts_used.load(Relaxed);
        let own = pages.own_sites.iter().enumerate();
        // Looking at the others would make the kernel give them memory.
        let own = own
            .filter(|(part, _)| used >> part & 1 == 1)
            .flat_map(|(_, part)| part.iter().zip(0..));
        let with_lock = pages.sites.iter().zip(0..);
        let with_lock =
            with_lock.flat_map(|(parts, kind)| parts.iter().map(move |part| (part, kind)));
        for (part, kind) in with_lock.chain(own).filter(|(_, kind)| *kind != NEXT) {
            add(&mut self.by_kind[kind], part, u64::MAX);
            if kind == TIMED {
                add(&mut self.first, part, FIRST);
            }
        }
        for (kind, times) in pages.site_times.iter().enumerate() {
            add(&mut self.times[kind], times, u64::MAX);
        }
    }

    /// The system calls that were made.
    pub fn calls(&self) -> impl Iterator<Item = SiteCalls> + '_ {
        let of_number = |number: usize| {
            let [seen, unseen, timed] = [SEEN, UNSEEN, TIMED].map(|kind| self.word(kind, number));
            let is_seen = unseen == 0
                || NEVER_RETURN.iter().any(|never| usize::try_from(*never) == Ok(number));
            SiteCalls {
                number: u32::try_from(number).ok().filter(|_| number != OTHERS),
                calls: seen.saturating_add(unseen).saturating_add(timed),
                errors: is_seen.then(|| self.word(ERRORS, number)),
                times: (seen == 0 && unseen == 0).then(|| self.times(number)),
            }
        };
        (0..=OTHERS).map(of_number).filter(|row| row.calls > 0)
    }

    fn times(&self, number: usize) -> [TimedCalls; 2] {
        let first = word(&self.first, number);
        let others = self.word(TIMED, number).saturating_sub(first);
        [(0, first), (TIMES / 2, others)].map(|(kind, calls)| {
            let known = |offset: usize| word(&self.times[kind + offset], number);
            let squares = u128::from(known(3)) << 64 | u128::from(known(2));
            TimedCalls { calls, timed: known(0), ticks: known(1), squares }
        })
    }

    pub(super) fn word(&self, kind: usize, number: usize) -> u64 {
        word(&self.by_kind[kind], number)
    }
}

fn word(words: &[u64], number: usize) -> u64 {
    words.get(number).copied().unwrap_or(0)
}

/// Adds words, each up to a limit.
fn add(sums: &mut Vec<u64>, words: &[AtomicU64], limit: u64) {
    sums.resize(MAPPED + 1, 0);
    for (sum, word) in sums.iter_mut().zip(words) {
        *sum = sum.saturating_add(word.load(Relaxed).min(limit));
    }
}
