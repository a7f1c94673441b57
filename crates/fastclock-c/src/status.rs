//! Status and counts of a clock.

use std::ffi::c_int;

use fastclock::Decline;

use crate::clock::{ERROR, FASTCLOCK_ERROR, fastclock_t};

/// The reason's number, or 0 for none.
fn number(reason: Option<Decline>) -> c_int {
    reason.map_or(0, |reason| reason.as_raw().cast_signed())
}

/// A count as int64_t; saturates.
fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// 0 (FASTCLOCK_FAST) if the clock answers by itself; otherwise the reason why the kernel answers,
/// a fastclock_reason_t. FASTCLOCK_ERROR if `clock` is NULL. The status holds for this moment: the
/// next reading may find another one.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_status(clock: Option<&fastclock_t>) -> c_int {
    clock.map_or(FASTCLOCK_ERROR, |clock| number(clock.0.status().declined))
}

/// The reason why fastclock_new() did not take the page of the host's timekeeper, a
/// fastclock_reason_t; 0 if it did, or if the clock was made by another function. FASTCLOCK_ERROR
/// if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_host_page(clock: Option<&fastclock_t>) -> c_int {
    clock.map_or(FASTCLOCK_ERROR, |clock| number(clock.0.status().host_page))
}

/// Number of the kernel's answers for this reason, a fastclock_reason_t, in this process; for all
/// reasons if `reason` is 0. FASTCLOCK_ERROR if `clock` is NULL or there is no such reason.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_kernel_answers(clock: Option<&fastclock_t>, reason: c_int) -> i64 {
    let Some(fastclock_t(clock)) = clock else { return ERROR };
    if reason == 0 {
        return count(clock.status().kernel_answers());
    }
    let reason = u32::try_from(reason).ok().and_then(Decline::from_raw);
    reason.map_or(ERROR, |reason| count(clock.status().kernel_answers_for(reason)))
}

/// Number of looks at the kernel's clock by which this process kept a clock that keeps itself.
/// FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_renewals(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| count(clock.0.status().renewals))
}

/// Number of times that fastclock_elapsed() returned 0 for a time that lay ahead. FASTCLOCK_ERROR
/// if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_negative(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(ERROR, |clock| count(clock.0.status().negative))
}
