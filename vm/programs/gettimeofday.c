// A loop that reveals a slow clock: `gettimeofday N` makes N calls and prints the cost of a call. Batches are timed by
// system calls, so the cost is right whatever clock the loop is given. The cheapest batch counts, because a busy host
// makes the others slower.
//
// Exact: no other code reads a clock through the vDSO.
#include "say.h"
#include <math.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

enum { BATCH = 1009 };

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
    double begin = now_ns(), cheapest = calls > 0 ? INFINITY : 0;
    for (long left = calls; left > 0; left -= BATCH) {
        const long batch = left < BATCH ? left : BATCH;
        REPEAT(batch) {
            if (gettimeofday(&now, NULL) != 0) return 1;
            backwards += now.tv_sec < last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_usec < last.tv_usec);
            last = now;
        }
        const double end = now_ns(), each = (end - begin) / (double)batch;
        if (each < cheapest) cheapest = each;
        begin = end;
    }
#ifdef __GLIBC__
    say_vdso("gettimeofday", "-", calls);
#else // musl has a single path to the vDSO
    say_vdso("clock_gettime", "CLOCK_REALTIME", calls);
#endif
    SAY("result backwards %ld\n", backwards);
    SAY("took %.1f ns each\n", cheapest);
    return 0;
}
