//! The flags that promise a constant rate, and a thread that may not read the counter.

use super::flags_promise_it;
use crate::clock::Clock;
use crate::decline::Decline;
use crate::sys::may_read_counter;
use crate::sys::process_tests::{in_child, keeps_to_the_kernel};

#[test]
fn both_flags_are_needed() {
    let with = |flags: &str| flags_promise_it(std::format!("flags\t\t: {flags}\n").as_bytes());
    assert!(with("fpu constant_tsc rep_good nonstop_tsc"));
    assert!(!with("fpu constant_tsc"));
    assert!(!with("fpu nonstop_tsc constant_tsc_not"));
    assert!(!flags_promise_it(b""));
    assert!(!flags_promise_it(b"bugs : constant_tsc nonstop_tsc\n"));
}

fn set_tsc(mode: libc::c_int) -> bool {
    // SAFETY: takes numbers and concerns this thread only.
    unsafe { libc::prctl(libc::PR_SET_TSC, mode) == 0 }
}

#[test]
fn a_thread_without_the_counter_gets_the_kernels_answer() {
    let work = || {
        if !set_tsc(libc::PR_TSC_SIGSEGV) {
            return true; // a seccomp filter, or a kernel without PR_SET_TSC
        }
        let forbidden = !may_read_counter();
        let clock = Clock::alone();
        let declined = clock.now_bounded().declined;
        let kept = keeps_to_the_kernel(&clock, 100);
        let real = clock.realtime_fast().as_nanos() > 0 && clock.coarse().as_nanos() > 0;
        let status = clock.status();
        // Once the counter is allowed again, the clock begins to measure.
        let given = set_tsc(libc::PR_TSC_ENABLE) && may_read_counter();
        clock.renew_for_test();
        let after = clock.now_bounded().declined;
        forbidden
            && declined == Some(Decline::Forbidden)
            && status.declined == Some(Decline::Forbidden)
            && status.kernel_answers_for(Decline::Forbidden) > 100
            && kept
            && real
            && given
            && after != Some(Decline::Forbidden)
    };
    assert_eq!(in_child(work), 0);
}
