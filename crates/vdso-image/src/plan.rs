//! Which calls are timed, and which of these are shown at the sample probe: arithmetic on a slot. The image
//! does it inside the program, and tests do it in simulations.
//!
//! Every call has the same chance whatever was timed before, because the distances between drawn
//! calls are geometric: a pattern of calls in the program meets no pattern here. A drawn call stands
//! for one over its chance, so sums of weights are right on the average however the chance changes
//! on the way, which it does with the rate of calls.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::layout::{COUNTER_GETTIME, COUNTER_GETTIMEOFDAY, PASSED, Slot};

/// Every call of a thread is timed until this many of the same kind have been.
const EAGER_SAMPLES: u32 = 32;
/// One call in two to the power of this is timed at least.
const POWER_MAX: u32 = 16;
/// [`Slot::period`] is kept in these parts of a power of two.
const STEPS: u32 = 8;
/// Bit of [`Slot::stands_for`]: the next call comes here for its distance. It may be drawn as well.
const SECOND: u8 = 1 << 7;
/// After so many calls that pass the sample probe, the next call of one of them does too.
const SECONDS_ONE_IN: u32 = 4;
/// Of the first calls of a thread only so many pass the sample probe, and then one in [`SECONDS_ONE_IN`]:
/// they stand for no others.
const FIRST_SHOWN: u32 = 4;
/// Counters, a bit each, of reads that a coarse clock could answer: `CLOCK_REALTIME`,
/// `CLOCK_MONOTONIC` and `gettimeofday`. Only of these it matters whether they came within a tick.
pub const HAS_COARSE_FORM: u32 =
    1 << COUNTER_GETTIME | 1 << (COUNTER_GETTIME + 1) | 1 << COUNTER_GETTIMEOFDAY;
/// A call waits behind the sample probe as long as so many gaps between timed calls (50 us each) at most.
pub const HOLD_GAPS: u64 = 40;
/// Bits behind the point of a logarithm.
const LOG_BITS: u32 = 24;
/// Bits behind the point of [`SCALES`].
const SCALE_BITS: u32 = 32;

/// What a call in the slow path is there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Number of calls that it stands for; 0: it is only there for its distance.
    pub weight: u32,
    /// Number of it among the first of its counter; 0: these are over.
    pub eager: u32,
    /// If it is to pass the sample probe as the call before did: ticks since that one, at least 1.
    pub after: u64,
    /// Ticks since the call before; 0 if that was not timed.
    pub distance: u64,
    /// What that distance stands for.
    pub distance_weight: u32,
}

impl Plan {
    /// Bits of [`weight`](Self::weight), which is no more than two to the power of [`POWER_MAX`].
    const WEIGHT_BITS: u32 = POWER_MAX + 1;

    /// What is needed of it after the call, in one word; never 0.
    #[must_use]
    #[inline(always)]
    pub const fn packed(&self) -> u64 {
        let eager = (self.eager as u64) << Self::WEIGHT_BITS;
        self.after << 32 | 1 << 31 | eager | self.weight as u64
    }

    /// That of such a word; the distance is not in it.
    #[must_use]
    #[inline(always)]
    pub const fn unpacked(word: u64) -> Self {
        let low = word as u32 & !(1 << 31);
        Self {
            weight: low & ((1 << Self::WEIGHT_BITS) - 1),
            eager: low >> Self::WEIGHT_BITS,
            after: word >> 32,
            distance: 0,
            distance_weight: 0,
        }
    }
}

/// The number of a wait that begins `now`, which is the moment of its end at the latest, if no other call waits:
/// the one with the number `held` has been `released`, or its time is over. So nobody is waited for who has left
/// by `siglongjmp(3)`, or is asleep in a handler.
#[must_use]
#[inline(always)]
pub const fn wait(held: u64, released: u64, now: u64, longest: u64) -> Option<u64> {
    if held != released && !wait_is_over(held, now, longest) {
        return None;
    }
    Some(now.wrapping_add(longest))
}

/// Whether the time of a wait is over, also if the counter was set back meanwhile (a virtual machine that
/// moved).
#[must_use]
#[inline(always)]
pub const fn wait_is_over(number: u64, now: u64, longest: u64) -> bool {
    let left = number.wrapping_sub(now);
    left == 0 || left > longest
}

/// Decides when the next call of this counter is looked at, and takes the distance to the call
/// before if that was timed. Slots of CPUs are used by several threads: distances between their
/// calls mean nothing. About `aim` ticks are to lie between two timed calls.
#[inline(always)]
pub fn plan(slot: &Slot, counter: usize, now: u64, by_cpu: bool, aim: u64) -> Plan {
    let counter = counter & 31;
    let drawn = slot.stands_for[counter].load(Relaxed);
    let timed = u32::from(slot.samples[counter].load(Relaxed));
    let eager = timed < EAGER_SAMPLES;
    let log = slot.period.load(Relaxed);
    let mut power = u32::from(drawn & !SECOND);
    let mut plan = Plan::default();
    if drawn & SECOND != 0 {
        take_distance(slot, counter, now, 1 << power, &mut plan);
        power = if eager { 0 } else { power_of(log) };
        if below(next(slot), 1 << power) != 0 {
            slot.countdown[counter].store(gap(next(slot), power), Relaxed);
            slot.stands_for[counter].store(power as u8, Relaxed);
            return plan;
        }
    }
    plan.weight = 1 << power;
    let since = now.saturating_sub(slot.last_timed.load(Relaxed));
    slot.last_timed.store(now, Relaxed);
    let mut next_power = 0;
    if eager {
        slot.samples[counter].fetch_add(1, Relaxed);
        plan.eager = timed + 1;
    } else {
        let log = adapted(log, since, aim);
        slot.period.store(log, Relaxed);
        next_power = power_of(log);
    }
    if by_cpu {
        slot.countdown[counter].store(gap(next(slot), next_power), Relaxed);
        slot.stands_for[counter].store(next_power as u8, Relaxed);
    } else {
        slot.waiting_since.store(now, Relaxed);
        slot.waiting.store(counter as u32, Relaxed);
        slot.countdown[counter].store(1, Relaxed);
        slot.stands_for[counter].store(power as u8 | SECOND, Relaxed);
    }
    plan
}

/// Notes the distance to the call before, unless one of another counter was timed since then.
#[inline(always)]
fn take_distance(slot: &Slot, counter: usize, now: u64, weight: u32, plan: &mut Plan) {
    let (since, waiting) = (slot.waiting_since.load(Relaxed), slot.waiting.load(Relaxed));
    if since == 0 || (waiting & !PASSED) as usize != counter {
        return;
    }
    slot.waiting_since.store(0, Relaxed);
    plan.distance = now.saturating_sub(since) | 1;
    plan.distance_weight = weight;
    if waiting & PASSED != 0 {
        plan.after = plan.distance.min(u64::from(u32::MAX));
    }
}

/// What to show of a call at the sample probe (0: nothing): in the lower half the number of calls that it
/// stands for, in the upper one [`Plan::after`]. The tracer wants one in `one_in`, or none. If it
/// wants all, or now and then, the next call passes too.
#[inline(always)]
pub fn shown(slot: &Slot, counter: usize, plan: &Plan, mut one_in: u32) -> u64 {
    let all = one_in == 1;
    if plan.eager > FIRST_SHOWN && one_in != 0 {
        one_in = one_in.max(SECONDS_ONE_IN);
    }
    let drawn = one_in != 0 && plan.weight != 0 && below(next(slot), one_in) == 0;
    if drawn && (all || below(next(slot), SECONDS_ONE_IN) == 0) {
        slot.waiting.store(counter as u32 & 31 | PASSED, Relaxed);
    }
    let weight = if drawn { plan.weight.saturating_mul(one_in) } else { 0 };
    plan.after << 32 | u64::from(weight)
}

/// The state that a thread's random numbers begin with.
#[must_use]
#[inline(always)]
pub fn seed(key: u64, owner: u64) -> u64 {
    (key ^ owner.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// The logarithm to the base of two of the calls between timed ones.
#[inline(always)]
fn power_of(log: u32) -> u32 {
    (log / STEPS).min(POWER_MAX)
}

/// The new value of [`Slot::period`], after two timed calls that lay `gap` ticks apart: small steps,
/// because one distance says little.
#[inline(always)]
fn adapted(log: u32, gap: u64, aim: u64) -> u32 {
    let far = |near: bool| if near { STEPS / 2 } else { 1 };
    if gap < 2 * aim {
        (log + far(gap < aim / 16)).min(POWER_MAX * STEPS)
    } else {
        log.saturating_sub(far(gap / 32 > aim))
    }
}

/// A random number: Marsaglia's xorshift with Vigna's multiplication (xorshift64*).
#[inline(always)]
fn next(slot: &Slot) -> u64 {
    let random: &AtomicU64 = &slot.random;
    let mut state = random.load(Relaxed);
    if state == 0 {
        state = 1;
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    random.store(state, Relaxed);
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// A number below `range`.
#[inline(always)]
fn below(random: u64, range: u32) -> u32 {
    (((random >> 32) * u64::from(range)) >> 32) as u32
}

/// The number of the first success among trials with a chance of one in two to the power of
/// `power`, by inversion: `ceil(log(random) / log(1 - chance))`.
fn gap(random: u64, power: u32) -> u32 {
    let Some(scale) = SCALES.get(power as usize) else { return 1 };
    let failures = (u128::from(minus_log2(random)) * u128::from(*scale)) >> (LOG_BITS + SCALE_BITS);
    failures as u32 + 1
}

/// `-log2(random / 2^64)`, with [`LOG_BITS`] bits behind the point. Each squaring of the mantissa
/// gives one bit.
fn minus_log2(random: u64) -> u64 {
    let mut mantissa = random | 1;
    let zeros = mantissa.leading_zeros();
    mantissa <<= zeros;
    let mut fraction = 0_u64;
    let mut left = LOG_BITS;
    while left > 0 {
        let square = ((u128::from(mantissa) * u128::from(mantissa)) >> 64) as u64;
        let bit = square >> 63;
        mantissa = square << (1 - bit);
        fraction = fraction << 1 | bit;
        left -= 1;
    }
    (u64::from(zeros + 1) << LOG_BITS) - fraction
}

/// `1 / -log2(1 - 2^-power)` for each power, with [`SCALE_BITS`] bits behind the point; for 0, where
/// every trial succeeds, 0.
static SCALES: [u64; POWER_MAX as usize + 1] = scales();

const fn scales() -> [u64; POWER_MAX as usize + 1] {
    let mut scales = [0; POWER_MAX as usize + 1];
    let mut power = 1;
    while power < scales.len() {
        scales[power] = ((minus_ln(1) << SCALE_BITS) / minus_ln(power as u32)) as u64;
        power += 1;
    }
    scales
}

/// `-ln(1 - 2^-power)` with 64 bits behind the point: the sum of `2^(-power k) / k`.
const fn minus_ln(power: u32) -> u128 {
    let (mut sum, mut k) = (0, 1);
    while power * k <= 64 {
        sum += (1_u128 << (64 - power * k)) / k as u128;
        k += 1;
    }
    sum
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
