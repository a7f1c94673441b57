//! The other libraries' clocks, as users would set them up.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clock_bound_client::ClockBoundClient;
use clockscope_sys::tsc;
use fastclock::ClockId;

use crate::arch::fast_clock;
use crate::bracket::monotonic;

/// A clock of some library: nanoseconds since an instant of its own.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) read: Box<dyn Fn() -> i64>,
}

/// Sets up the libraries that keep a clock of their own and know this counter, one after another.
pub(crate) fn start_peers() -> Vec<Peer> {
    let quanta = {
        let clock = quanta::Clock::new();
        let epoch = clock.now();
        peer("quanta", move || nanos(clock.now().saturating_duration_since(epoch)))
    };
    let minstant = {
        let epoch = minstant::Instant::now();
        peer("minstant", move || nanos(minstant::Instant::now().saturating_duration_since(epoch)))
    };
    let fastant = {
        let epoch = fastant::Instant::now();
        peer("fastant", move || nanos(fastant::Instant::now().saturating_duration_since(epoch)))
    };
    let mut all = vec![quanta, minstant, fastant];
    all.extend(fast_clock().ok().map(|read| peer("fast-clock", read)));
    all
}

/// ClockBound's client on a page that says what its daemon would: synchronised just now, within
/// 100 us, good for an hour. No daemon runs; the client reads the page and the kernel's clocks as ever.
pub(crate) fn clock_bound(page: &Path) -> Result<ClockBoundClient> {
    std::fs::write(page, clock_bound_page()).context("failed to write a page for ClockBound")?;
    let path = page.to_str().context("a path that is no text")?;
    let mut client = ClockBoundClient::new_with_path(path)
        .map_err(|error| anyhow!("ClockBound's client: {error:?}"))?;
    client.now().map_err(|error| anyhow!("ClockBound's client: {error:?}"))?;
    Ok(client)
}

/// Version 2 of the page of docs/PROTOCOL.md in aws/clock-bound.
fn clock_bound_page() -> Vec<u8> {
    const SIZE: u32 = 80;
    const SYNCHRONIZED: u32 = 1;
    let as_of = tsc::now(ClockId::MonotonicCoarse).0.min(monotonic());
    let timespec = |nanos: i64| [nanos / 1_000_000_000, nanos % 1_000_000_000];
    let mut page = Vec::new();
    for word in [0x414d_5a4e_u32, 0x4342_0200, SIZE] {
        page.extend(word.to_ne_bytes());
    }
    for half in [2_u16, 2] {
        page.extend(half.to_ne_bytes()); // the version, an even generation
    }
    let void_after = as_of + 3_600_000_000_000;
    for word in [timespec(as_of), timespec(void_after)].concat() {
        page.extend(word.to_ne_bytes());
    }
    for word in [100_000_i64, 0] {
        page.extend(word.to_ne_bytes()); // the bound, the disruption marker
    }
    for word in [1_000_u32, SYNCHRONIZED, 0, 0] {
        page.extend(word.to_ne_bytes()); // ppb of drift, status, no disruption support
    }
    page
}

fn peer(name: &'static str, read: impl Fn() -> i64 + 'static) -> Peer {
    Peer { name, read: Box::new(read) }
}

/// As a number, saturated.
pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
