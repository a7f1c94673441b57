//! Reasons why a fast clock gives the kernel's answer instead of its own.

use crate::numbered::numbered;

numbered! {
    /// Reason why the kernel's clock answers, as a clause. Numbered because a page carries the number.
    ///
    /// # References
    ///
    /// docs/PAGE.md lists the numbers, `state` and `reason` there
    #[repr(u32)]
    pub enum Decline;
    /// Every reason, in the order of the numbers.
    pub const ALL;
    /// The clause in words, for example `the machine was suspended`.
    pub const fn as_str;

    /// The counter has not been measured for long enough yet.
    Starting = 1 "the counter has not been measured for long enough yet",
    /// The page was not renewed before its end.
    Expired = 2 "the page was not renewed in time",
    /// The process that wrote the page is dead.
    WriterDied = 3 "the process that wrote the page is dead",
    /// The process that wrote the page has ended its work.
    WriterStopped = 4 "the process that wrote the page has ended its work",
    /// The kernel's clock, as this process sees it, is another than the page's: a time namespace.
    OtherClock = 5 "this process has another clock (a time namespace?)",
    /// The counter's rate depends on the CPU's frequency or stops in sleep.
    NotInvariant = 6 "the counter's rate is not constant on this CPU",
    /// The kernel's clocksource is not the counter.
    Clocksource = 7 "the kernel does not use the counter as its clocksource",
    /// The kernel's clocksource has changed.
    ClocksourceChanged = 8 "the kernel's clocksource has changed",
    /// The counters of two CPUs differ.
    Warp = 9 "the counters of two CPUs differ",
    /// The counter's rate disagrees with the kernel's clock.
    RateChanged = 10 "the counter's rate disagrees with the kernel's clock",
    /// The counter or the kernel's clock has jumped.
    Jumped = 11 "the counter or the kernel's clock has jumped",
    /// The machine was suspended.
    Suspended = 12 "the machine was suspended",
    /// The virtual machine was moved or restored (vmclock's disruption marker).
    Disrupted = 13 "the virtual machine was moved or restored",
    /// The counter stands still.
    CounterStopped = 14 "the counter stands still",
    /// The counter went back.
    CounterBackwards = 15 "the counter went back",
    /// This process may not read the counter (`PR_SET_TSC`).
    Forbidden = 16 "this process may not read the counter (PR_SET_TSC)",
    /// This crate knows no counter on this CPU and operating system.
    NoCounter = 17 "there is no counter to read on this system",
    /// The page is shorter than it must be.
    PageTruncated = 18 "the page is truncated",
    /// The file given as a page is not a page.
    PageForeign = 19 "the file is not a clock page",
    /// The page has another version.
    PageVersion = 20 "the page has another version",
    /// The page's content contradicts itself.
    PageDamaged = 21 "the page's content is damaged",
    /// The page was written before this boot.
    PageOfOtherBoot = 22 "the page was written before this boot",
    /// The page could not be opened.
    PageUnreadable = 23 "the page cannot be opened",
    /// The kernel's clock could not be followed closely enough: its reads take too long.
    TooUncertain = 24 "the kernel's clock takes too long to read to be followed closely",
}

impl Decline {
    /// The number that a page carries.
    pub const fn as_raw(self) -> u32 {
        self as u32
    }

    /// The reason with this number, if there is one.
    #[inline]
    pub fn from_raw(raw: u32) -> Option<Self> {
        // By reference: a copy of the list would need stack that a clock read may not have.
        const ALL: &[Decline] = &Decline::ALL;
        ALL.get((raw as usize).wrapping_sub(1)).copied()
    }
}

impl core::error::Error for Decline {}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn numbers_and_reasons_belong_together() {
        for (index, reason) in Decline::ALL.into_iter().enumerate() {
            assert_eq!(reason.as_raw() as usize, index + 1);
            assert_eq!(Decline::from_raw(reason.as_raw()), Some(reason));
        }
        assert_eq!(Decline::from_raw(0), None);
        assert_eq!(Decline::from_raw(25), None);
    }

    #[test]
    fn a_reason_is_a_clause() {
        for reason in Decline::ALL {
            let words = reason.to_string();
            assert!(words.starts_with(char::is_lowercase) && !words.ends_with('.'), "{words}");
        }
    }
}
