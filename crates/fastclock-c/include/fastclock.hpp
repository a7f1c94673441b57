/*
 * fastclock for C++11 and later: clocks in the form of std::chrono's, over fastclock.h.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * `fastclock::clock` and `fastclock::wall_clock` can replace std::chrono::steady_clock and
 * std::chrono::system_clock: as a template's clock, or in an alias of the program's own. Both read
 * one clock of the process. fastclock_new() makes that clock at the first use, which must not be in
 * a signal handler. The clock is never freed, so destructors may still read it.
 */
#ifndef FASTCLOCK_HPP
#define FASTCLOCK_HPP

#include <chrono>
#include <cstdint>
#include <ctime>
#include <ratio>

#include <fastclock.h>

namespace fastclock {

/* The process's clock, for the functions of fastclock.h. NULL only if no clock could be made; then
 * all readings are at -1 ns. */
inline fastclock_t *handle() noexcept {
    static fastclock_t *const clock = fastclock_new();
    return clock;
}

/* A reading, and its largest distance from the kernel's clock. */
template <typename TimePoint>
struct bounded {
    TimePoint time;
    std::chrono::nanoseconds bound;
};

/* CLOCK_MONOTONIC: time since the boot, not in suspend; never steps. */
struct clock {
    using rep = std::int64_t;
    using period = std::nano;
    using duration = std::chrono::duration<rep, period>;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;

    /* Ordered: a thread that has received a reading of another thread reads no earlier time. */
    static time_point now() noexcept { return time_point(duration(fastclock_now(handle()))); }

    /* Cheaper; the CPU may take the reading early, and another thread may see it out of order. */
    static time_point now_fast() noexcept {
        return time_point(duration(fastclock_now_fast(handle())));
    }

    static bounded<time_point> now_bounded() noexcept {
        std::int64_t bound = 0;
        const std::int64_t time = fastclock_now_bounded(handle(), &bound);
        return {time_point(duration(time)), std::chrono::nanoseconds(bound)};
    }
};

/* CLOCK_REALTIME: time since 1970-01-01 UTC; steps when the system's time is set. */
struct wall_clock {
    using rep = std::int64_t;
    using period = std::nano;
    using duration = std::chrono::duration<rep, period>;
    using time_point = std::chrono::time_point<wall_clock>;
    static constexpr bool is_steady = false;

    static time_point now() noexcept { return time_point(duration(fastclock_realtime(handle()))); }

    static time_point now_fast() noexcept {
        return time_point(duration(fastclock_realtime_fast(handle())));
    }

    static bounded<time_point> now_bounded() noexcept {
        std::int64_t bound = 0;
        const std::int64_t time = fastclock_realtime_bounded(handle(), &bound);
        return {time_point(duration(time)), std::chrono::nanoseconds(bound)};
    }

    static std::time_t to_time_t(const time_point &time) noexcept {
        return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
    }

    /* The same moment for std::chrono::system_clock, whose origin is 1970-01-01 as well. */
    static std::chrono::system_clock::time_point to_system(const time_point &time) noexcept {
        return std::chrono::system_clock::time_point(
            std::chrono::duration_cast<std::chrono::system_clock::duration>(
                time.time_since_epoch()));
    }
};

} // namespace fastclock

#endif
