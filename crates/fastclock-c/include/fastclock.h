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

// What functions give for a clock of NULL. No time is negative.
#define FASTCLOCK_ERROR -1

// Why a clock gives the kernel's answers, as `fastclock_status()` says it. More may come: treat an
// unknown number as "the kernel answers".
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

// What fastclock_resolution() is asked for.
typedef enum {
    // The readings that are taken now: fastclock_now() and the like.
    FASTCLOCK_KIND_PRECISE = 0,
    // fastclock_recent(): as old as the last refresh.
    FASTCLOCK_KIND_RECENT = 1,
    // fastclock_coarse() and fastclock_coarse_realtime(): a timer tick.
    FASTCLOCK_KIND_COARSE = 2,
    // fastclock_second(): a second.
    FASTCLOCK_KIND_SECOND = 3,
} fastclock_kind_t;

// A clock. What is in it is the library's business.
typedef struct fastclock_t fastclock_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a clock: the one that this host's timekeeper publishes (/run/clockscope/page) if it is
// there and good, otherwise one that finds out the counter's rate by itself.
//
// NULL when that is not possible at all. Free it with fastclock_free(). Most programs make one
// clock and keep it. Not for signal handlers.
fastclock_t *fastclock_new(void);

// Makes a clock that finds out the counter's rate by itself, without a timekeeper.
//
// It takes the kernel's answers for its first 200 ms or so; fastclock_calibrate() waits for that.
// NULL when that is not possible at all. Free it with fastclock_free(). Not for signal handlers.
fastclock_t *fastclock_alone(void);

// Makes a clock of the page at `path`, which a timekeeper writes; the file is opened for reading.
//
// NULL when it is not a good page (or `path` is NULL); `reason` (which may be NULL) is then set to
// the number of the reason (a fastclock_reason_t), and to 0 otherwise. Free it with
// fastclock_free(). Not for signal handlers.
fastclock_t *fastclock_open(const char *path, int *reason);

// Makes a clock of the page behind the file descriptor `fd`, which is read only and may be closed
// afterwards. Otherwise as fastclock_open().
fastclock_t *fastclock_open_fd(int fd, int *reason);

// Frees the clock and what belongs to it. NULL is allowed. No other thread and no signal handler
// may use the clock at this time or later. Not for signal handlers.
void fastclock_free(fastclock_t *clock);

// Waits until the clock answers by itself, or cannot, or `at_most_ns` nanoseconds are over;
// usually 200 ms for a clock that is alone, and no time otherwise.
//
// Gives what fastclock_status() gives afterwards. Calling it is never necessary: until then the
// kernel answers. Not for signal handlers.
int fastclock_calibrate(const fastclock_t *clock, uint64_t at_most_ns);

// CLOCK_MONOTONIC in nanoseconds since the boot, without time in suspend. Never runs backwards.
//
// Ordered: the time is taken after everything before the call is done, so whoever learns of a
// reading of another thread reads no earlier time. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_now(const fastclock_t *clock);

// As fastclock_now(), but unordered and cheaper: the CPU may take the time some nanoseconds early,
// and threads that compare their readings may see them out of order.
int64_t fastclock_now_fast(const fastclock_t *clock);

// As fastclock_now(), with how far the kernel's CLOCK_MONOTONIC can be from it: `bound_ns`, which
// may be NULL, in nanoseconds in either direction; 0 if the kernel has answered.
int64_t fastclock_now_bounded(const fastclock_t *clock, int64_t *bound_ns);

// As fastclock_now_bounded(), but unordered and cheaper: see fastclock_now_fast().
int64_t fastclock_now_bounded_fast(const fastclock_t *clock, int64_t *bound_ns);

// CLOCK_REALTIME in nanoseconds since 1970-01-01 UTC, ordered. It steps when the system's time is
// set, also backwards: a clock of a timekeeper's page follows as soon as the timekeeper does, one
// that is alone within a second of use. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_realtime(const fastclock_t *clock);

// As fastclock_realtime(), but unordered and cheaper.
int64_t fastclock_realtime_fast(const fastclock_t *clock);

// As fastclock_realtime(), with how far the kernel's CLOCK_REALTIME can be from it: `bound_ns`,
// which may be NULL, in nanoseconds in either direction; 0 if the kernel has answered. A step
// since the last renewal is not in the bound.
int64_t fastclock_realtime_bounded(const fastclock_t *clock, int64_t *bound_ns);

// As fastclock_realtime_bounded(), but unordered and cheaper: see fastclock_now_fast().
int64_t fastclock_realtime_bounded_fast(const fastclock_t *clock, int64_t *bound_ns);

// CLOCK_BOOTTIME in nanoseconds since the boot, with time in suspend, ordered. FASTCLOCK_ERROR if
// `clock` is NULL.
int64_t fastclock_boottime(const fastclock_t *clock);

// CLOCK_TAI in nanoseconds since 1970-01-01 TAI, ordered: as fastclock_realtime() without leap
// seconds. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_tai(const fastclock_t *clock);

// The last fastclock_refresh_recent() of any thread, CLOCK_MONOTONIC in nanoseconds: costs next to
// nothing, and is as old as that. Before the first, the time at which the clock was made.
// FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_recent(const fastclock_t *clock);

// Reads CLOCK_MONOTONIC as fastclock_now() does and keeps it for fastclock_recent(): for example
// once in each turn of an event loop. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_refresh_recent(const fastclock_t *clock);

// CLOCK_MONOTONIC_COARSE in nanoseconds since the boot: the time of the last timer tick, 1 to
// 10 ms ago at most. Always the kernel's: it can lie ahead of fastclock_now() by the bound of that
// reading. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_coarse(const fastclock_t *clock);

// CLOCK_REALTIME_COARSE in nanoseconds since 1970-01-01 UTC: the time of the last timer tick,
// always the kernel's, as fastclock_coarse() is. FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_coarse_realtime(const fastclock_t *clock);

// The second of CLOCK_REALTIME in which the last timer tick was, in nanoseconds since 1970-01-01
// UTC: a multiple of 1000000000, for what time() gives in seconds. FASTCLOCK_ERROR if `clock` is
// NULL.
int64_t fastclock_second(const fastclock_t *clock);

// Nanoseconds of CLOCK_MONOTONIC since `since`, a reading of fastclock_now() or the like; 0 if
// that is later than now, as an unordered reading of another thread can be. FASTCLOCK_ERROR if
// `clock` is NULL.
int64_t fastclock_elapsed(const fastclock_t *clock, int64_t since);

// The smallest step, in nanoseconds, of readings of this kind (a fastclock_kind_t); 0 for
// FASTCLOCK_KIND_RECENT, of which only the program knows. FASTCLOCK_ERROR if `clock` is NULL or
// there is no such kind.
int64_t fastclock_resolution(const fastclock_t *clock, int kind);

// The time of the clock with this number, as clock_gettime(2) gives it, which this function can
// replace: CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_TAI from `clock`, ordered,
// every other from the kernel.
//
// 0 on success; otherwise FASTCLOCK_ERROR, with errno set: EINVAL if `clock` is NULL or the kernel
// has no such clock, EFAULT if `time` is NULL.
int fastclock_gettime(const fastclock_t *clock, int clock_id, struct timespec *time);

// 0 (FASTCLOCK_FAST) if the clock answers by itself; otherwise why the kernel answers, a
// fastclock_reason_t. FASTCLOCK_ERROR if `clock` is NULL. As of this moment: the next reading may
// find otherwise.
int fastclock_status(const fastclock_t *clock);

// Why fastclock_new() has not taken the page of the host's timekeeper, a fastclock_reason_t; 0 if
// it has, or if the clock was made by another function. FASTCLOCK_ERROR if `clock` is NULL.
int fastclock_host_page(const fastclock_t *clock);

// How often the kernel answered for this reason, a fastclock_reason_t, in this process; for any
// reason if it is 0. FASTCLOCK_ERROR if `clock` is NULL or there is no such reason.
int64_t fastclock_kernel_answers(const fastclock_t *clock, int reason);

// How often this process has looked at the kernel's clock to keep a clock that is alone.
// FASTCLOCK_ERROR if `clock` is NULL.
int64_t fastclock_renewals(const fastclock_t *clock);

// How often fastclock_elapsed() gave 0 for a time that lay ahead. FASTCLOCK_ERROR if `clock` is
// NULL.
int64_t fastclock_negative(const fastclock_t *clock);

// The reason as a clause in English, for example "the machine was suspended"; never NULL, also for
// unknown numbers and FASTCLOCK_ERROR. The text is constant and must not be freed.
const char *fastclock_reason_text(int reason);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FASTCLOCK_H */
