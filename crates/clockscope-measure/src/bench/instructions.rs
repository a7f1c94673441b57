//! The instructions of one call of each path, as the report has them.

use super::chosen;
use crate::instructions;
use crate::path::{Path, Route};
use clockscope_model::bench::{Instructions, InstructionsRow};
use clockscope_sys::own_vdso;
use clockscope_sys::perf_counters::PerfCounters;

/// Repeats of executing a call step by step: a retried pass of the vDSO is rare.
const STEPPED_REPEATS: u32 = 15;

/// The instructions of one call of each path, and sentences about what could not be counted.
pub fn of(paths: &[Path]) -> (Instructions, Vec<String>) {
    let paths: Vec<&Path> = paths.iter().filter(|path| path.route != Route::None).collect();
    let mut notes = Vec::new();
    let stepped = instructions::step(&paths, &own_vdso::code(), STEPPED_REPEATS);
    let rows: Vec<InstructionsRow> = paths
        .iter()
        .zip(stepped)
        .map(|(path, stepped)| {
            let mut row = InstructionsRow { name: chosen::name_of(path), ..Default::default() };
            match stepped {
                Ok(found) => {
                    row.user = Some(found.user);
                    row.in_vdso = Some(found.in_vdso);
                    row.syscalls = Some(found.syscalls);
                    row.agreeing = Some((found.agreeing, found.repeats));
                }
                Err(reason) => notes.push(format!("{path} could not be stepped: {reason}")),
            }
            row
        })
        .collect();
    let counted = PerfCounters::open()
        .map_err(|error| instructions::no_counters(&error))
        .and_then(|mut counters| instructions::count(&paths, &mut counters));
    (with_counts(rows, counted), notes)
}

/// Adds what the counters say, or why they say nothing.
fn with_counts(
    mut rows: Vec<InstructionsRow>,
    counted: Result<Vec<instructions::CountedPerCall>, String>,
) -> Instructions {
    let no_counters = match counted {
        Ok(counted) => {
            for (row, found) in rows.iter_mut().zip(counted) {
                row.counted = Some(found.instructions);
                row.counted_user = Some(found.user);
                row.cycles = Some(found.cycles);
                row.ipc = found.per_cycle();
            }
            None
        }
        Err(reason) => Some(reason),
    };
    Instructions { no_counters, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_fill_all_rows_or_none() {
        let rows = || vec![InstructionsRow::default(); 2];
        let counted =
            instructions::CountedPerCall { instructions: 1005.0, user: 75.0, cycles: 500.0 };
        let with = with_counts(rows(), Ok(vec![counted; 2]));
        assert_eq!((with.no_counters, with.rows[1].ipc), (None, Some(2.01)));
        let without = with_counts(rows(), Err("there are none".to_owned()));
        assert_eq!(without.no_counters.as_deref(), Some("there are none"));
        assert_eq!(without.rows, rows(), "never zeros");
    }
}
