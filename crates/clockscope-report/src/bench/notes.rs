//! Sentences about a whole measurement: disturbances, and their possible causes.

use clockscope_model::bench::{BenchReport, PathRow};

/// The sentences, most important first; none for an undisturbed measurement.
///
/// `pinning_refused` is the reason why the launches were not pinned to one CPU.
pub fn of(report: &BenchReport, pinning_refused: Option<&str>) -> Vec<String> {
    let not_pinned = pinning_refused.map(|why| {
        format!("the thread could not be kept on one CPU ({why}); a move to another CPU is in the figures")
    });
    [noise(&report.paths), regimes(&report.paths), not_pinned].into_iter().flatten().collect()
}

fn noise(paths: &[PathRow]) -> Option<String> {
    let unusable = paths.iter().filter(|path| path.grade == "unusable").count();
    if unusable == 0 {
        return None;
    }
    let which = match unusable {
        all if all == paths.len() => "every path is".to_owned(),
        1 => format!("1 of {} paths is", paths.len()),
        some => format!("{some} of {} paths are", paths.len()),
    };
    Some(format!(
        "{which} unusable: hardly any batch ran undisturbed, so that their figures are of all batches; \
         stop what else runs, or try --cpu with another CPU"
    ))
}

fn regimes(paths: &[PathRow]) -> Option<String> {
    let split: Vec<&PathRow> = paths.iter().filter(|path| path.regimes.is_some()).collect();
    let first = split.first()?;
    let name = first.name.clock.as_deref().or(first.name.call.as_deref()).unwrap_or_default();
    let more = match split.len() {
        1 => String::new(),
        others => format!(", and {} more paths likewise", others - 1),
    };
    let enters_kernel = |path: &&PathRow| path.name.route == "syscall" || path.name.call.is_some();
    // Only if a path that stays in user mode was measured, too, and did not change.
    let stayed = |path: &PathRow| {
        path.regimes.is_none() && path.name.route != "none" && !enters_kernel(&path)
    };
    let suspects = if split.iter().all(enters_kernel) && paths.iter().any(stayed) {
        "only system calls are affected: suspect tracing of system calls by somebody (BPF, perf, \
         ftrace) or a seccomp filter that came or went"
    } else {
        "suspect a change of the CPU's frequency, a busy sibling on the host, or another place of \
         code and stack in memory"
    };
    Some(format!(
        "launches differ: {name} by {} took {}{more}; {suspects}",
        first.name.route,
        first.regimes.as_deref().unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::bench::PathName;

    fn path(route: &str, grade: &str, regimes: Option<&str>) -> PathRow {
        let name = PathName { clock: Some("CLOCK_TAI".into()), call: None, route: route.into() };
        let (grade, regimes) = (grade.to_owned(), regimes.map(str::to_owned));
        PathRow { name, grade, regimes, ..PathRow::default() }
    }

    fn notes(paths: Vec<PathRow>) -> Vec<String> {
        of(&BenchReport { paths, ..BenchReport::default() }, None)
    }

    #[test]
    fn a_quiet_measurement_needs_no_words() {
        assert!(notes(vec![path("vdso", "quiet", None), path("libc", "noisy", None)]).is_empty());
    }

    #[test]
    fn regimes_of_system_calls_alone_point_to_tracing() {
        let split = Some("88.0 ns in launch 1; 103.0 ns in launch 2");
        let found = notes(vec![path("vdso", "quiet", None), path("syscall", "quiet", split)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("CLOCK_TAI by syscall took 88.0 ns") && found[0].contains("BPF"));
        let found = notes(vec![path("none", "quiet", None), path("syscall", "quiet", split)]);
        assert!(found[0].contains("frequency"), "nothing in user mode was measured: {found:?}");
        let found = notes(vec![path("vdso", "quiet", split), path("syscall", "quiet", split)]);
        assert!(found[0].contains("1 more") && found[0].contains("frequency"), "{found:?}");
    }

    #[test]
    fn noise_and_refused_pinning_are_said() {
        let found = notes(vec![path("vdso", "unusable", None), path("libc", "quiet", None)]);
        assert!(found[0].starts_with("1 of 2 paths is unusable"), "{found:?}");
        let found = of(&BenchReport::default(), Some("Operation not permitted"));
        assert!(found[0].contains("(Operation not permitted)"));
    }
}
