//! Adds up the system calls and times that code in the programs has counted.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use clockscope_sites::{ERRORS, FIRST, NEXT, OTHERS, SEEN, TIMED, UNSEEN};
use vdso_image::layout::{SITE_KINDS, SITE_TIMES, SITE_WORDS, Shared};

/// `exit(2)` and `exit_group(2)`, which are never in error.
const NEVER_RETURN: [libc::c_long; 2] = [libc::SYS_exit, libc::SYS_exit_group];

/// The sums of the table's words over all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteWords {
    by_kind: [Vec<u64>; SITE_KINDS],
    /// By number: calls that were all to be timed, the first ones of each part.
    first: Vec<u64>,
    /// The words for timed calls.
    times: [Vec<u64>; SITE_TIMES],
}

/// Calls of a number, some of them timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedCalls {
    /// Number of calls.
    pub calls: u64,
    /// Number of timed calls.
    pub timed: u64,
    /// Ticks of the timed calls.
    pub ticks: u64,
    /// Sum of the squared ticks of the timed calls.
    pub squares: u128,
}

/// Calls of a system call that code in the programs has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteCalls {
    /// The system-call number; `None` stands for all numbers without a word in the table.
    pub number: Option<u32>,
    /// Number of calls.
    pub calls: u64,
    /// Number of calls that returned an error; `None` if some results were not seen.
    pub errors: Option<u64>,
    /// The first calls and the later ones, if all sites of this number can be timed.
    pub times: Option<[TimedCalls; 2]>,
}

impl SiteWords {
    /// Adds the words in a process's pages.
    pub(crate) fn add(&mut self, pages: &Shared) {
        let used = pages.header.site_parts_used.load(Relaxed);
        let own = pages.own_sites.iter().enumerate();
        // Reading an unused part would make the kernel allocate memory for it.
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

    /// Counts an `exit_group`.
    pub(crate) fn count_end(&mut self) {
        let words = &mut self.by_kind[SEEN];
        words.resize(SITE_WORDS, 0);
        if let Some(word) =
            usize::try_from(libc::SYS_exit_group).ok().and_then(|at| words.get_mut(at))
        {
            *word += 1;
        }
    }

    /// Counts of the system calls that were made.
    pub fn calls(&self) -> impl Iterator<Item = SiteCalls> + '_ {
        let of_number = |number: usize| {
            let [seen, unseen, timed] = [SEEN, UNSEEN, TIMED].map(|kind| self.word(kind, number));
            // The tracer counts all of these as seen.
            let is_told = usize::try_from(libc::SYS_exit_group) == Ok(number);
            let unseen = if is_told { 0 } else { unseen };
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

    /// Reads of the CPU's counter that were counted in a word.
    pub(crate) fn counter_reads(&self, word: usize) -> u64 {
        // The tracer has noted reads that were counted twice.
        self.word(UNSEEN, word).saturating_sub(self.word(SEEN, word))
    }

    fn times(&self, number: usize) -> [TimedCalls; 2] {
        let first = word(&self.first, number);
        let others = self.word(TIMED, number).saturating_sub(first);
        [(0, first), (SITE_TIMES / 2, others)].map(|(kind, calls)| {
            let known = |offset: usize| word(&self.times[kind + offset], number);
            let squares = u128::from(known(3)) << 64 | u128::from(known(2));
            TimedCalls { calls, timed: known(0), ticks: known(1), squares }
        })
    }

    pub(crate) fn word(&self, kind: usize, number: usize) -> u64 {
        word(&self.by_kind[kind], number)
    }
}

fn word(words: &[u64], number: usize) -> u64 {
    words.get(number).copied().unwrap_or(0)
}

/// Adds words to sums, each word up to a limit.
fn add(sums: &mut Vec<u64>, words: &[AtomicU64], limit: u64) {
    sums.resize(SITE_WORDS, 0);
    for (sum, word) in sums.iter_mut().zip(words) {
        *sum = sum.saturating_add(word.load(Relaxed).min(limit));
    }
}
