//! Chooses the calls to time, and which of these pass the sample probe: arithmetic on a slot. The image runs this code
//! inside the program, and tests run it in simulations.
//!
//! Every call has the same chance of being timed, whatever was timed before: the distances between timed calls are
//! geometric, so a pattern in the program's calls meets no pattern here. A timed call with chance p has the weight 1/p,
//! so sums of weights are unbiased even though the chance changes with the rate of calls.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::layout::{COUNTER_GETTIME, COUNTER_GETTIMEOFDAY, PASSED, Slot};

/// All calls of a thread are timed until it has made this many of the same kind.
const EAGER_SAMPLES: u32 = 32;
/// Gaps that are this many times shorter than wanted are far too short.
const FAR: u64 = 16;
/// At least one call in two to the power of this is timed.
const POWER_MAX: u32 = 16;
/// Fractions of a power of two in which [`Slot::period`] is kept.
const STEPS: u32 = 8;
/// Bit of [`Slot::stands_for`]: the next call enters the slow path so that its distance can be taken. The same call may
/// be drawn for timing as well.
const SECOND: u8 = 1 << 7;
/// One in this many calls that pass the sample probe makes the next call of the same counter pass as well.
const SECONDS_ONE_IN: u32 = 4;
/// Only this many of a thread's first calls pass the sample probe, and then one in [`SECONDS_ONE_IN`], because each of
/// the first calls has weight 1, and those after them have small weights.
const FIRST_SHOWN: u32 = 4;
/// One bit per counter of reads that a coarse clock could answer: `CLOCK_REALTIME`, `CLOCK_MONOTONIC` and
/// `gettimeofday`. The distance between reads within a tick matters only for these.
pub const HAS_COARSE_FORM: u32 =
    1 << COUNTER_GETTIME | 1 << (COUNTER_GETTIME + 1) | 1 << COUNTER_GETTIMEOFDAY;
/// A call waits behind the sample probe for at most this many gaps between timed calls (50 us each).
pub const HOLD_GAPS: u64 = 40;
/// A wait lasts at most this many times longer once the tracer has begun to read the stack: whether a sample counts must
/// not depend on how deep its stack is.
const READING: u64 = 10;
/// Fraction bits of a logarithm.
const LOG_BITS: u32 = 24;
/// Fraction bits of [`SCALES`].
const SCALE_BITS: u32 = 32;

/// The tasks of a call in the slow path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The call's weight; 0: the call is in the slow path only for its distance.
    pub weight: u32,
    /// The call's number among the first calls of its counter, from 1; 0: the first calls are over. The last of these
    /// numbers also for later calls, while far more are timed than wanted.
    pub eager: u32,
    /// Ticks since the previous call, at least 1, if this call must pass the sample probe because the previous one did;
    /// otherwise 0.
    pub after: u64,
    /// Ticks since the previous call; 0 if that call was not timed.
    pub distance: u64,
    /// The weight of that distance.
    pub distance_weight: u32,
}

impl Plan {
    /// Bits of [`weight`](Self::weight), which is no more than two to the power of [`POWER_MAX`].
    const WEIGHT_BITS: u32 = POWER_MAX + 1;

    /// The fields needed after the call, in one word; never 0.
    #[inline(always)]
    pub const fn packed(&self) -> u64 {
        let eager = (self.eager as u64) << Self::WEIGHT_BITS;
        self.after << 32 | 1 << 31 | eager | self.weight as u64
    }

    /// The fields of such a word. The distance is not in it.
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

/// Begins a wait at `now`, if no other call waits: the wait `held` was `released`, or its time is over. Returns the
/// number of the new wait, which is also the counter value of its latest end, unless the tracer is `reading` it by then.
/// The time limit covers a call that has
/// left its wait by `siglongjmp(3)`, or whose thread sleeps in a signal handler.
#[inline(always)]
pub const fn wait(held: u64, released: u64, reading: u64, now: u64, longest: u64) -> Option<u64> {
    if held != released && !wait_is_over(held, held == reading, now, longest) {
        return None;
    }
    Some(now.wrapping_add(longest))
}

/// Whether the time of a wait is over. `is_read`: the tracer has begun to read the stack. It is over, too, if the counter was set back meanwhile (a virtual machine that
/// moved).
#[inline(always)]
pub const fn wait_is_over(number: u64, is_read: bool, now: u64, longest: u64) -> bool {
    let more = if is_read { longest.wrapping_mul(READING) } else { 0 };
    let left = number.wrapping_add(more).wrapping_sub(now);
    left == 0 || left > longest.wrapping_add(more)
}

/// Decides when the next call of this counter enters the slow path, and takes the distance to the previous call if that
/// was timed. Several threads use the slot of a CPU, so the distances between its calls are not taken. `aim` is the
/// wanted number of ticks between two timed calls.
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
        if since < aim / FAR {
            plan.eager = EAGER_SAMPLES;
        }
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

/// Takes the distance to the previous call, unless a call of another counter was timed since then.
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

/// The word that shows a call at the sample probe (0: the call does not pass): the call's weight in the lower half,
/// [`Plan::after`] in the upper half. The tracer wants one call in `one_in`; 0: none. If the tracer wants all, the next
/// call passes too; otherwise the next call passes after one in `SECONDS_ONE_IN` shown calls.
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

/// The first state of a thread's random number generator.
#[inline(always)]
pub fn seed(key: u64, owner: u64) -> u64 {
    (key ^ owner.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Base-two logarithm of the number of calls between timed ones.
#[inline(always)]
fn power_of(log: u32) -> u32 {
    (log / STEPS).min(POWER_MAX)
}

/// The new value of [`Slot::period`] after two timed calls `gap` ticks apart. The steps are small, because a single
/// distance says little about the rate.
#[inline(always)]
fn adapted(log: u32, gap: u64, aim: u64) -> u32 {
    let far = |near: bool| if near { STEPS / 2 } else { 1 };
    if gap < 2 * aim {
        (log + far(gap < aim / FAR)).min(POWER_MAX * STEPS)
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

/// A random number below `range`.
#[inline(always)]
fn below(random: u64, range: u32) -> u32 {
    (((random >> 32) * u64::from(range)) >> 32) as u32
}

/// Number of the first success in a series of trials with chance `2^-power`, by inversion: `ceil(log(random) / log(1 -
/// chance))`.
fn gap(random: u64, power: u32) -> u32 {
    let Some(scale) = SCALES.get(power as usize) else { return 1 };
    let failures = (u128::from(minus_log2(random)) * u128::from(*scale)) >> (LOG_BITS + SCALE_BITS);
    failures as u32 + 1
}

/// `-log2(random / 2^64)` with [`LOG_BITS`] fraction bits. Each squaring of the mantissa yields one bit.
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

/// `1 / -log2(1 - 2^-power)` for each power, with [`SCALE_BITS`] fraction bits; 0 for power 0, where every trial
/// succeeds.
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

/// `-ln(1 - 2^-power)` with 64 fraction bits: the sum of `2^(-power k) / k`.
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
