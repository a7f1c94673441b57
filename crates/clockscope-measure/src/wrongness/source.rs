//! What is read: a clock by a route, or a counter. Behind a trait, so that a test can put a clock
//! with a known fault in its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::path::Route;
use clockscope_sys::clock_reads::Timespec;

/// What a reading of a clock counts, as in JSON.
pub(crate) const NANOS: &str = "ns";
/// What a reading of a counter counts.
pub(crate) const TICKS: &str = "ticks";

/// Something that can be read again and again.
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

/// A clock by a route: by a function that gives a reading, or `None` where the clock gives an error. A clock that
/// was readable once and is no more stands at -1 ns, at which no clock stands.
pub(crate) fn clock_by(read: impl Fn() -> Option<Timespec> + Send + Sync) -> impl Readable {
    move || {
        let (seconds, nanos) = read().unwrap_or((0, -1));
        seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
    }
}

/// All routes to a clock, each reading by the next one.
pub(crate) struct InTurn<'a> {
    routes: &'a [(Route, Arc<dyn Readable>)],
    next: AtomicUsize,
}

impl<'a> InTurn<'a> {
    /// Begins with the first; there must be one.
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
