// Reads the page of `clockscope serve` with the fastclock library, between two system calls: `served SECONDS`. Each
// reading has a bound of its error; `beyond` counts the readings whose error is larger.
#define _GNU_SOURCE
#include "bracket.h"
#include "fastclock.h"
#include "say.h"
#include <stdlib.h>

typedef int64_t read_clock(const fastclock_t *clock, int64_t *bound);

struct found {
    long reads, beyond;
    int64_t farthest, widest;
};

static int64_t compare(const fastclock_t *clock, read_clock *read_it, clockid_t twin, struct found *found)
{
    struct bracket reading;
    int64_t bound = 0;
    reading.before = by_syscall(twin);
    reading.now = read_it(clock, &bound);
    reading.after = by_syscall(twin);
    found->reads++;
    found->beyond += outside(&reading) > bound;
    keep_larger(&found->farthest, outside(&reading));
    keep_larger(&found->widest, bound);
    return reading.now;
}

static void say(const char *name, const struct found *found)
{
    SAY("outside %s %ld\n", name, (long)found->farthest);
    SAY("bound %s %ld\n", name, (long)found->widest);
    SAY("beyond %s %ld of %ld\n", name, found->beyond, found->reads);
}

int main(int count, char **arguments)
{
    int reason;
    fastclock_t *clock = fastclock_open("/run/clockscope/page", &reason);
    if (!clock) {
        SAY("%s\n", fastclock_reason_text(reason));
        return 1;
    }
    struct found mono = {0}, real = {0};
    long backwards = 0, by_kernel = 0;
    int64_t last = 0;
    const int64_t end = by_syscall(CLOCK_MONOTONIC) + (count > 1 ? atol(arguments[1]) : 1) * SECOND;
    while (by_syscall(CLOCK_MONOTONIC) < end) {
        const int64_t now = compare(clock, fastclock_now_bounded, CLOCK_MONOTONIC, &mono);
        compare(clock, fastclock_realtime_bounded, CLOCK_REALTIME, &real);
        backwards += now < last;
        last = now;
        by_kernel += fastclock_status(clock) != FASTCLOCK_FAST;
    }
    say("CLOCK_MONOTONIC", &mono);
    say("CLOCK_REALTIME", &real);
    SAY("result backwards %ld\n", backwards);
    SAY("page declined %ld of %ld\n", by_kernel, mono.reads);
    fastclock_free(clock);
    return 0;
}
