/*
 * fastclock: a fast clock with an error bound, which follows the kernel's and falls back to it.
 * Made from the Rust in src/ by cbindgen (`make header`); do not edit.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Times are int64_t nanoseconds. CLOCK_MONOTONIC, CLOCK_BOOTTIME and what is measured on them count
 * from the boot, CLOCK_REALTIME and CLOCK_TAI from 1970-01-01. When the clock cannot answer by
 * itself, the kernel answers, so that every function gives a right time at every moment; only the
 * cost differs. fastclock_status() says whether it is so, and fastclock_reason_text() why.
 *
 * Thread safety: any number of threads may use one clock at once, without a lock of theirs. Only
 * fastclock_free() needs care: nobody may use the clock during it or after it.
 *
 * Signal safety: fastclock_new(), fastclock_alone(), fastclock_open(), fastclock_open_fd(),
 * fastclock_free() and fastclock_calibrate() allocate memory or wait, and may not be called in
 * signal handlers. All other functions neither allocate memory nor take a lock, and may be called
 * in signal handlers, and in a child after fork().
 *
 * Errors: a clock of NULL gives FASTCLOCK_ERROR and never a crash. What a pointer for a second
 * result points to is written on success only; it may be NULL where that is said.
 *
 * The library starts no thread and changes no signal handler.
 */

#ifndef FASTCLOCK_H
#define FASTCLOCK_H

#include <stdint.h>
#include <time.h>

struct timespec;

// Returned by functions for a clock of NULL. No time is negative.
#define FASTCLOCK_ERROR -1

// The reason why a clock gives the kernel's answers, as returned by `fastclock_status()`. Later
// versions may add reasons: treat an unknown number as "the kernel answers".
typedef enum {
    // None: the clock answers by itself.
    FASTCLOCK_FAST = 0,
    // The counter has not been measured for long enough yet.
    FASTCLOCK_STARTING = 1,
    // The page was not renewed in time.
    FASTCLOCK_EXPIRED = 2,
    // The process that wrote the page is dead.
    FASTCLOCK_WRITER_DIED = 3,
    // The process that wrote the page has ended its work.
    FASTCLOCK_WRITER_STOPPED = 4,
    // This process has another clock than the page: a time namespace.
    FASTCLOCK_OTHER_CLOCK = 5,
    // The counter's rate is not constant on this CPU.
    FASTCLOCK_NOT_INVARIANT = 6,
    // The kernel does not use the counter as its clocksource.
    FASTCLOCK_CLOCKSOURCE = 7,
    // The kernel's clocksource has changed.
    FASTCLOCK_CLOCKSOURCE_CHANGED = 8,
    // The counters of two CPUs differ.
    FASTCLOCK_WARP = 9,
    // The counter's rate disagrees with the kernel's clock.
    FASTCLOCK_RATE_CHANGED = 10,
    // The counter or the kernel's clock has jumped.
    FASTCLOCK_JUMPED = 11,
    // The machine was suspended.
    FASTCLOCK_SUSPENDED = 12,
    // The virtual machine was moved or restored.
    FASTCLOCK_DISRUPTED = 13,
    // The counter stands still.
    FASTCLOCK_COUNTER_STOPPED = 14,
    // The counter went back.
    FASTCLOCK_COUNTER_BACKWARDS = 15,
    // This process may not read the counter (PR_SET_TSC).
    FASTCLOCK_FORBIDDEN = 16,
    // There is no counter to read on this CPU.
    FASTCLOCK_NO_COUNTER = 17,
    // The page is truncated.
    FASTCLOCK_PAGE_TRUNCATED = 18,
    // The file is not a clock page.
    FASTCLOCK_PAGE_FOREIGN = 19,
    // The page has another version.
    FASTCLOCK_PAGE_VERSION = 20,
    // The page's content is damaged.
    FASTCLOCK_PAGE_DAMAGED = 21,
    // The page was written before this boot.
    FASTCLOCK_PAGE_OF_OTHER_BOOT = 22,
    // The page cannot be opened.
    FASTCLOCK_PAGE_UNREADABLE = 23,
    // The kernel's clock takes too long to read to be followed closely.
    FASTCLOCK_TOO_UNCERTAIN = 24,
} fastclock_reason_t;

// The kind of readings for fastclock_resolution().
typedef enum {
    // Readings of the present time: fastclock_now() and the like.
    FASTCLOCK_KIND_PRECISE = 0,
    // fastclock_recent(): as old as the last refresh.
    FASTCLOCK_KIND_RECENT = 1,
    // fastclock_coarse() and fastclock_coarse_realtime(): a timer tick.
    FASTCLOCK_KIND_COARSE = 2,
    // fastclock_second(): a second.
    FASTCLOCK_KIND_SECOND = 3,
} fastclock_kind_t;

// A clock. Its content is private to the library.
typedef struct fastclock_t fastclock_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a clock on the page of this host's timekeeper (/run/clockscope/page) if that page is there
// and good. Otherwise makes a clock that measures the counter's rate by itself.
//
// NULL if neither is possible. Free the clock with fastclock_free(). Most programs make one clock
// and keep it. Not for signal handlers.
fastclock_t *fastclock_new(void);

// Makes a clock that measures the counter's rate by itself, without a timekeeper.
//
// The kernel answers in the first 200 ms or so; fastclock_calibrate() waits for that time. NULL if
// no clock can be made. Free the clock with fastclock_free(). Not for signal handlers.
fastclock_t *fastclock_alone(void);

// Makes a clock on the page at `path`, which a timekeeper writes; the file is opened for reading.
//
// NULL if the file is not a good page or `path` is NULL. `reason`, which may be NULL, is then set
// to the number of the reason (a fastclock_reason_t), and to 0 otherwise. Free the clock with
// fastclock_free(). Not for signal handlers.
fastclock_t *fastclock_open(const char *path, int *reason);

// Makes a clock on the page behind the file descriptor `fd`, which is only read and may be closed
// afterwards. Otherwise as fastclock_open().
fastclock_t *fastclock_open_fd(int fd, int *reason);

// Frees the clock and its memory. NULL is allowed. No other thread and no signal handler may use
// the clock at this time or later. Not for signal handlers.
void fastclock_free(fastclock_t *clock);

// Waits until the clock answers by itself, or cannot, or `at_most_ns` nanoseconds are over;
// usually 200 ms for a clock that keeps itself, and no time otherwise.
//
// Returns the fastclock_status() at the end. Calling this is never necessary: until then the
// kernel answers. Not for signal handlers.
int fastclock_calibrate(const fastclock_t *clock, uint64_t at_most_ns);

// CLOCK_MONOTONIC in nanoseconds since the boot, without time in suspend. Never runs backwards.
//
// Ordered: the time is taken after all earlier instructions are done. So a thread that has
// received a reading of another thread reads no earlier time. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_now(const fastclock_t *clock);

// As fastclock_now(), but unordered and cheaper: the CPU may take the time some nanoseconds early,
// and threads that compare their readings may see them out of order.
int64_t fastclock_now_fast(const fastclock_t *clock);

// As fastclock_now(), with a bound: the largest distance of the kernel's CLOCK_MONOTONIC from the
// reading, in nanoseconds in either direction; 0 if the kernel has answered. `bound_ns` may be
// NULL.
int64_t fastclock_now_bounded(const fastclock_t *clock, int64_t *bound_ns);

// As fastclock_now_bounded(), but unordered and cheaper: see fastclock_now_fast().
int64_t fastclock_now_bounded_fast(const fastclock_t *clock, int64_t *bound_ns);

// CLOCK_REALTIME in nanoseconds since 1970-01-01 UTC, ordered. It steps when the system's time is
// set, also backwards: a clock on a timekeeper's page follows as soon as the timekeeper does, a
// clock that keeps itself within a second of use. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_realtime(const fastclock_t *clock);

// As fastclock_realtime(), but unordered and cheaper.
int64_t fastclock_realtime_fast(const fastclock_t *clock);

// As fastclock_realtime(), with a bound: the largest distance of the kernel's CLOCK_REALTIME from
// the reading, in nanoseconds in either direction; 0 if the kernel has answered. `bound_ns` may be
// NULL. The bound does not include a step since the last renewal.
int64_t fastclock_realtime_bounded(const fastclock_t *clock, int64_t *bound_ns);

// As fastclock_realtime_bounded(), but unordered and cheaper: see fastclock_now_fast().
int64_t fastclock_realtime_bounded_fast(const fastclock_t *clock, int64_t *bound_ns);

// CLOCK_BOOTTIME in nanoseconds since the boot, with time in suspend, ordered. FASTCLOCK_ERROR if
// `clock` is NULL.
int64_t fastclock_boottime(const fastclock_t *clock);

// CLOCK_TAI in nanoseconds since 1970-01-01 TAI, ordered: as fastclock_realtime(), but leap
// seconds are counted, if the kernel was told them. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_tai(const fastclock_t *clock);

// The time of the last fastclock_refresh_recent() of any thread, CLOCK_MONOTONIC in nanoseconds;
// costs next to nothing. Before the first refresh, the time at which the clock was made.
// FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_recent(const fastclock_t *clock);

// Reads CLOCK_MONOTONIC as fastclock_now() does and stores the time for fastclock_recent(): for
// example once in each turn of an event loop. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_refresh_recent(const fastclock_t *clock);

// CLOCK_MONOTONIC_COARSE in nanoseconds since the boot: the time of the last timer tick, 1 to 10
// ms ago at most. Always from the kernel: it can lie ahead of fastclock_now() by the bound of that
// reading. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_coarse(const fastclock_t *clock);

// CLOCK_REALTIME_COARSE in nanoseconds since 1970-01-01 UTC: the time of the last timer tick,
// always from the kernel, as fastclock_coarse() is. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_coarse_realtime(const fastclock_t *clock);

// The second of CLOCK_REALTIME in which the last timer tick was, in nanoseconds since 1970-01-01
// UTC: a multiple of 1000000000, equal to the seconds of time(). FASTCLOCK_ERROR if `clock` is
// NULL.
int64_t fastclock_second(const fastclock_t *clock);

// Nanoseconds of CLOCK_MONOTONIC since `since`, a reading of fastclock_now() or the like; 0 if
// `since` is later than now, as an unordered reading of another thread can be. FASTCLOCK_ERROR if
// `clock` is NULL.
int64_t fastclock_elapsed(const fastclock_t *clock, int64_t since);

// The smallest step, in nanoseconds, of readings of this kind (a fastclock_kind_t); 0 for
// FASTCLOCK_KIND_RECENT, because only the program knows its step. FASTCLOCK_ERROR if `clock` is
// NULL or there is no such kind.
int64_t fastclock_resolution(const fastclock_t *clock, int kind);

// The time of the clock with this number, in the form of clock_gettime(2), which this function can
// replace: CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_TAI from `clock`, ordered,
// every other clock from the kernel.
//
// 0 on success; otherwise FASTCLOCK_ERROR, with errno set: EINVAL if `clock` is NULL or the kernel
// has no such clock, EFAULT if `time` is NULL.
int fastclock_gettime(const fastclock_t *clock, int clock_id, struct timespec *time);

// 0 (FASTCLOCK_FAST) if the clock answers by itself; otherwise the reason why the kernel answers,
// a fastclock_reason_t. FASTCLOCK_ERROR if `clock` is NULL. The status holds for this moment: the
// next reading may find another one.
int fastclock_status(const fastclock_t *clock);

// The reason why fastclock_new() did not take the page of the host's timekeeper, a
// fastclock_reason_t; 0 if it did, or if the clock was made by another function. FASTCLOCK_ERROR
// if `clock` is NULL.
int fastclock_host_page(const fastclock_t *clock);

// Number of the kernel's answers for this reason, a fastclock_reason_t, in this process; for all
// reasons if `reason` is 0. FASTCLOCK_ERROR if `clock` is NULL or there is no such reason.
int64_t fastclock_kernel_answers(const fastclock_t *clock, int reason);

// Number of looks at the kernel's clock by which this process kept a clock that keeps itself.
// FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_renewals(const fastclock_t *clock);

// Number of times that fastclock_elapsed() returned 0 for a time that lay ahead. FASTCLOCK_ERROR
// if `clock` is NULL.
int64_t fastclock_negative(const fastclock_t *clock);

// The reason as a clause in English, for example "the machine was suspended"; never NULL, also for
// unknown numbers and FASTCLOCK_ERROR. The text is constant and must not be freed.
const char *fastclock_reason_text(int reason);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FASTCLOCK_H */
