//! Files of the program that read the CPU's counter themselves, which neither the vDSO nor the kernel sees.

use clockscope_model::trace::{CountedReads, CounterReads, TraceReport};
use clockscope_text::foreign::printable;
use clockscope_text::lines::cut_middle;
use clockscope_text::units;

/// Files and functions of a file that are named.
const FILES: usize = 4;
const FUNCTIONS: usize = 2;
/// The least share of the CPU time that is told.
const TOLD: f64 = 0.0005;
/// Columns for a name.
const NAME: usize = 32;

/// One sentence; `None` if there are no such files. Libraries of the system are in it only if `all`: most programs use
/// them, and they read the counter once, or seldom.
/// `doubt` is why the counter is no clock on this host.
pub(super) fn sentence(
    rows: &[CounterReads],
    (is_counted, doubt): (bool, Option<&str>),
    all: bool,
) -> Option<String> {
    let rows = rows.iter().filter(|row| all || !row.of_system);
    let rows: Vec<String> = rows.map(of_file).collect();
    let shown = if all { rows.len() } else { FILES.min(rows.len()) };
    let more = match rows.len() - shown {
        0 => String::new(),
        more => format!(" and {}", units::counted(more as u64, "more file", "more files")),
    };
    let doubt = doubt.map(|why| {
        format!(
            ". What programs measure with it may be wrong here: {} (clockscope doctor)",
            printable(why)
        )
    });
    let doubt = doubt.unwrap_or_default();
    let counted = if is_counted { "" } else { "; not counted" };
    (!rows.is_empty()).then(|| format!("{}{more}{counted}{doubt}", rows[..shown].join(", ")))
}

/// How many reads were counted, by instruction and by function, and their part of the processor time.
pub(super) fn counted(report: &TraceReport, all: bool) -> Option<String> {
    let counters = report.counters.as_ref()?;
    let of = [("rdtsc", counters.rdtsc), ("rdtscp", counters.rdtscp)];
    let of: Vec<String> = of
        .into_iter()
        .filter(|(_, reads)| *reads > 0)
        .map(|(name, reads)| format!("{} by {name}", units::counted(reads, "read", "reads")))
        .collect();
    if of.is_empty() {
        return Some("no read was counted".to_owned());
    }
    let mut out = of.join(", ");
    let reads = counters.rdtsc.saturating_add(counters.rdtscp);
    let per_second = units::brief_rate(reads as f64 * 1e9 / report.wall_ns as f64);
    if let Some(rate) = per_second {
        out += &format!(" ({rate} a second)");
    }
    let least = counters.least_ps.filter(|_| report.cpu_ns > 0);
    let share = least.map(|least| least as f64 / 1e3 / report.cpu_ns as f64);
    if let Some(share) = share.filter(|share| *share >= TOLD) {
        out += &format!(", at least {} of the CPU time", units::share(share.min(1.0)));
    }
    let mut before = None;
    let rows = counters.by_function.iter().map(|row| {
        let is_same = before.replace(&row.file) == Some(&row.file);
        by_function(row, is_same)
    });
    let rows: Vec<String> = rows.collect();
    let shown = if all { rows.len() } else { FILES.min(rows.len()) };
    if shown > 0 {
        out += &format!(": {}", rows[..shown].join(", "));
    }
    if rows.len() > shown {
        out += &format!(", … ({} more with --all)", rows.len() - shown);
    }
    Some(out)
}

/// The reads of a function; its file only if it is not the one before.
fn by_function(row: &CountedReads, is_same_file: bool) -> String {
    let reads = units::count(row.reads);
    let Some(file) = &row.file else { return format!("{reads} at further places") };
    let place = match (&row.function, row.address) {
        (Some(function), _) => format!("in {}", cut_middle(&function.printable(), NAME)),
        (None, Some(address)) => format!("at {address:#x}"),
        (None, None) => "at one place".to_owned(),
    };
    if is_same_file {
        return format!("{reads} {place}");
    }
    let path = file.printable();
    let file = cut_middle(path.rsplit('/').next().unwrap_or_default(), NAME);
    format!("{reads} {place} ({file})")
}

fn of_file(row: &CounterReads) -> String {
    let path = row.file.printable();
    let name = cut_middle(path.rsplit('/').next().unwrap_or_default(), NAME);
    let Some(places) = row.places else { return format!("{name} (not searched in time)") };
    let named = row.functions.iter().take(FUNCTIONS);
    let mut functions: Vec<String> =
        named.map(|function| cut_middle(&function.printable(), NAME)).collect();
    functions.extend((row.functions.len() > FUNCTIONS).then(|| "…".to_owned()));
    let names =
        if functions.is_empty() { String::new() } else { ": ".to_owned() + &functions.join(", ") };
    format!("{name} ({}{names})", units::counted(places, "place", "places"))
}

#[cfg(test)]
mod tests {
    use clockscope_model::trace::Counters;

    use super::*;

    fn row(file: &str, places: Option<u64>, functions: &[&str], of_system: bool) -> CounterReads {
        let functions = functions.iter().map(|name| (*name).into()).collect();
        CounterReads { file: file.into(), places, functions, of_system }
    }

    #[test]
    fn files_and_the_first_functions_are_named() {
        let rows = [
            row("/opt/pg/postgres", Some(3), &["pg_get_ticks", "a", "b"], false),
            row("/usr/lib/jvm/libjvm.so", Some(1), &[], false),
            row("/lib/libc.so.6", Some(2), &["pthread_mutex_lock"], true),
            row("/opt/huge", None, &[], false),
        ];
        let files = "postgres (3 places: pg_get_ticks, a, …), libjvm.so (1 place)";
        assert_eq!(
            sentence(&rows, (false, None), false),
            Some(format!("{files}, huge (not searched in time); not counted"))
        );
        assert!(
            sentence(&rows, (false, None), true)
                .is_some_and(|all| all.contains("pthread_mutex_lock"))
        );
        assert_eq!(sentence(&[], (false, None), true), None);
        let doubted = "huge (not searched in time); not counted. What programs measure with it may be wrong here: \
                       the counters differ [tsc-warp] (clockscope doctor)";
        let doubt = Some("the counters differ [tsc-warp]");
        assert_eq!(sentence(&rows[3..], (false, doubt), false).as_deref(), Some(doubted));
    }

    #[test]
    fn reads_are_told_by_instruction() {
        let of = |function: Option<&str>, address, reads| CountedReads {
            instruction: "rdtsc".into(),
            file: Some("/opt/pg/postgres".into()),
            function: function.map(Into::into),
            address,
            reads,
        };
        let rest = CountedReads { reads: 4, ..CountedReads::default() };
        let mut by_function =
            vec![of(Some("pg_get_ticks"), None, 79_000), of(None, Some(0x12), 997)];
        by_function.extend([of(None, None, 3), rest.clone(), rest]);
        let both = Counters { rdtsc: 80_000, rdtscp: 1, least_ps: Some(800_000_000), by_function };
        let report =
            |counters| TraceReport { counters, cpu_ns: 8_000_000, ..TraceReport::default() };
        let known = TraceReport { wall_ns: 10_000_000, ..report(Some(both.clone())) };
        let begin = "80,000 reads by rdtsc, 1 read by rdtscp";
        let functions =
            ": 79,000 in pg_get_ticks (postgres), 997 at 0x12, 3 at one place, 4 at further places";
        let all = format!("{begin} (8M a second), at least 10 % of the CPU time{functions}");
        assert_eq!(counted(&known, true), Some(all.clone() + ", 4 at further places"));
        assert_eq!(counted(&known, false), Some(all + ", … (1 more with --all)"));
        let idle = TraceReport { cpu_ns: 10_000_000_000, ..known };
        assert!(counted(&idle, true).is_some_and(|told| told.contains("a second): 79,000")));
        let alone = Counters { least_ps: None, by_function: Vec::new(), ..both };
        assert_eq!(counted(&report(Some(alone)), false).as_deref(), Some(begin));
        let none = counted(&report(Some(Counters::default())), false);
        assert_eq!(none.as_deref(), Some("no read was counted"));
        assert_eq!(counted(&report(None), false), None);
        let rows = [row("/opt/huge", None, &[], false)];
        let files = sentence(&rows, (true, None), false);
        assert_eq!(files.as_deref(), Some("huge (not searched in time)"));
    }

    #[test]
    fn programs_with_libraries_of_the_system_alone_have_no_line() {
        assert_eq!(
            sentence(&[row("/lib/libc.so.6", Some(2), &[], true)], (false, None), false),
            None
        );
    }
}
