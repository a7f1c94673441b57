//! The page of `/dev/vmclock0` as bytes.

use super::{Kind, Reference};

/// Nanoseconds in a second.
const SECOND: i128 = 1_000_000_000;
const TAI_OFFSET_VALID: u64 = 1;
/// `VMCLOCK_FLAG_PERIOD_MAXERROR_VALID`.
const PERIOD_ERROR_VALID: u64 = 1 << 4;
/// `VMCLOCK_FLAG_TIME_MAXERROR_VALID`.
const TIME_ERROR_VALID: u64 = 1 << 6;

/// What the page says at one value of the counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Changes when the machine is moved or restored.
    pub disruption_marker: u64,
    /// The hypervisor's clock; `None` if the page has none, but the marker only.
    pub clock: Option<Reference>,
}

/// Reads a page that was copied as a whole. `counter` and `realtime_ns` are of one moment, which `window_ns` contains.
/// `None` for other bytes.
///
/// # References
///
/// - include/uapi/linux/vmclock-abi.h, drivers/ptp/ptp_vmclock.c (Linux 6.18)
/// - UAPI.13 VMClock: with the status unknown, initializing or unreliable, the clock must not be relied upon
pub fn page(page: &[u8], counter: u64, realtime_ns: i64, window_ns: i64) -> Option<Page> {
    let byte = |at: usize| page.get(at).copied();
    let word = |at: usize| Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?));
    if page.get(..4)? != b"VCLK" || page.get(8..10)? != [1, 0] {
        return None;
    }
    let (counter_id, time_type, flags) = (byte(10)?, byte(11)?, word(24)?);
    let (status, smearing, leap) = (byte(34)?, byte(35)?, byte(38)?);
    let tai = i64::from(i16::from_le_bytes(page.get(36..38)?.try_into().ok()?));
    let scaled = |ticks: i128, period: u64| {
        ticks.checked_mul(i128::from(period)).and_then(|all| all.checked_shr(byte(39)?.into()))
    };
    let ticks = i128::from(counter.wrapping_sub(word(40)?).cast_signed());
    let since = scaled(ticks, word(48)?).and_then(|it| it.checked_add(i128::from(word(80)?)));
    let nanos =
        |part: i128| (part >> 64) * SECOND + (((part & i128::from(u64::MAX)) * SECOND) >> 64);
    let whole = i128::from(word(72)?) * SECOND;
    let offset = if time_type == 1 { i128::from(tai) * SECOND } else { 0 };
    let stated = if flags & TIME_ERROR_VALID != 0 { i128::from(word(96)?) } else { 0 };
    let drift =
        if flags & PERIOD_ERROR_VALID != 0 { scaled(ticks.abs(), word(64)?) } else { Some(0) };
    let disruption_marker = word(16)?;
    let (Some(since), Some(drift), 0 | 1) = (since, drift, counter_id) else {
        return Some(Page { disruption_marker, clock: None });
    };
    let behind = whole + nanos(since) - offset - i128::from(realtime_ns);
    let error = stated + nanos(drift) + i128::from(window_ns);
    let behind_ns = i64::try_from(behind).unwrap_or(i64::MAX);
    // Readers have disagreed about the offset's sign.
    let is_turned = offset != 0 && (behind.abs() - 2 * offset.abs()).abs() < 2 * SECOND;
    let aside = match () {
        () if !matches!(status, 2 | 3) => Some("the hypervisor does not call it synchronised"),
        () if time_type > 1 => Some("it is neither UTC nor TAI, or is smeared"),
        () if time_type == 1 && flags & TAI_OFFSET_VALID == 0 => Some("TAI without its offset"),
        () if is_turned => Some("it is off by twice the offset of TAI, whose sign is in doubt"),
        () if smearing != 0 && leap != 0 => {
            Some("a leap second is near, and the guest may smear it")
        }
        () => None,
    };
    let (name, kind) = ("/dev/vmclock0".to_owned(), Kind::Host);
    let error_ns = i64::try_from(error).unwrap_or(i64::MAX);
    let clock = Reference { name, kind, behind_ns, error_ns, aside: aside.map(str::to_owned) };
    Some(Page { disruption_marker, clock: Some(clock) })
}
