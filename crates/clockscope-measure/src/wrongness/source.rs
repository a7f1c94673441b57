//! Sources of readings: a clock by a route, or a counter. They implement a trait, so a test can substitute a
//! clock with a known fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::path::Route;
use clockscope_sys::clock_reads::Timespec;

/// Unit of a clock's readings in JSON.
pub(crate) const NANOS: &str = "ns";
/// Unit of a counter's readings in JSON.
pub(crate) const TICKS: &str = "ticks";

/// A source that can be read repeatedly.
pub trait Readable: Send + Sync {
    /// A reading, in the unit of the subject.
    fn read(&self) -> i64;
}

impl<F: Fn() -> i64 + Send + Sync> Readable for F {
    #[inline]
    fn read(&self) -> i64 {
        self()
    }
}

/// A clock by a route. `read` returns a reading, or `None` if the clock returns an error. If a clock becomes
/// unreadable, its readings are -1 ns, which no clock returns.
pub(crate) fn clock_by(read: impl Fn() -> Option<Timespec> + Send + Sync) -> impl Readable {
    move || {
        let (seconds, nanos) = read().unwrap_or((0, -1));
        seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
    }
}

/// All routes to a clock, each reading by the next route.
pub(crate) struct InTurn<'a> {
    routes: &'a [(Route, Arc<dyn Readable>)],
    next: AtomicUsize,
}

impl<'a> InTurn<'a> {
    /// Starts with the first route; `routes` must not be empty.
    pub(crate) fn new(routes: &'a [(Route, Arc<dyn Readable>)]) -> Self {
        Self { routes, next: AtomicUsize::new(0) }
    }
}

impl Readable for InTurn<'_> {
    #[inline]
    fn read(&self) -> i64 {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.routes[turn % self.routes.len()].1.read()
    }
}
