//! Reasons why a fast clock gives the kernel's answer instead of its own.

use core::fmt;

/// Reason why the kernel's clock answers, as a clause. Numbered because a page carries the number.
///
/// # References
///
/// docs/PAGE.md lists the numbers, `state` and `reason` there
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum Decline {
    /// The counter has not been measured for long enough yet.
    Starting = 1,
    /// The page was not renewed before its end.
    Expired = 2,
    /// The process that wrote the page is dead.
    WriterDied = 3,
    /// The process that wrote the page has ended its work.
    WriterStopped = 4,
    /// The kernel's clock, as this process sees it, is another than the page's: a time namespace.
    OtherClock = 5,
    /// The counter's rate depends on the CPU's frequency or stops in sleep.
    NotInvariant = 6,
    /// The kernel's clocksource is not the counter.
    Clocksource = 7,
    /// The kernel's clocksource has changed.
    ClocksourceChanged = 8,
    /// The counters of two CPUs differ.
    Warp = 9,
    /// The counter's rate disagrees with the kernel's clock.
    RateChanged = 10,
    /// The counter or the kernel's clock has jumped.
    Jumped = 11,
    /// The machine was suspended.
    Suspended = 12,
    /// The virtual machine was moved or restored (vmclock's disruption marker).
    Disrupted = 13,
    /// The counter stands still.
    CounterStopped = 14,
    /// The counter went back.
    CounterBackwards = 15,
    /// This process may not read the counter (`PR_SET_TSC`).
    Forbidden = 16,
    /// This crate knows no counter on this CPU and operating system.
    NoCounter = 17,
    /// The page is shorter than it must be.
    PageTruncated = 18,
    /// The file given as a page is not a page.
    PageForeign = 19,
    /// The page has another version.
    PageVersion = 20,
    /// The page's content contradicts itself.
    PageDamaged = 21,
    /// The page was written before this boot.
    PageOfOtherBoot = 22,
    /// The page could not be opened.
    PageUnreadable = 23,
    /// The kernel's clock could not be followed closely enough: its reads take too long.
    TooUncertain = 24,
}

impl Decline {
    /// Every reason, in the order of the numbers.
    pub const ALL: [Self; 24] = [
        Self::Starting,
        Self::Expired,
        Self::WriterDied,
        Self::WriterStopped,
        Self::OtherClock,
        Self::NotInvariant,
        Self::Clocksource,
        Self::ClocksourceChanged,
        Self::Warp,
        Self::RateChanged,
        Self::Jumped,
        Self::Suspended,
        Self::Disrupted,
        Self::CounterStopped,
        Self::CounterBackwards,
        Self::Forbidden,
        Self::NoCounter,
        Self::PageTruncated,
        Self::PageForeign,
        Self::PageVersion,
        Self::PageDamaged,
        Self::PageOfOtherBoot,
        Self::PageUnreadable,
        Self::TooUncertain,
    ];

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

    /// The clause in words, for example `the machine was suspended`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "the counter has not been measured for long enough yet",
            Self::Expired => "the page was not renewed in time",
            Self::WriterDied => "the process that wrote the page is dead",
            Self::WriterStopped => "the process that wrote the page has ended its work",
            Self::OtherClock => "this process has another clock (a time namespace?)",
            Self::NotInvariant => "the counter's rate is not constant on this CPU",
            Self::Clocksource => "the kernel does not use the counter as its clocksource",
            Self::ClocksourceChanged => "the kernel's clocksource has changed",
            Self::Warp => "the counters of two CPUs differ",
            Self::RateChanged => "the counter's rate disagrees with the kernel's clock",
            Self::Jumped => "the counter or the kernel's clock has jumped",
            Self::Suspended => "the machine was suspended",
            Self::Disrupted => "the virtual machine was moved or restored",
            Self::CounterStopped => "the counter stands still",
            Self::CounterBackwards => "the counter went back",
            Self::Forbidden => "this process may not read the counter (PR_SET_TSC)",
            Self::NoCounter => "there is no counter to read on this system",
            Self::PageTruncated => "the page is truncated",
            Self::PageForeign => "the file is not a clock page",
            Self::PageVersion => "the page has another version",
            Self::PageDamaged => "the page's content is damaged",
            Self::PageOfOtherBoot => "the page was written before this boot",
            Self::PageUnreadable => "the page cannot be opened",
            Self::TooUncertain => {
                "the kernel's clock takes too long to read to be followed closely"
            }
        }
    }
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
