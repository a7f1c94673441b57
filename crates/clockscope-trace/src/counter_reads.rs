//! Files that programs execute and that read the CPU's counter, as rows of a report.

use clockscope_callers::symbols;
use clockscope_model::trace::CounterReads;
use clockscope_tracee::counter_search::{self, CounterSearch, Others};

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
