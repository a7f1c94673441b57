// Forbids itself the CPU's counter (on arm64 Linux 6.12 and later) and reads a coarse clock, which does not need the
// counter. Timing a read does, so a tracer must leave the timing out.
//
// Exact, if linked statically: no other code reads a clock.
#include "say.h"
#include <sys/prctl.h>
#include <time.h>

int main(void)
{
    struct timespec now;
    const int refused = prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
    REPEAT(5003) if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0) return 1;
    say_vdso("clock_gettime", "CLOCK_MONOTONIC_COARSE", 5003);
    SAY("result forbidden %d\n", !refused);
    return 0;
}
