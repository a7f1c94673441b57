//! The parts of a clock that need no operating system: units, clock ids and the conversion from
//! counter ticks to nanoseconds.
//!
//! Everything here is pure arithmetic on values, usable without the standard library, and contains
//! no `unsafe`. It is shared by clockscope's vDSO image (which runs inside other programs) and by
//! the `clockscope` command.
//!
//! # Examples
//!
//! ```
//! use fastclock::{Scale, TickRate, Ticks};
//!
//! let rate = TickRate::from_hz(2_500_000_000).unwrap();
//! let scale = Scale::from_rate(rate);
//! assert_eq!(scale.to_nanos(Ticks(250)).0, 100);
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod clock_id;
mod scale;
mod units;

pub use clock_id::ClockId;
pub use scale::{RateError, Scale, TickRate};
pub use units::{Nanos, Picos, Ticks};
