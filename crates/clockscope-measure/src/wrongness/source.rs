//! What is read: a clock by a route, or a counter. Behind a trait, so that a test can put a clock
//! with a known fault in its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::path::Route;
use clockscope_sys::clock_reads::Timespec;

/// What a reading counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Ticks of a counter.
    Ticks,
}

impl Unit {
    /// `ns` or `ticks`, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nanos => "ns",
            Self::Ticks => "ticks",
        }
    }
}

/// Something that can be read again and again.
pub trait Readable: Send + Sync {
    /// A reading, in the unit of the subject.
    fn read(&self) -> i64;
}

/// A counter, by the function that reads it.
#[derive(Clone, Copy, Debug)]
pub struct CounterBy<F>(pub F);

/// A clock by a route: by a function that gives a reading, or `None` where the clock gives an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockBy<F>(pub F);

const NANOS: i64 = 1_000_000_000;

/// What a clock gives that was readable once and is no more; no clock stands at it.
const UNREADABLE: Timespec = (0, -1);

impl<F: Fn() -> Option<Timespec> + Send + Sync> Readable for ClockBy<F> {
    #[inline]
    fn read(&self) -> i64 {
        let (seconds, nanos) = (self.0)().unwrap_or(UNREADABLE);
        seconds.saturating_mul(NANOS).saturating_add(nanos)
    }
}

impl<F: Fn() -> i64 + Send + Sync> Readable for CounterBy<F> {
    #[inline]
    fn read(&self) -> i64 {
        (self.0)()
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
