//! Rounds: every variant once a round, in alternating order, so that drift hits all alike.

use std::time::Instant;

use anyhow::Result;

use crate::suite::Suite;
use crate::tracer::Tracer;

/// What one variant gave, round by round.
pub(crate) struct Variant<T> {
    pub(crate) tracer: Tracer,
    /// One entry a round; `None` where it failed.
    pub(crate) rounds: Vec<Option<T>>,
    /// Why it was not run at all, or why it was given up.
    pub(crate) failure: Option<String>,
}

/// Runs every tracer once a round. A tracer that does not work here is not run, one that fails twice
/// is given up; both say why.
pub(crate) fn interleave<T>(
    suite: &Suite,
    tracers: &[Tracer],
    rounds: usize,
    mut run: impl FnMut(Tracer) -> Result<T>,
) -> Vec<Variant<T>> {
    let mut variants: Vec<Variant<T>> = tracers
        .iter()
        .map(|&tracer| Variant { tracer, rounds: Vec::new(), failure: suite.refusal(tracer) })
        .collect();
    let started = Instant::now();
    for round in 0..rounds {
        note_progress(round, rounds, started);
        for position in 0..variants.len() {
            let index = if round % 2 == 0 { position } else { variants.len() - 1 - position };
            run_once(&mut variants[index], || run(tracers[index]));
        }
    }
    variants
}

fn run_once<T>(variant: &mut Variant<T>, run: impl FnOnce() -> Result<T>) {
    if variant.failure.is_some() {
        variant.rounds.push(None);
        return;
    }
    match run() {
        Ok(value) => variant.rounds.push(Some(value)),
        Err(error) => {
            let failed_before = variant.rounds.last().is_some_and(Option::is_none);
            if failed_before || variant.rounds.is_empty() {
                variant.failure = Some(format!("failed: {error:#}"));
            }
            variant.rounds.push(None);
        }
    }
}

/// One line on standard error; it is not part of the page.
fn note_progress(round: usize, rounds: usize, started: Instant) {
    use std::io::Write;
    let seconds = started.elapsed().as_secs();
    let _ = writeln!(std::io::stderr().lock(), "  round {} of {rounds}, {seconds} s", round + 1);
}
