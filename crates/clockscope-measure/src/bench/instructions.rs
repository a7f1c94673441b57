//! Instructions of one call of each path, in the report's form.

use crate::instructions;
use crate::path::{Path, Route};
use clockscope_model::bench::{Instructions, InstructionsRow};
use clockscope_sys::own_vdso;

/// Repeats of single-stepping a call; a retry in the vDSO is rare.
const STEPPED_REPEATS: u32 = 15;

/// The instructions of one call of each path, and sentences about calls that could not be stepped.
pub fn of(paths: &[Path]) -> (Instructions, Vec<String>) {
    let paths: Vec<&Path> = paths.iter().filter(|p| p.name.route != Route::None.name()).collect();
    let mut notes = Vec::new();
    let stepped = instructions::step(&paths, &own_vdso::code(), STEPPED_REPEATS);
    let mut rows: Vec<InstructionsRow> = paths
        .iter()
        .zip(stepped)
        .map(|(path, stepped)| {
            let mut row = InstructionsRow { name: path.name.clone(), ..Default::default() };
            match stepped {
                Ok((steps, agreeing)) => {
                    row.user = Some(steps.user);
                    row.in_vdso = Some(steps.in_range);
                    row.syscalls = Some(steps.syscalls);
                    row.agreeing = Some(agreeing);
                }
                Err(reason) => notes.push(format!("{path} could not be stepped: {reason}")),
            }
            row
        })
        .collect();
    let counted = instructions::count(&paths);
    for (row, [instructions, cycles]) in rows.iter_mut().zip(counted.iter().flatten()) {
        row.counted = Some(*instructions);
        row.cycles = Some(*cycles);
    }
    (Instructions { no_counters: counted.err(), rows }, notes)
}
