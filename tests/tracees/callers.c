// Call paths that are known by construction: `callers ROUNDS [wait]`. Each clock is read at one place. With `wait` it
// prints "ready" and goes on after a line of input.
//
// Exact: each path prints how many calls it made, and the C library makes none by itself.
#define _GNU_SOURCE
#include "call_sites.h"
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define DEPTH 60

static struct timespec now;
static long in_handler, in_compare, in_pool;

OUT_OF_LINE static void site_direct(long calls)
{
    REPEAT(calls) clock_gettime(CLOCK_REALTIME, &now);
    NOT_LAST;
}

static inline __attribute__((always_inline)) void site_inlined(void)
{
    clock_gettime(CLOCK_MONOTONIC, &now);
    NOT_LAST;
}

OUT_OF_LINE static void site_outer(long calls)
{
    REPEAT(calls) site_inlined();
    NOT_LAST;
}

OUT_OF_LINE static void site_deep(long calls)
{
    REPEAT(calls) clock_gettime(CLOCK_BOOTTIME, &now);
    NOT_LAST;
}

// The depth is not known at compile time, so this stays a recursion.
OUT_OF_LINE static int descend(volatile int depth, long calls)
{
    int below = 0;
    if (depth == 1)
        site_deep(calls);
    else
        below = descend(depth - 1, calls);
    NOT_LAST;
    return below + depth;
}

OUT_OF_LINE static int site_compare(const void *one, const void *other)
{
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    in_compare++;
    return *(const int *)one - *(const int *)other;
}

OUT_OF_LINE static void run_sort(long times)
{
    int numbers[32];
    REPEAT(times) {
        for (int i = 0; i < 32; i++) numbers[i] = i * 37 % 32;
        qsort(numbers, 32, sizeof numbers[0], site_compare); // the C library's frames are in between
    }
    NOT_LAST;
}

OUT_OF_LINE static void site_handler(int signal)
{
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    in_handler++;
    (void)signal;
    NOT_LAST;
}

OUT_OF_LINE static void run_raise(long times)
{
    REPEAT(times) raise(SIGUSR1); // a signal frame is in between
    NOT_LAST;
}

// A frame with a size known only at run time.
OUT_OF_LINE static void site_alloca(long calls)
{
    REPEAT(calls) {
        char *room = alloca((size_t)(16 + repeat_ % 8 * 16));
        memset(room, (int)repeat_, 16);
        __asm__ volatile("" : : "r"(room) : "memory");
        clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    }
    NOT_LAST;
}

OUT_OF_LINE static void site_gettimeofday(long calls)
{
    struct timeval time_of_day;
    REPEAT(calls) gettimeofday(&time_of_day, NULL);
    NOT_LAST;
}

OUT_OF_LINE static void site_time(long calls)
{
    REPEAT(calls) time(NULL);
    NOT_LAST;
}

OUT_OF_LINE static void site_pool(void)
{
    struct timespec own;
    REPEAT(100) clock_gettime(CLOCK_TAI, &own);
    __atomic_fetch_add(&in_pool, 100, __ATOMIC_RELAXED);
    NOT_LAST;
}

OUT_OF_LINE static void work(long rounds)
{
    REPEAT(rounds) site_pool();
    NOT_LAST;
}

OUT_OF_LINE static void *pool_thread(void *rounds)
{
    work((long)rounds);
    NOT_LAST;
    return NULL;
}

OUT_OF_LINE static void run_sites(long rounds)
{
    REPEAT(rounds) {
        site_direct(100);
        site_outer(100);
        descend(DEPTH, 100);
        run_sort(1);
        run_raise(1);
        site_alloca(100);
        site_gettimeofday(100);
        site_time(100);
    }
    NOT_LAST;
}

int main(int count, char **arguments)
{
    long rounds = count > 1 ? atol(arguments[1]) : 1000;
    pthread_t thread[3];
    signal(SIGUSR1, site_handler);
    if (count > 2) await_word();
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread[i], NULL, pool_thread, (void *)rounds) != 0) return 3;
    run_sites(rounds);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    say_path("site_direct;run_sites;main", "clock_gettime CLOCK_REALTIME", 100 * rounds);
    say_path("+site_inlined;site_outer;run_sites;main", "clock_gettime CLOCK_MONOTONIC", 100 * rounds);
    say_path("site_deep;descend*60;run_sites;main", "clock_gettime CLOCK_BOOTTIME", 100 * rounds);
    say_path("site_compare;run_sort;run_sites;main", "clock_gettime CLOCK_MONOTONIC_COARSE", in_compare);
    say_path("site_handler;run_raise;run_sites;main", "clock_gettime CLOCK_REALTIME_COARSE", in_handler);
    say_path("site_alloca;run_sites;main", "clock_gettime CLOCK_MONOTONIC_RAW", 100 * rounds);
#ifndef __GLIBC__ // musl reads this clock for both functions
    say_path("site_gettimeofday;run_sites;main", "clock_gettime CLOCK_REALTIME", 100 * rounds);
    say_path("site_time;run_sites;main", "clock_gettime CLOCK_REALTIME", 100 * rounds);
#else
    say_path("site_gettimeofday;run_sites;main", "gettimeofday -", 100 * rounds);
#ifdef SYS_time
    say_path("site_time;run_sites;main", "time -", 100 * rounds);
#else // the arm64 vDSO has no `time` function
    say_path("site_time;run_sites;main", "clock_gettime CLOCK_REALTIME_COARSE", 100 * rounds);
#endif
#endif
    say_path("site_pool;work;pool_thread", "clock_gettime CLOCK_TAI", in_pool);
    return 0;
}
