// Steps CLOCK_REALTIME forwards and back while it reads the clock: `step SECONDS`, as root. Prints how long the vDSO
// kept the time from before the step, and how far it was from the kernel's clocks otherwise.
//
// Exact: every vDSO call is counted.
#define _GNU_SOURCE
#include "bracket.h"
#include "say.h"
#include <stdlib.h>

static long real_reads, mono_reads;
static int64_t outside_real, outside_mono, last_mono;
static long backwards;

static int64_t read_real(void)
{
    const struct bracket reading = bracket(CLOCK_REALTIME);
    real_reads++;
    return outside(&reading);
}

static void read_mono(void)
{
    const struct bracket reading = bracket(CLOCK_MONOTONIC);
    mono_reads++;
    keep_larger(&outside_mono, outside(&reading));
    backwards += reading.now < last_mono;
    last_mono = reading.now;
}

// Reads both clocks for a time in which they must be right.
static void read_for(int64_t nanoseconds)
{
    const int64_t end = by_syscall(CLOCK_MONOTONIC) + nanoseconds;
    while (by_syscall(CLOCK_MONOTONIC) < end) {
        keep_larger(&outside_real, read_real());
        read_mono();
    }
}

static int step(const char *name, long seconds)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    now.tv_sec += seconds;
    if (clock_settime(CLOCK_REALTIME, &now) != 0) return 1;
    const int64_t begin = by_syscall(CLOCK_MONOTONIC);
    while (read_real() > labs(seconds) * SECOND / 2) read_mono();
    SAY("seen %s %ld\n", name, (long)(by_syscall(CLOCK_MONOTONIC) - begin));
    return 0;
}

int main(int count, char **arguments)
{
    const long seconds = count > 1 ? atol(arguments[1]) : 100;
    read_for(SECOND);
    if (step("forwards", seconds) != 0) return 1;
    read_for(SECOND);
    if (step("back", -seconds) != 0) return 1;
    read_for(SECOND);
    say_vdso("clock_gettime", "CLOCK_REALTIME", real_reads);
    say_vdso("clock_gettime", "CLOCK_MONOTONIC", mono_reads);
    SAY("outside CLOCK_REALTIME %ld\n", (long)outside_real);
    SAY("outside CLOCK_MONOTONIC %ld\n", (long)outside_mono);
    SAY("result backwards %ld\n", backwards);
    return 0;
}
