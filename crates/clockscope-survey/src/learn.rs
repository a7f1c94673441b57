//! Maps the vDSO's instructions to clocks: a child reads each clock once, step by step.

use std::ops::Range;

use fastclock::ClockId;
use vdso_reader::image::Image;

use crate::reads::{Code, Steps};
use clockscope_sys::{clock_loops, own_vdso, single_step, vdso_call::Call};

/// Limit on the steps of a read, which takes some 100 instructions including those of the C library. A step takes some
/// microseconds, and up to a millisecond in a slow virtual machine.
const STEPS_MOST: u64 = 400;

/// The vDSO of this kernel.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The clocks that its instructions belong to.
    pub code: Code,
    /// Size of the image in bytes.
    pub bytes: u32,
}

/// Analyses the image and reads of each clock; `None` if there is no image. If no child can be traced, only the image
/// is used. Takes some 50 ms.
pub fn vdso() -> Option<Learned> {
    let range = own_vdso::code();
    let image = Image::parse(&own_vdso::read()?.bytes).ok()?;
    let symbols = image.functions().filter_map(|symbol| {
        let start = u32::try_from(symbol.offset).ok()?;
        let end = start.checked_add(u32::try_from(symbol.size).ok()?)?;
        Some((symbol.name.as_str(), start..end))
    });
    let ways = ClockId::ALL.into_iter().filter(|clock| has_own_way(*clock));
    let steps: Vec<Steps> = ways.filter_map(|clock| steps(clock, &range)).collect();
    let bytes = u32::try_from(range.end - range.start).ok()?;
    Some(Learned { code: Code::new(symbols, &steps), bytes })
}

/// Whether reads of a clock have their own path through the vDSO.
fn has_own_way(clock: ClockId) -> bool {
    use ClockId::{BoottimeAlarm, RealtimeAlarm, ThreadCputime};
    !matches!(clock, BoottimeAlarm | RealtimeAlarm | ThreadCputime)
}

fn steps(clock: ClockId, range: &Range<u64>) -> Option<Steps> {
    let calling = clock_loops::by_libc(Call::ClockGettime(clock)).ok()?;
    let visits = single_step::visits(&calling, range, STEPS_MOST).ok()?;
    let offset =
        |(pc, register): (u64, u64)| Some((u32::try_from(pc - range.start).ok()?, register));
    Some(Steps { clock, visits: visits.into_iter().filter_map(offset).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::Kind;
    use clockscope_syscalls::sampling::Place;

    #[test]
    fn the_way_of_each_clock_through_this_kernels_vdso_is_known() {
        let range = own_vdso::code();
        let learned = vdso().expect("this kernel has a vDSO");
        for (clock, wanted) in [
            (ClockId::Monotonic, Kind::Clocksource),
            (ClockId::Realtime, Kind::Clocksource),
            (ClockId::MonotonicCoarse, Kind::Coarse),
            (ClockId::ProcessCputime, Kind::CpuTime),
        ] {
            let Some(Steps { visits, .. }) = steps(clock, &range) else {
                return skips::skip("no child can be traced step by step");
            };
            assert!(visits.len() > 3, "{clock:?}: {visits:?}");
            // An instruction executed while the register holds the id belongs to a read of this clock.
            let id = u64::from(clock.as_raw().cast_unsigned());
            let named =
                visits.iter().filter(|(_, register)| *register == id).filter(|(offset, _)| {
                    let register = u8::try_from(id).ok();
                    let read = learned.code.read(Place::Vdso { offset: *offset, clock: register });
                    read.is_some_and(|read| read.clock == Some(clock) && read.kind == wanted)
                });
            assert!(named.count() > 3, "{clock:?}");
        }
    }
}
