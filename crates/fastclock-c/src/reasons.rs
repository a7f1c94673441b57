//! The state of a clock as numbers for C: whether it answers by itself, and the reason if not.

use std::ffi::{c_char, c_int};

use fastclock::Decline;

/// The reason why a clock gives the kernel's answers, as returned by `fastclock_status()`. Later
/// versions may add reasons: treat an unknown number as "the kernel answers".
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the name in C")]
pub enum fastclock_reason_t {
    /// None: the clock answers by itself.
    FASTCLOCK_FAST = 0,
    /// The counter has not been measured for long enough yet.
    FASTCLOCK_STARTING = 1,
    /// The page was not renewed in time.
    FASTCLOCK_EXPIRED = 2,
    /// The process that wrote the page is dead.
    FASTCLOCK_WRITER_DIED = 3,
    /// The process that wrote the page has ended its work.
    FASTCLOCK_WRITER_STOPPED = 4,
    /// This process has another clock than the page: a time namespace.
    FASTCLOCK_OTHER_CLOCK = 5,
    /// The counter's rate is not constant on this CPU.
    FASTCLOCK_NOT_INVARIANT = 6,
    /// The kernel does not use the counter as its clocksource.
    FASTCLOCK_CLOCKSOURCE = 7,
    /// The kernel's clocksource has changed.
    FASTCLOCK_CLOCKSOURCE_CHANGED = 8,
    /// The counters of two CPUs differ.
    FASTCLOCK_WARP = 9,
    /// The counter's rate disagrees with the kernel's clock.
    FASTCLOCK_RATE_CHANGED = 10,
    /// The counter or the kernel's clock has jumped.
    FASTCLOCK_JUMPED = 11,
    /// The machine was suspended.
    FASTCLOCK_SUSPENDED = 12,
    /// The virtual machine was moved or restored.
    FASTCLOCK_DISRUPTED = 13,
    /// The counter stands still.
    FASTCLOCK_COUNTER_STOPPED = 14,
    /// The counter went back.
    FASTCLOCK_COUNTER_BACKWARDS = 15,
    /// This process may not read the counter (PR_SET_TSC).
    FASTCLOCK_FORBIDDEN = 16,
    /// There is no counter to read on this CPU.
    FASTCLOCK_NO_COUNTER = 17,
    /// The page is truncated.
    FASTCLOCK_PAGE_TRUNCATED = 18,
    /// The file is not a clock page.
    FASTCLOCK_PAGE_FOREIGN = 19,
    /// The page has another version.
    FASTCLOCK_PAGE_VERSION = 20,
    /// The page's content is damaged.
    FASTCLOCK_PAGE_DAMAGED = 21,
    /// The page was written before this boot.
    FASTCLOCK_PAGE_OF_OTHER_BOOT = 22,
    /// The page cannot be opened.
    FASTCLOCK_PAGE_UNREADABLE = 23,
    /// The kernel's clock takes too long to read to be followed closely.
    FASTCLOCK_TOO_UNCERTAIN = 24,
}

/// The reason as a clause in English, for example "the machine was suspended"; never NULL, also for
/// unknown numbers and FASTCLOCK_ERROR. The text is constant and must not be freed.
#[unsafe(no_mangle)]
pub extern "C" fn fastclock_reason_text(reason: c_int) -> *const c_char {
    let text = match usize::try_from(reason) {
        Ok(0) => c"the clock answers by itself",
        Ok(number) if number <= TEXTS.len() => return TEXTS[number - 1].as_ptr().cast(),
        Ok(_) => c"a reason that this version does not know",
        Err(_) => c"there is no clock",
    };
    text.as_ptr()
}

/// Longer than any reason with its terminating zero.
const LONGEST: usize = 96;

/// The reasons in the order of their numbers, each padded with zeroes.
static TEXTS: [[u8; LONGEST]; Decline::ALL.len()] = {
    let mut texts = [[0; LONGEST]; Decline::ALL.len()];
    let mut number = 0;
    while number < texts.len() {
        let words = Decline::ALL[number].as_str().as_bytes();
        assert!(words.len() < LONGEST);
        let mut at = 0;
        while at < words.len() {
            texts[number][at] = words[at];
            at += 1;
        }
        number += 1;
    }
    texts
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn text(reason: c_int) -> &'static str {
        // SAFETY: the function gives a constant text that ends with a zero.
        unsafe { CStr::from_ptr(fastclock_reason_text(reason)) }.to_str().expect("is UTF-8")
    }

    #[test]
    fn each_reason_has_its_words() {
        for reason in Decline::ALL {
            assert_eq!(text(c_int::try_from(reason.as_raw()).expect("small")), reason.as_str());
        }
    }

    #[test]
    fn every_number_has_words() {
        assert_eq!(text(0), "the clock answers by itself");
        assert_eq!(text(-1), "there is no clock");
        assert_eq!(text(c_int::MIN), "there is no clock");
        assert_eq!(text(1000), "a reason that this version does not know");
        assert_eq!(text(c_int::MAX), "a reason that this version does not know");
    }

    #[test]
    fn each_reason_has_a_name_in_the_header() {
        let header = include_str!("../include/fastclock.h");
        for reason in Decline::ALL {
            let mut name = String::from("FASTCLOCK");
            for letter in format!("{reason:?}").chars() {
                name.extend(letter.is_uppercase().then_some('_'));
                name.extend(letter.to_uppercase());
            }
            let line = format!("    {name} = {},", reason.as_raw());
            assert!(header.contains(&line), "{line} is missing in fastclock.h");
        }
        assert!(header.contains("    FASTCLOCK_FAST = 0,"));
        let enumerators = header.lines().skip_while(|line| !line.contains("FASTCLOCK_FAST = 0"));
        let names = enumerators.take_while(|line| !line.starts_with('}'));
        let names = names.filter(|line| line.starts_with("    FASTCLOCK_"));
        assert_eq!(names.count(), Decline::ALL.len() + 1);
    }
}
