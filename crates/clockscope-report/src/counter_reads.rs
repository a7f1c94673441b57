//! Files of the program that read the CPU's counter themselves, which neither the vDSO nor the kernel sees.

use clockscope_model::trace::{CounterReads, Counters};
use clockscope_text::foreign::printable;
use clockscope_text::lines::cut_middle;
use clockscope_text::units;

/// Files and functions of a file that are named.
const FILES: usize = 4;
const FUNCTIONS: usize = 2;
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

/// How many reads were counted, by instruction.
pub(super) fn counted(counters: &Counters) -> String {
    let of = [("rdtsc", counters.rdtsc), ("rdtscp", counters.rdtscp)];
    let of: Vec<String> = of
        .into_iter()
        .filter(|(_, reads)| *reads > 0)
        .map(|(name, reads)| format!("{} by {name}", units::counted(reads, "read", "reads")))
        .collect();
    if of.is_empty() { "no read was counted".to_owned() } else { of.join(", ") }
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
        let both = Counters { rdtsc: 80_000, rdtscp: 1 };
        assert_eq!(counted(&both), "80,000 reads by rdtsc, 1 read by rdtscp");
        assert_eq!(counted(&Counters::default()), "no read was counted");
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
