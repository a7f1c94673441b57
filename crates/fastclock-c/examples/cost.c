/* Measures the cost of a reading through the C library, of the counter alone and of the kernel's
 * clock: the smallest mean of many batches, which other programs disturb least.
 * Usage: cost [BATCHES] */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <fastclock.h>

enum { READS = 1000 };

static fastclock_t *the_clock;

static int64_t kernel_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#define BATCH(name, expression)                                                                    \
    static double name(void) {                                                                     \
        int64_t sum = 0;                                                                           \
        int64_t before = kernel_now();                                                             \
        for (int i = 0; i < READS; i++)                                                            \
            sum += (int64_t)(expression);                                                          \
        int64_t after = kernel_now();                                                              \
        /* Uses the sum, so that the compiler keeps the loop. */                                   \
        __asm__ volatile("" : : "r"(sum));                                                         \
        return (double)(after - before) / READS;                                                   \
    }

#if defined(__x86_64__)
#define COUNTER "rdtsc"
BATCH(counter, __builtin_ia32_rdtsc())
#elif defined(__aarch64__)
#define COUNTER "cntvct_el0"
static uint64_t counter_now(void) {
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
BATCH(counter, counter_now())
#endif

static int64_t bounded_now(void) {
    int64_t bound;
    int64_t time = fastclock_now_bounded(the_clock, &bound);
    return time + bound;
}

static struct timespec spec;
BATCH(kernel, kernel_now())
BATCH(now, fastclock_now(the_clock))
BATCH(now_fast, fastclock_now_fast(the_clock))
BATCH(now_bounded, bounded_now())
BATCH(gettime, fastclock_gettime(the_clock, CLOCK_MONOTONIC, &spec) + spec.tv_nsec)
BATCH(recent, fastclock_recent(the_clock))
BATCH(coarse, fastclock_coarse(the_clock))

static const struct {
    const char *name;
    double (*batch)(void);
} WAYS[] = {
    {COUNTER, counter},
    {"clock_gettime", kernel},
    {"fastclock_now_fast", now_fast},
    {"fastclock_now", now},
    {"fastclock_now_bounded", now_bounded},
    {"fastclock_gettime", gettime},
    {"fastclock_coarse", coarse},
    {"fastclock_recent", recent},
};
enum { WAYS_COUNT = sizeof WAYS / sizeof WAYS[0] };

int main(int argc, char **argv) {
    int batches = argc > 1 ? atoi(argv[1]) : 2000;
    double best[WAYS_COUNT];
    the_clock = fastclock_new();
    int status = fastclock_calibrate(the_clock, 1000000000);
    printf("status %d: %s\n", status, fastclock_reason_text(status));
    for (int way = 0; way < WAYS_COUNT; way++)
        best[way] = 1e9;
    /* In turns, so that a slow moment of the machine affects all of them. */
    for (int batch = 0; batch < batches; batch++)
        for (int way = 0; way < WAYS_COUNT; way++) {
            double mean = WAYS[way].batch();
            if (mean < best[way])
                best[way] = mean;
        }
    for (int way = 0; way < WAYS_COUNT; way++)
        printf("%-22s %6.2f ns  %5.2f x %s  %5.2f x clock_gettime\n", WAYS[way].name, best[way],
               best[way] / best[0], COUNTER, best[way] / best[1]);
    fastclock_free(the_clock);
    return 0;
}
