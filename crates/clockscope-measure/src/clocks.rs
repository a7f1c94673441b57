//! The clocks and counters, the routes to each, and the names that choose them.

use anyhow::{Result, bail};
use fastclock::ClockId;

use super::path::{Path, Route, of_clock};
use clockscope_model::bench::PathDecline;
use clockscope_sys::clock_loops::{self, CounterOrder, NoLoop};
use clockscope_sys::loops::Loop;
use clockscope_sys::tsc::COUNTER_NAMES;
use clockscope_sys::vdso_call::Call;
use clockscope_sys::vdso_functions::{Functions, NoFunctions};
use clockscope_text::names::{self, NoSuchName};

/// A clock, counter or time function, with its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Name in C, or in the CPU's manual.
    pub name: &'static str,
    read_by: ReadBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadBy {
    Function(Call),
    Counter(CounterOrder),
    Instant,
}

/// Name of the loop without a call.
pub(crate) const EMPTY_LOOP: &str = "empty loop";

/// Every clock that `bench` measures, in the order of display.
pub const ALL: [Clock; 17] = [
    of_id(ClockId::Realtime),
    of_id(ClockId::RealtimeCoarse),
    of_id(ClockId::Monotonic),
    of_id(ClockId::MonotonicCoarse),
    of_id(ClockId::MonotonicRaw),
    of_id(ClockId::Boottime),
    of_id(ClockId::Tai),
    of_id(ClockId::ProcessCputime),
    of_id(ClockId::ThreadCputime),
    Clock { name: "gettimeofday", read_by: ReadBy::Function(Call::Gettimeofday) },
    Clock { name: "time", read_by: ReadBy::Function(Call::Time) },
    Clock { name: "clock_getres", read_by: ReadBy::Function(Call::ClockGetres) },
    Clock { name: "getcpu", read_by: ReadBy::Function(Call::Getcpu) },
    Clock { name: "std::time::Instant", read_by: ReadBy::Instant },
    Clock { name: COUNTERS[0], read_by: ReadBy::Counter(CounterOrder::Bare) },
    Clock { name: COUNTERS[1], read_by: ReadBy::Counter(CounterOrder::Fenced) },
    Clock { name: COUNTERS[2], read_by: ReadBy::Counter(CounterOrder::Rdtscp) },
];

/// Names of the ways to read the counter: unordered, with a fence before, and waiting for earlier
/// instructions (`rdtscp`).
pub const COUNTERS: [&str; 3] = COUNTER_NAMES;

/// Other names for some clocks, in plain form.
const ALIASES: [(&str, &str); 12] = [
    ("instant", "std::time::Instant"),
    ("sched_getcpu", "getcpu"),
    ("getres", "clock_getres"),
    ("raw", "CLOCK_MONOTONIC_RAW"),
    ("process", "CLOCK_PROCESS_CPUTIME_ID"),
    ("thread", "CLOCK_THREAD_CPUTIME_ID"),
    ("tsc", COUNTERS[0]),
    ("rdtsc", COUNTERS[0]),
    ("cntvct_el0", COUNTERS[0]),
    ("rdtsc_ordered", COUNTERS[1]),
    ("rdtsc_fenced", COUNTERS[1]),
    ("cntvct_ordered", COUNTERS[1]),
];

const fn of_id(clock: ClockId) -> Clock {
    Clock { name: clock.name(), read_by: ReadBy::Function(Call::ClockGettime(clock)) }
}

impl Clock {
    /// The clock's routes.
    pub const fn routes(&self) -> &'static [Route] {
        match self.read_by {
            ReadBy::Function(_) => &[Route::Libc, Route::Vdso, Route::Syscall],
            ReadBy::Counter(_) => &[Route::Tsc],
            ReadBy::Instant => &[Route::Libc],
        }
    }

    /// The name in the form that is easiest to type.
    pub fn plain_name(&self) -> String {
        names::plain(self.name)
    }
}

/// The routes that a user can choose.
const ROUTES: [Route; 4] = [Route::Libc, Route::Vdso, Route::Syscall, Route::Tsc];

/// The clocks and routes that command line words choose; no words choose all.
///
/// # Errors
///
/// When a word is no name, or the choice has no path.
pub fn choose(clocks: &[String], routes: &[String]) -> Result<Vec<(&'static Clock, Route)>> {
    let named = clocks.iter().map(|word| clock_named(word));
    let mut chosen = names::distinct(named.collect::<Result<Vec<_>, _>>()?);
    if clocks.is_empty() {
        chosen = ALL.iter().collect();
    }
    let mut by: Vec<Route> =
        routes.iter().map(|word| route_named(word)).collect::<Result<_, _>>()?;
    if routes.is_empty() {
        by = ROUTES.to_vec();
    }
    let routes_of = |clock: &'static Clock| {
        clock.routes().iter().filter(|route| by.contains(route)).map(move |route| (clock, *route))
    };
    let paths: Vec<_> = chosen.iter().copied().flat_map(routes_of).collect();
    if paths.is_empty() {
        let clocks: Vec<&str> = chosen.iter().map(|clock| clock.name).collect();
        let routes: Vec<&str> = by.iter().map(|route| route.name()).collect();
        let (clocks, routes) = (clocks.join(" and "), routes.join(" or "));
        bail!("{clocks} cannot be read by {routes}; try other routes, or none to get all");
    }
    Ok(paths)
}

fn clock_named(word: &str) -> Result<&'static Clock, NoSuchName> {
    let wanted = names::plain(word);
    let is_meant = |clock: &&Clock| {
        clock.plain_name() == wanted
            || ALIASES.iter().any(|(alias, name)| *alias == wanted && *name == clock.name)
    };
    ALL.iter().find(is_meant).ok_or_else(|| {
        let plain: Vec<String> = ALL.iter().map(Clock::plain_name).collect();
        let known: Vec<&str> = plain.iter().map(String::as_str).collect();
        NoSuchName::new("clock", word, &wanted, &known)
    })
}

fn route_named(word: &str) -> Result<Route, NoSuchName> {
    let wanted = word.trim().to_ascii_lowercase();
    let found = ROUTES.into_iter().find(|route| route.name() == wanted);
    found.ok_or_else(|| NoSuchName::new("route", word, &wanted, &ROUTES.map(Route::name)))
}

/// Makes the loops for `chosen`. Paths that this machine lacks are declined with the reason. `vdso` has the
/// addresses of the vDSO's functions.
pub fn paths(
    chosen: &[(&Clock, Route)],
    vdso: &Result<Functions, NoFunctions>,
) -> (Vec<Path>, Vec<PathDecline>) {
    let (mut paths, mut declined) = (Vec::new(), Vec::new());
    for (clock, route) in chosen {
        let name = of_clock(clock.name, *route);
        match looped(clock, *route, vdso) {
            Ok(calling) => paths.push(Path { name, calling }),
            Err(reason) => declined.push(PathDecline { name, reason }),
        }
    }
    (paths, declined)
}

/// The path of the loop without a call.
pub fn empty_loop() -> Path {
    Path { name: of_clock(EMPTY_LOOP, Route::None), calling: clock_loops::empty() }
}

fn looped(
    clock: &Clock,
    route: Route,
    vdso: &Result<Functions, NoFunctions>,
) -> Result<Loop, String> {
    let said = |calling: Result<Loop, NoLoop>| calling.map_err(|decline| decline.to_string());
    match (clock.read_by, route) {
        (ReadBy::Function(call), Route::Libc) => said(clock_loops::by_libc(call)),
        (ReadBy::Function(call), Route::Syscall) => said(clock_loops::by_syscall(call)),
        (ReadBy::Function(call), Route::Vdso) => {
            let functions = vdso.as_ref().map_err(ToString::to_string)?;
            said(clock_loops::by_vdso(call, functions))
        }
        (ReadBy::Counter(counter), Route::Tsc) => said(clock_loops::of_counter(counter)),
        (ReadBy::Instant, Route::Libc) => Ok(clock_loops::instant()),
        _ => Err(format!("there is no route {} to it", route.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn chosen(clocks: &[&str], routes: &[&str]) -> Vec<(&'static str, &'static str)> {
        let paths = choose(&words(clocks), &words(routes)).unwrap();
        paths.iter().map(|(clock, route)| (clock.name, route.name())).collect()
    }

    #[test]
    fn no_words_choose_every_clock_by_every_route() {
        let all = chosen(&[], &[]);
        assert_eq!(all.len(), 13 * 3 + 1 + 3);
        assert!(all.contains(&("CLOCK_TAI", "vdso")) && all.contains(&(COUNTERS[1], "tsc")));
    }

    #[test]
    fn words_choose_in_their_order_and_once() {
        let routes = &["vdso", "LIBC"];
        assert_eq!(
            chosen(&["tai", "CLOCK_MONOTONIC", "Tai", "instant"], routes),
            [
                ("CLOCK_TAI", "libc"),
                ("CLOCK_TAI", "vdso"),
                ("CLOCK_MONOTONIC", "libc"),
                ("CLOCK_MONOTONIC", "vdso"),
                ("std::time::Instant", "libc"),
            ]
        );
    }

    #[test]
    fn every_alias_is_of_a_clock_and_hides_none() {
        for (alias, name) in ALIASES {
            assert_eq!(clock_named(alias).unwrap().name, name, "{alias}");
        }
        for clock in &ALL {
            assert_eq!(clock_named(clock.name).unwrap(), clock);
            assert_eq!(clock_named(&clock.plain_name()).unwrap(), clock);
        }
    }

    #[test]
    fn a_slip_is_answered_with_the_nearest_name_and_all_names() {
        let error = choose(&words(&["monotnic"]), &[]).unwrap_err().to_string();
        assert!(error.contains("\"monotnic\"; did you mean monotonic? there are realtime, "));
        assert!(!error.contains('\n') && error.contains("lfence_rdtsc"), "{error}");
        let error = choose(&[], &words(&["vsdo"])).unwrap_err().to_string();
        assert_eq!(
            error,
            "no route is called \"vsdo\"; did you mean vdso? there are libc, vdso, syscall, tsc"
        );
        let error = choose(&words(&["rdtscp"]), &words(&["vdso", "libc"])).unwrap_err().to_string();
        assert!(error.starts_with("rdtscp cannot be read by vdso or libc"), "{error}");
    }

    #[test]
    fn without_a_vdso_only_its_route_is_declined() {
        let chosen = choose(&words(&["monotonic", "rdtsc"]), &[]).unwrap();
        let (paths, declined) = paths(&chosen, &Err(NoFunctions::NoImage));
        let names: Vec<String> = paths.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(declined.len(), 1);
        assert_eq!(declined[0].name.route, "vdso");
        assert!(declined[0].reason.contains("no vDSO"), "{declined:?}");
    }
}
