//! What a clock says of itself.

use std::ffi::c_int;

use fastclock::Decline;

use crate::making::{FASTCLOCK_ERROR, fastclock_t};

/// 0 without a reason.
fn number(reason: Option<Decline>) -> c_int {
    reason.map_or(0, |reason| reason.as_raw().cast_signed())
}

/// A count as C gets it.
fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// 0 (FASTCLOCK_FAST) if the clock answers by itself; otherwise why the kernel answers, a
/// fastclock_reason_t. FASTCLOCK_ERROR if `clock` is NULL. As of this moment: the next reading may
/// find otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_status(clock: Option<&fastclock_t>) -> c_int {
    clock.map_or(FASTCLOCK_ERROR, |clock| number(clock.0.status().declined))
}

/// Why fastclock_new() has not taken the page of the host's timekeeper, a fastclock_reason_t; 0 if
/// it has, or if the clock was made by another function. FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_host_page(clock: Option<&fastclock_t>) -> c_int {
    clock.map_or(FASTCLOCK_ERROR, |clock| number(clock.0.status().host_page))
}

/// How often the kernel answered for this reason, a fastclock_reason_t, in this process; for any
/// reason if it is 0. FASTCLOCK_ERROR if `clock` is NULL or there is no such reason.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_kernel_answers(clock: Option<&fastclock_t>, reason: c_int) -> i64 {
    let error = i64::from(FASTCLOCK_ERROR);
    let Some(fastclock_t(clock)) = clock else { return error };
    if reason == 0 {
        return count(clock.status().kernel_answers());
    }
    let reason = u32::try_from(reason).ok().and_then(Decline::from_raw);
    reason.map_or(error, |reason| count(clock.status().kernel_answers_for(reason)))
}

/// How often this process has looked at the kernel's clock to keep a clock that is alone.
/// FASTCLOCK_ERROR if `clock` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_renewals(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(i64::from(FASTCLOCK_ERROR), |clock| count(clock.0.status().renewals))
}

/// How often fastclock_elapsed() gave 0 for a time that lay ahead. FASTCLOCK_ERROR if `clock` is
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_negative(clock: Option<&fastclock_t>) -> i64 {
    clock.map_or(i64::from(FASTCLOCK_ERROR), |clock| count(clock.0.status().negative))
}
