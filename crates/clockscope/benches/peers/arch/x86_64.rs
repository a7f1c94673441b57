//! Libraries that know the TSC.

use std::time::Duration;

use anyhow::{Result, anyhow};
use fast_clock::tsc::Tsc;
use fast_clock::wrapping_u64::{U64Calibration, WrappingU64Time};
use fast_clock::{CalibratedClock, Clock as _, DurationCalibration, Time};

/// How long fast-clock calibrates: as its documentation does.
const FAST_CLOCK_CALIBRATION: Duration = Duration::from_millis(100);

/// fast-clock's TSC after its calibration: nanoseconds since then.
pub(crate) fn fast_clock() -> Result<impl Fn() -> i64 + Clone + Send + Sync + 'static> {
    let tsc = Tsc::try_new_assume_stable().map_err(|_| anyhow!("fast-clock: no usable TSC"))?;
    let (calibration, _) = U64Calibration::new_with_std_instant(&tsc, FAST_CLOCK_CALIBRATION);
    let clock = CalibratedClock { clock: tsc, calibration };
    let epoch = clock.clock.now();
    Ok(move || {
        let since = WrappingU64Time::<64>::instant_sub(clock.clock.now(), epoch);
        clock.calibration.convert_to_ns(since).cast_signed()
    })
}
