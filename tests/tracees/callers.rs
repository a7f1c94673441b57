//! Call paths in Rust that are known by construction: `callers ROUNDS`. Frames of the standard library
//! may be in between.
//!
//! Exact: each path prints how many calls it made, and the library makes none by itself.

use std::hint::black_box;
use std::time::{Instant, SystemTime};

trait Site {
    fn site_trait(&self, calls: u64);
}

struct Wall;

impl Site for Wall {
    #[inline(never)]
    fn site_trait(&self, calls: u64) {
        for _ in 0..calls {
            black_box(SystemTime::now());
        }
        black_box(());
    }
}

#[inline(never)]
fn site_generic<T: Copy>(value: T, calls: u64) {
    for _ in 0..calls {
        black_box((value, Instant::now()));
    }
    black_box(());
}

#[inline(always)]
fn site_inlined() {
    black_box(SystemTime::now());
}

#[inline(never)]
fn site_outer(calls: u64) {
    for _ in 0..calls {
        site_inlined();
    }
    black_box(());
}

#[inline(never)]
fn site_deep(calls: u64) {
    for _ in 0..calls {
        black_box(Instant::now());
    }
    black_box(());
}

#[inline(never)]
fn descend(depth: u32, calls: u64) -> u32 {
    let below = if black_box(depth) == 1 {
        site_deep(calls);
        0
    } else {
        descend(depth - 1, calls)
    };
    black_box(below) + 1
}

#[inline(never)]
fn site_by_key(number: u64) -> u64 {
    black_box(Instant::now());
    number * 37 % 32
}

/// The frames of the library's sort are in between.
#[inline(never)]
fn run_sort(numbers: &mut [u64]) {
    numbers.sort_by_cached_key(|number| site_by_key(*number));
    black_box(());
}

#[inline(never)]
fn site_pool(calls: u64) {
    for _ in 0..calls {
        black_box(SystemTime::now());
    }
    black_box(());
}

#[inline(never)]
fn pool_thread(rounds: u64) {
    for _ in 0..rounds {
        site_pool(100);
    }
    black_box(());
}

#[inline(never)]
fn run_sites(rounds: u64, site: &dyn Site) {
    let mut numbers: [u64; 32] = std::array::from_fn(|index| index as u64);
    for _ in 0..rounds {
        site.site_trait(50);
        site_generic(1.5_f64, 100);
        site_outer(25);
        descend(60, 25);
        run_sort(&mut numbers);
    }
    black_box(());
}

fn say(path: &str, clock: &str, calls: u64) {
    println!("path {path} clock_gettime {clock} {calls}");
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(move || pool_thread(rounds))).collect();
    run_sites(black_box(rounds), black_box(&Wall));
    for thread in threads {
        thread.join().unwrap();
    }
    say("site_trait;run_sites;main", "CLOCK_REALTIME", 50 * rounds);
    say("site_generic;run_sites;main", "CLOCK_MONOTONIC", 100 * rounds);
    say("+site_inlined;site_outer;run_sites;main", "CLOCK_REALTIME", 25 * rounds);
    say("site_deep;descend*60;run_sites;main", "CLOCK_MONOTONIC", 25 * rounds);
    say("site_by_key;run_sort;run_sites;main", "CLOCK_MONOTONIC", 32 * rounds);
    say("site_pool;pool_thread", "CLOCK_REALTIME", 200 * rounds);
}
