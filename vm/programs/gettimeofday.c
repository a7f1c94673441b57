// The loop by which a slow clock is found: `gettimeofday N` calls it N times. What a call took is
// measured by system calls, so that it holds whatever clock the loop is given.
//
// Exact: nothing else reads a clock through the vDSO.
#include "say.h"
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int count, char **arguments)
{
    const long calls = count > 1 ? atol(arguments[1]) : 0;
    struct timeval last = {0, 0}, now;
    long backwards = 0;
    const double begin = now_ns();
    REPEAT(calls) {
        if (gettimeofday(&now, NULL) != 0) return 1;
        backwards += now.tv_sec < last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_usec < last.tv_usec);
        last = now;
    }
    const double end = now_ns();
    say_vdso("gettimeofday", "-", calls);
    SAY("result backwards %ld\n", backwards);
    SAY("took %.1f ns each\n", calls > 0 ? (end - begin) / (double)calls : 0);
    return 0;
}
