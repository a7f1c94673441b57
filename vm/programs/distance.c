// Prints how far vDSO clocks are from the kernel's, and whether they go back: `distance SECONDS THREADS`.
// Each thread takes brackets (system call, vDSO, system call) of four clocks, and between them compares CLOCK_MONOTONIC
// with the latest reading of any thread.
//
// Exact: every vDSO call is counted by the thread that makes it.
#define _GNU_SOURCE
#include "bracket.h"
#include "say.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static const struct {
    clockid_t id;
    const char *name;
} CLOCKS[] = {
    {CLOCK_MONOTONIC, "CLOCK_MONOTONIC"},
    {CLOCK_REALTIME, "CLOCK_REALTIME"},
    {CLOCK_BOOTTIME, "CLOCK_BOOTTIME"},
    {CLOCK_TAI, "CLOCK_TAI"},
};
enum { CLOCK_COUNT = sizeof CLOCKS / sizeof *CLOCKS, BURST = 64 };

struct found {
    long reads[CLOCK_COUNT];
    int64_t outside[CLOCK_COUNT];
    long backwards;
};

static int64_t end;
static _Atomic int64_t latest;

// Reads CLOCK_MONOTONIC after the reading in `latest` was made, so the new reading must not be less.
static int goes_back(void)
{
    int64_t known = atomic_load(&latest);
    const int64_t now = by_vdso(CLOCK_MONOTONIC);
    const int is_back = now < known;
    while (now > known && !atomic_compare_exchange_weak(&latest, &known, now)) {}
    return is_back;
}

static void *watch(void *argument)
{
    struct found *found = argument;
    while (by_syscall(CLOCK_MONOTONIC) < end) {
        for (int i = 0; i < CLOCK_COUNT; i++) {
            const struct bracket reading = bracket(CLOCKS[i].id);
            keep_larger(&found->outside[i], outside(&reading));
            found->reads[i]++;
        }
        REPEAT(BURST) found->backwards += goes_back();
        found->reads[0] += BURST;
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count < 3) return 2;
    const int threads = atoi(arguments[2]);
    struct found sum = {0}, *found = calloc((size_t)threads, sizeof *found);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    end = by_syscall(CLOCK_MONOTONIC) + atol(arguments[1]) * SECOND;
    for (int t = 0; t < threads; t++) {
        if (pthread_create(&ids[t], NULL, watch, &found[t]) != 0) return 1;
    }
    for (int t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        for (int i = 0; i < CLOCK_COUNT; i++) {
            sum.reads[i] += found[t].reads[i];
            keep_larger(&sum.outside[i], found[t].outside[i]);
        }
        sum.backwards += found[t].backwards;
    }
    for (int i = 0; i < CLOCK_COUNT; i++) {
        say_vdso("clock_gettime", CLOCKS[i].name, sum.reads[i]);
        SAY("outside %s %ld\n", CLOCKS[i].name, (long)sum.outside[i]);
    }
    SAY("result backwards %ld\n", sum.backwards);
    return 0;
}
