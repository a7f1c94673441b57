//! How far the clocks get from `CLOCK_MONOTONIC`, and whether the bound that fastclock gives holds.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clockscope_sys::affinity;
use fastclock::Clock;

use crate::bracket::{Bracketed, monotonic};
use crate::clocks;
use crate::figure::exact_verdict;
use crate::machine::measured_by;
use crate::page::Page;
use crate::process::{Running, words};
use crate::suite::Suite;

const WINDOW: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// Brackets of a sample, of which the tightest counts.
const BRACKETS: usize = 7;
/// Bounded readings of each clock after each pause: more than a million in all.
const BURST: usize = 450;
const MOST_NS: i64 = 50;
const MOST_BOUND_NS: i64 = 1000;
/// How long a timekeeper may take until its page answers.
const PATIENCE: Duration = Duration::from_secs(10);
const ALONE: &str = "fastclock alone";
const EACH_SECOND: &str = "fastclock, page disciplined each second";

/// A clock and what was seen of it.
struct Watched {
    name: String,
    read: Box<dyn Fn() -> i64>,
    /// What it is ahead in the beginning, where its zero is its own.
    zero: i64,
    /// How far it was ahead; ns.
    ahead: Vec<i64>,
}

impl Watched {
    fn worst(&self) -> i64 {
        self.ahead.iter().map(|ahead| ahead.abs()).max().unwrap_or(0)
    }
}

/// One of fastclock's clocks, and how its bounded readings lie to their brackets.
struct Bounded {
    name: String,
    clock: &'static Clock,
    samples: u64,
    /// The whole bracket is inside the interval: the true error is.
    inside: u64,
    /// They do not touch: the true error is outside.
    outside: u64,
    /// The kernel answered.
    declined: u64,
    bounds: Vec<i64>,
}

impl Bounded {
    fn of(name: &str, clock: &'static Clock) -> Self {
        let name = name.to_owned();
        Self { name, clock, samples: 0, inside: 0, outside: 0, declined: 0, bounds: Vec::new() }
    }

    fn sample(&mut self) {
        let before = monotonic();
        let found = self.clock.now_bounded();
        let after = monotonic();
        if found.declined.is_some() {
            self.declined += 1;
            return;
        }
        let (time, bound) = (found.time.0.0, found.bound.0);
        let (low, high) = (time - bound, time + bound);
        self.samples += 1;
        self.inside += u64::from(low <= before && after <= high);
        self.outside += u64::from(high < before || after < low);
        self.bounds.push(bound);
    }
}

pub(crate) fn run(suite: &Suite, page: &mut Page) -> Result<()> {
    let window = suite.options.choose(WINDOW, WINDOW / 12);
    page.heading(2, "Distance from CLOCK_MONOTONIC, and the bound");
    page.text(&measured_by("accuracy"));
    page.text(&format!(
        "{} s, a sample each {} ms: a reading between two of CLOCK_MONOTONIC, the tightest bracket of {BRACKETS}. \
         fastclock's clocks are to tell MONOTONIC's time; the others have a zero of their own, and what counts is how \
         far they have moved since the first sample. The first row is the kernel's clock itself: what brackets can see.",
        window.as_secs(),
        PAUSE.as_millis()
    ));
    let before = affinity::allowed()?;
    affinity::restrict_to(&[*before.last().context("no CPU")?])?;
    let done = observed(suite, page, window);
    affinity::restrict_to(&before)?;
    done
}

fn observed(suite: &Suite, page: &mut Page, window: Duration) -> Result<()> {
    let mut own = vec![(ALONE, leaked(Clock::alone()))];
    let mut keepers = Vec::new();
    for (name, period) in
        [(EACH_SECOND, "1s"), ("fastclock, page disciplined each 100 ms", "100ms")]
    {
        match disciplined(suite, period) {
            Ok((keeper, clock)) => {
                keepers.push(keeper);
                own.push((name, clock));
            }
            Err(error) => page.text(&format!("`{name}`: not measured: {error:#}")),
        }
    }
    for (_, clock) in &own {
        clock.calibrate(Duration::from_secs(1));
    }
    let mut watched = vec![watched("clock_gettime", monotonic, true)];
    for &(name, clock) in &own {
        watched.push(self::watched(name, move || clock.now().0.0, true));
    }
    for peer in clocks::start_peers() {
        watched.push(self::watched(peer.name, peer.read, false));
    }
    let mut bounded: Vec<Bounded> =
        own.iter().map(|(name, clock)| Bounded::of(name, clock)).collect();
    observe(window, &mut watched, &mut bounded);
    write_errors(page, &watched);
    write_bounds(page, &mut bounded);
    for (name, clock) in own {
        page.text(&format!("Afterwards {name} says: {}.", clock.status()));
    }
    Ok(())
}

fn leaked(clock: Clock) -> &'static Clock {
    Box::leak(Box::new(clock))
}

fn watched(name: &str, read: impl Fn() -> i64 + 'static, absolute: bool) -> Watched {
    let zero = if absolute { 0 } else { Bracketed::best_of(100, &read).ahead() };
    Watched { name: name.to_owned(), read: Box::new(read), zero, ahead: Vec::new() }
}

/// A page that a timekeeper of its own keeps, and a clock that reads it.
fn disciplined(suite: &Suite, period: &str) -> Result<(Running, &'static Clock)> {
    let path = suite.path(&format!("page-{period}"));
    let mut command: Vec<OsString> = vec![suite.tools.clockscope.clone().into()];
    command.extend(words("serve --foreground --period"));
    command.extend([period.into(), "--page".into(), path.clone().into()]);
    let keeper = Running::start(&command)?;
    let end = Instant::now() + PATIENCE;
    loop {
        if let Ok(clock) = Clock::from_path(&path)
            && clock.now_bounded().declined.is_none()
        {
            return Ok((keeper, leaked(clock)));
        }
        if Instant::now() > end {
            keeper.signal("TERM")?;
            let said = keeper.finish(PATIENCE)?.stderr;
            bail!("its page does not answer: {}", said.lines().last().unwrap_or("nothing said"));
        }
        std::thread::sleep(PAUSE);
    }
}

fn observe(window: Duration, watched: &mut [Watched], bounded: &mut [Bounded]) {
    let end = Instant::now() + window;
    while Instant::now() < end {
        std::thread::sleep(PAUSE);
        for one in &mut *watched {
            let best = Bracketed::best_of(BRACKETS, &one.read);
            one.ahead.push(best.ahead() - one.zero);
        }
        for one in &mut *bounded {
            for _ in 0..BURST {
                one.sample();
            }
        }
    }
}

fn write_errors(page: &mut Page, watched: &[Watched]) {
    let row = |one: &Watched| {
        let mut sizes: Vec<i64> = one.ahead.iter().map(|ahead| ahead.abs()).collect();
        sizes.sort_unstable();
        let typical = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
        vec![
            one.name.clone(),
            sizes.len().to_string(),
            typical.to_string(),
            one.worst().to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = watched.iter().map(row).collect();
    page.table(&["clock", "samples", "median off ns", "most off ns"], &rows);
    for one in watched.iter().filter(|one| one.name.starts_with("fastclock")) {
        let what = format!("60 s maximum error against MONOTONIC, {}", one.name);
        let found = format!("{} ns", one.worst());
        page.verdict(&exact_verdict(&what, "<= 50 ns", &found, one.worst() <= MOST_NS));
    }
}

fn write_bounds(page: &mut Page, bounded: &mut [Bounded]) {
    page.text(
        "Bounded readings, each between two of CLOCK_MONOTONIC. *proven*: the whole bracket lies within the bound, so \
         the true error does. *refuted*: not even an end of it does, so the bound is wrong. The others show nothing: \
         their brackets are too wide to lie within the bound.",
    );
    for one in &mut *bounded {
        one.bounds.sort_unstable();
    }
    let at = |one: &Bounded, share: usize| {
        let last = one.bounds.len().saturating_sub(1);
        one.bounds.get(last * share / 100).copied().unwrap_or(0)
    };
    let row = |one: &Bounded| {
        vec![
            one.name.clone(),
            one.samples.to_string(),
            format!("{:.4} %", one.inside as f64 / one.samples as f64 * 100.0),
            one.outside.to_string(),
            one.declined.to_string(),
            at(one, 50).to_string(),
            at(one, 100).to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = bounded.iter().map(row).collect();
    let head = [
        "clock",
        "samples",
        "proven",
        "refuted",
        "answered by the kernel",
        "median bound ns",
        "largest bound ns",
    ];
    page.table(&head, &rows);
    for one in &*bounded {
        let what = format!("true error inside the bound, {}", one.name);
        let found = format!("{} refuted of {}", one.outside, one.samples);
        let reached = one.outside == 0 && one.samples >= 1_000_000;
        page.verdict(&exact_verdict(&what, "always in >= 1 M samples", &found, reached));
    }
    if let Some(one) = bounded.iter().find(|one| one.name == EACH_SECOND) {
        let found = format!("{} ns at most", at(one, 100));
        let what = "bound when disciplined each second";
        page.verdict(&exact_verdict(what, "< 1 us", &found, at(one, 100) < MOST_BOUND_NS));
    }
}
