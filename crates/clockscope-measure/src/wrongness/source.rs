//! Sources of readings: a clock by a route, or a counter. They are functions, so a test can substitute a clock
//! with a known fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::path::Route;
use clockscope_sys::clock_reads::Timespec;

/// Unit of a clock's readings in JSON.
pub(crate) const NANOS: &str = "ns";
/// Unit of a counter's readings in JSON.
pub(crate) const TICKS: &str = "ticks";

/// Gives a reading, in the unit of the subject.
pub type Readable = dyn Fn() -> i64 + Send + Sync;

/// A clock by a route. `read` returns a reading, or `None` if the clock returns an error. If a clock becomes
/// unreadable, its readings are -1 ns, which no clock returns.
pub(crate) fn clock_by(
    read: impl Fn() -> Option<Timespec> + Send + Sync,
) -> impl Fn() -> i64 + Send + Sync {
    move || {
        let (seconds, nanos) = read().unwrap_or((0, -1));
        seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
    }
}

/// All routes to a clock, each reading by the next route. There must be one at least.
pub(crate) fn in_turn(routes: &[(Route, Arc<Readable>)]) -> impl Fn() -> i64 + Send + Sync + use<> {
    let routes: Vec<Arc<Readable>> = routes.iter().map(|(_, source)| Arc::clone(source)).collect();
    let next = AtomicUsize::new(0);
    move || routes[next.fetch_add(1, Ordering::Relaxed) % routes.len()]()
}
