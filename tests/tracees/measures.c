// `measures [TURNS]`: three functions each measure a work of their own length, with two reads of one clock, at known
// rates. It prints of each the lines of its two reads, how often it measured, and the first decile, the median and the
// ninth decile of what it measured, in nanoseconds.
#include "say.h"
#include <stdlib.h>
#include <time.h>

enum { KINDS = 3, MOST = 1 << 20 };
static const struct { const char *name; long turns, each; } kinds[KINDS] = {
    {"brief_work", 2000, 8}, {"middle_work", 20000, 3}, {"long_work", 200000, 1},
};
static int from[KINDS], to[KINDS];
static long *measured[KINDS], times[KINDS];

static __attribute__((noinline)) void work(long turns)
{
    for (volatile long turn = 0; turn < turns; turn++) {
    }
}

static void note(int kind, const struct timespec *begin, const struct timespec *end)
{
    long ns = (end->tv_sec - begin->tv_sec) * 1000000000 + end->tv_nsec - begin->tv_nsec;
    measured[kind][times[kind]++ % MOST] = ns;
}

#define MEASURE(kind)                                                                              \
    struct timespec begin, end;                                                                    \
    from[kind] = __LINE__ + 1, to[kind] = __LINE__ + 3;

static __attribute__((noinline)) void brief_work(void)
{
    MEASURE(0)
    clock_gettime(CLOCK_MONOTONIC, &begin);
    work(kinds[0].turns);
    clock_gettime(CLOCK_MONOTONIC, &end);
    note(0, &begin, &end);
}

static __attribute__((noinline)) void middle_work(void)
{
    MEASURE(1)
    clock_gettime(CLOCK_MONOTONIC, &begin);
    work(kinds[1].turns);
    clock_gettime(CLOCK_MONOTONIC, &end);
    note(1, &begin, &end);
}

static __attribute__((noinline)) void long_work(void)
{
    MEASURE(2)
    clock_gettime(CLOCK_MONOTONIC, &begin);
    work(kinds[2].turns);
    clock_gettime(CLOCK_MONOTONIC, &end);
    note(2, &begin, &end);
}

static int by_length(const void *a, const void *b)
{
    long first = *(const long *)a, second = *(const long *)b;
    return (first > second) - (first < second);
}

int main(int argc, char **argv)
{
    long turns = argc > 1 ? atol(argv[1]) : 1000;
    for (int kind = 0; kind < KINDS; kind++) {
        measured[kind] = calloc(MOST, sizeof(long));
        if (!measured[kind]) return 1;
    }
    REPEAT(turns) {
        for (long i = 0; i < kinds[0].each; i++) brief_work();
        for (long i = 0; i < kinds[1].each; i++) middle_work();
        long_work();
    }
    long all = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        long n = times[kind] < MOST ? times[kind] : MOST, *of = measured[kind];
        all += 2 * times[kind];
        qsort(of, (size_t)n, sizeof(long), by_length);
        SAY("result interval %s %d %d %ld %ld %ld %ld\n", kinds[kind].name, from[kind], to[kind], times[kind],
            of[n / 10], of[n / 2], of[n * 9 / 10]);
    }
    say_vdso("clock_gettime", "CLOCK_MONOTONIC", all);
    return 0;
}
