// Lets the kernel's clock run faster and slower, as an NTP daemon does, and watches how the vDSO follows: `slew PPM
// SECONDS`, as root. Three times SECONDS: faster, slower, and as before. Prints the longest time for which the program
// stood still, because no timekeeper renews a clock page on a machine that stands still.
//
// Exact: every vDSO call is counted.
#define _GNU_SOURCE
#include "bracket.h"
#include "say.h"
#include <stdlib.h>
#include <sys/timex.h>

static long reads, backwards;
static int64_t last, last_done, held_up;

static int64_t watch(int64_t nanoseconds)
{
    const int64_t end = by_syscall(CLOCK_MONOTONIC) + nanoseconds;
    int64_t farthest = 0;
    while (by_syscall(CLOCK_MONOTONIC) < end) {
        const struct bracket reading = bracket(CLOCK_MONOTONIC);
        keep_larger(&farthest, outside(&reading));
        backwards += reading.now < last;
        last = reading.now;
        if (last_done > 0) keep_larger(&held_up, reading.after - last_done);
        last_done = reading.after;
        reads++;
    }
    return farthest;
}

// The kernel's unit is 1/65536 of a part per million.
static int set_rate(long ppm)
{
    struct timex change = {.modes = ADJ_FREQUENCY, .freq = ppm * 65536};
    return adjtimex(&change) < 0;
}

int main(int count, char **arguments)
{
    if (count < 3) return 2;
    const long ppm = atol(arguments[1]), seconds = atol(arguments[2]);
    const long rates[] = {ppm, -ppm, 0};
    watch(SECOND);
    for (int i = 0; i < 3; i++) {
        if (set_rate(rates[i]) != 0) return 1;
        const int64_t first = watch(seconds * SECOND / 2), then = watch(seconds * SECOND / 2);
        SAY("outside at %ld ppm: first %ld then %ld\n", rates[i], (long)first, (long)then);
    }
    say_vdso("clock_gettime", "CLOCK_MONOTONIC", reads);
    SAY("held up %ld\n", (long)held_up);
    SAY("result backwards %ld\n", backwards);
    return 0;
}
