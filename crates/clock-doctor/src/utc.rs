//! Clocks outside of this kernel's: readings as data, and what they prove about `CLOCK_REALTIME`. Pure.
//!
//! A daemon's word alone proves little: after a restore from a snapshot the kernel and the daemon go on with what they
//! measured before. So a reading of this moment goes before it, and a word from before the last discontinuity does not
//! count.

mod vmclock;

use clockscope_text::units;
use serde::{Deserialize, Serialize};

pub use vmclock::{Page, page};

const SECOND: i64 = 1_000_000_000;
/// How the driver's names for vmclock's PTP clocks begin (`drivers/ptp/ptp_vmclock.c`, Linux 6.18).
const VMCLOCK: &str = "vmclock";
/// 2020-01-01, in seconds since 1970. An RTC that is earlier has lost its battery.
const RTC_MIN: i64 = 1_577_836_800;
/// Zones differ from UTC by multiples of a quarter of an hour, up to 14 hours.
const QUARTER: i64 = 900 * SECOND;
const ZONE_MAX: i64 = 14 * 3600 * SECOND;
/// `time_maxerror` of the kernel grows by this many microseconds a second since it was set (`MAXFREQ` in
/// `second_overflow`, kernel/time/ntp.c, Linux 6.12). So it says how old it is at most.
const MAX_ERROR_GROWS_US: f64 = 500.0;
/// `NTP_PHASE_LIMIT` (include/linux/timex.h, Linux 6.12).
pub(crate) const UNKNOWN_ERROR_US: i64 = 16_000_000;
/// On a whole machine the RTC is written at shutdown and drifts by seconds a day, and it may keep local time: only if the
/// clock is more than this behind, it was never set.
const NEVER_SET_NS: i64 = 24 * 3600 * SECOND;

/// A time of `CLOCK_MONOTONIC` that is not known.
pub const SOMETIME: f64 = f64::INFINITY;

/// `CLOCK_REALTIME` beside all other clocks of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Comparison {
    /// `CLOCK_MONOTONIC` at that moment, in seconds.
    pub uptime_s: f64,
    /// The clocks that were read.
    pub references: Vec<Reference>,
    /// What the kernel says of itself (adjtimex).
    pub word: Option<Word>,
    /// vmclock's number of disruptions; hypervisors begin with 0.
    pub disruption_marker: Option<u64>,
    /// Clocks that are there and were not read: a clause each, with a remedy.
    pub unread: Vec<String>,
}

/// What kind of clock a reference is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The host's clock, or a clock that the time daemon follows.
    Host,
    /// The real-time clock.
    #[default]
    Rtc,
}

/// A reading of one clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    /// Its device, and the name that the driver gives it.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its time minus `CLOCK_REALTIME`, in nanoseconds: positive if the system's clock is behind.
    pub behind_ns: i64,
    /// Greatest error of the reading, in nanoseconds; a hypervisor that states the error of its clock adds it.
    pub error_ns: i64,
    /// The reason why this reading does not count, as a clause.
    pub aside: Option<String>,
}

/// What the kernel says of its time, as the daemon told it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Word {
    /// `the kernel`, with the daemon's name in parentheses if that is known.
    pub by: String,
    /// Greatest error that it states, in nanoseconds.
    pub error_ns: i64,
    /// Seconds since the last measurement, at most; `None` if none is known.
    pub age_s: Option<f64>,
}

impl Word {
    /// The word by `maxerror` in microseconds, and the offset in nanoseconds that is still slewed.
    ///
    /// Without `rtcsync`, chrony leaves STA_UNSYNC set and states its error all the same, so the bit decides nothing.
    /// Daemons that have lost their servers state 16 s, and so does a kernel that was never told.
    pub fn new(daemon: Option<&str>, max_error_us: i64, offset_ns: i64) -> Word {
        let by = daemon.map_or("the kernel".to_owned(), |name| format!("the kernel ({name})"));
        let error_ns =
            max_error_us.saturating_mul(1_000).saturating_add(offset_ns.saturating_abs());
        let is_told = max_error_us < UNKNOWN_ERROR_US;
        let age_s = is_told.then(|| max_error_us as f64 / MAX_ERROR_GROWS_US);
        Word { by, error_ns, age_s }
    }

    /// The age in words.
    #[expect(clippy::cast_possible_truncation, reason = "saturates")]
    pub(crate) fn age(&self) -> String {
        duration((self.age_s.unwrap_or_default() * 1e9) as i64)
    }
}

impl Reference {
    /// A PTP clock by its driver's name. Those of virtual machines count in UTC by their nature; a network card's may
    /// count in TAI, or from its power-on, unless the daemon follows it as it is.
    pub fn ptp(device: &str, name: &str, is_followed: bool, read: (i64, i64)) -> Reference {
        let aside = match name {
            _ if is_followed || ["KVM virtual PTP", "hyperv"].contains(&name) => None,
            _ if name.starts_with(VMCLOCK) => Some("it is vmclock, whose page says more"),
            _ => {
                Some("it may count in TAI or from any moment, and chrony does not follow it as UTC")
            }
        };
        Reference {
            name: format!("{device} ({name})"),
            kind: Kind::Host,
            behind_ns: read.0,
            error_ns: read.1,
            aside: aside.map(str::to_owned),
        }
    }

    /// The RTC, which read `seconds` at `realtime_ns`. `window_ns` is how exactly the beginning of that second was
    /// seen, if it was waited for. Hypervisors let the RTC begin at any part of a second, so it is up to a second
    /// behind the host.
    pub fn rtc(
        seconds: i64,
        realtime_ns: i64,
        window_ns: Option<i64>,
        is_local: bool,
    ) -> Reference {
        let (middle, error_ns) = match window_ns {
            Some(window) => (SECOND / 2, SECOND / 2 + window),
            None => (SECOND, SECOND),
        };
        let behind_ns =
            seconds.saturating_mul(SECOND).saturating_add(middle).saturating_sub(realtime_ns);
        let size = behind_ns.saturating_abs();
        let from_quarter = (size % QUARTER).min(QUARTER - size % QUARTER);
        let is_zone = (QUARTER / 2..ZONE_MAX + QUARTER / 2).contains(&size)
            && from_quarter <= 2 * SECOND + error_ns;
        let aside = match () {
            () if is_local => Some("it keeps local time, by /etc/adjtime"),
            () if seconds < RTC_MIN => Some("it shows a year before 2020, as without a battery"),
            () if is_zone => Some("it differs by quarters of an hour, as if it kept local time"),
            () => None,
        };
        let (name, kind) = ("rtc0".to_owned(), Kind::Rtc);
        Reference { name, kind, behind_ns, error_ns, aside: aside.map(str::to_owned) }
    }

    /// Whether a daemon may take it for the host's clock.
    pub(crate) fn is_of_host(&self) -> bool {
        self.kind == Kind::Host && (self.aside.is_none() || self.name.contains(VMCLOCK))
    }

    /// The least size of the difference, in nanoseconds; 0 if there may be none.
    pub fn surely_ns(&self) -> i64 {
        self.behind_ns.saturating_abs().saturating_sub(self.error_ns).max(0)
    }
}

/// What counts of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weighed<'a> {
    /// The best reference: the host's clock before the RTC, which counts in a virtual machine, or if it is days ahead.
    pub best: Option<Reference>,
    /// The kernel's word, if it was measured after the last discontinuity.
    pub word: Option<&'a Word>,
    /// The same if it was measured before.
    pub void: Option<&'a Word>,
}

/// A duration in words.
pub(crate) fn duration(ns: i64) -> String {
    units::nanos(ns.unsigned_abs())
}

impl Comparison {
    /// Weighs the readings of a machine: is it a guest, and when was it last restored or resumed, in seconds of
    /// `CLOCK_MONOTONIC`? [`SOMETIME`] if that was at a time that is not known.
    pub fn weighed(&self, is_guest: bool, broken: Option<f64>) -> Weighed<'_> {
        let counting =
            |kind| self.references.iter().filter(move |it| it.kind == kind && it.aside.is_none());
        let word = self.word.as_ref().and_then(|word| Some((word, word.age_s?)));
        let is_valid = |(_, age): &(&Word, f64)| broken.is_none_or(|at| self.uptime_s - at > *age);
        let (valid, void) = (word.filter(is_valid), word.filter(|it| !is_valid(it)));
        let is_unset = |it: &Reference| it.behind_ns > 0 && it.surely_ns() > NEVER_SET_NS;
        let rtc = counting(Kind::Rtc).find(|it| is_guest || word.is_none() && is_unset(it));
        let mut best = counting(Kind::Host).min_by_key(|it| it.error_ns).or(rtc).cloned();
        if let Some(best) = &mut best {
            // Clocks of one host that differ are as good as their difference.
            let hosts = counting(Kind::Host).map(|it| it.behind_ns.abs_diff(best.behind_ns));
            best.error_ns = best.error_ns.saturating_add_unsigned(hosts.max().unwrap_or(0));
        }
        Weighed { best, word: valid.map(|it| it.0), void: void.map(|it| it.0) }
    }
}

/// An answer to `--utc-within`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The clock is within the limit of the reference.
    Within,
    /// It is not.
    Outside,
    /// The readings do not decide.
    Open,
}

impl Weighed<'_> {
    /// Whether the clock is within `limit_ns`. A reading of now and a word that cannot both be right prove nothing.
    pub fn within(&self, limit_ns: i64) -> Proof {
        let by_word = self.word.map(|word| word.error_ns);
        let Some(best) = &self.best else {
            let is_said = by_word.is_some_and(|error| error <= limit_ns);
            return if is_said { Proof::Within } else { Proof::Open };
        };
        let is_denied = by_word.is_some_and(|error| best.surely_ns() > error);
        let most = best.behind_ns.saturating_abs().saturating_add(best.error_ns);
        match () {
            () if best.surely_ns() > limit_ns && !is_denied => Proof::Outside,
            () if most <= limit_ns => Proof::Within,
            () if !is_denied && by_word.is_some_and(|error| error <= limit_ns) => Proof::Within,
            () => Proof::Open,
        }
    }
}

#[cfg(test)]
mod tests;
