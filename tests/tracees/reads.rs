//! Rust's standard library: prime numbers of `Instant::now` and `SystemTime::now`, on two threads.
//!
//! Exact: the library reads no clock of its own, and std's clocks are `CLOCK_MONOTONIC` and
//! `CLOCK_REALTIME` through libc.

use std::time::{Instant, SystemTime};

fn read_clocks() {
    for _ in 0..1009 {
        std::hint::black_box(Instant::now());
    }
    for _ in 0..503 {
        std::hint::black_box(SystemTime::now());
    }
}

fn main() {
    let other = std::thread::spawn(read_clocks);
    read_clocks();
    other.join().unwrap();
    for _ in 0..223 {
        std::hint::black_box(std::os::unix::process::parent_id());
    }
    println!("vdso clock_gettime CLOCK_MONOTONIC {}", 2 * 1009);
    println!("vdso clock_gettime CLOCK_REALTIME {}", 2 * 503);
    println!("syscall getppid 223\nthreads 2\nprocesses 1");
}
