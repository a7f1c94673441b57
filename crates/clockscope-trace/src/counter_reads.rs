//! Files that programs execute and that read the CPU's counter, as rows of a report.

use clockscope_callers::symbols;
use clockscope_model::trace::{CountedReads, CounterReads, Counters};
use clockscope_sys::clock_loops::{CounterOrder, of_counter};
use clockscope_tracee::counted_places;
use clockscope_tracee::counter_search::{self, CounterSearch, Others};

/// The cost of an instruction is that in the cheapest of so many batches of so many turns: 0.2 ms.
const BATCHES: u32 = 20;
const TURNS: u64 = 1000;

/// The files that these processes execute now. Empty if no thread can be made.
pub fn of_processes(processes: Vec<i32>) -> Vec<CounterReads> {
    rows(CounterSearch::start(None, processes, Others::None))
}

/// What a search has found.
pub(crate) fn rows(search: Option<CounterSearch>) -> Vec<CounterReads> {
    search.into_iter().flat_map(CounterSearch::finish).map(row).collect()
}

fn row(found: counter_search::CounterReads) -> CounterReads {
    CounterReads {
        file: found.path.into(),
        places: found.places,
        functions: found.functions.iter().map(|name| symbols::demangled(name)).collect(),
        of_system: found.is_system,
    }
}

/// The reads that were counted, and what they take at least, which is measured now.
pub(crate) fn counted(reads: &[counted_places::CountedReads]) -> Counters {
    let names = ["rdtsc", "rdtscp"];
    let sums = [false, true].map(|is_ordered| {
        let of = reads.iter().filter(|row| row.is_ordered == is_ordered);
        of.map(|row| row.reads).sum::<u64>()
    });
    let least = sums.into_iter().zip([CounterOrder::Bare, CounterOrder::Rdtscp]);
    let least = least.filter(|(reads, _)| *reads > 0).map(|(reads, order)| {
        let cost = of_counter(order).ok()?.cheapest(BATCHES, TURNS);
        Some(cost.0.saturating_mul(reads))
    });
    let row = |row: &counted_places::CountedReads| CountedReads {
        instruction: names[usize::from(row.is_ordered)].into(),
        file: (!row.path.is_empty()).then(|| row.path.as_str().into()),
        function: row.function.as_ref().ok().map(|name| symbols::demangled(name)),
        address: row.function.as_ref().err().copied().filter(|_| !row.path.is_empty()),
        reads: row.reads,
    };
    Counters {
        rdtsc: sums[0],
        rdtscp: sums[1],
        least_ps: least.sum(),
        by_function: reads.iter().map(row).collect(),
    }
}
