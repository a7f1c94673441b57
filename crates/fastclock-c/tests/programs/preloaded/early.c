/* A library whose constructor reads the clock, possibly before the preloaded library's has made it. */

#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

__attribute__((constructor)) static void early(void) {
    struct timespec time = {0, -1};
    struct timeval day = {0, -1};
    if (clock_gettime(CLOCK_MONOTONIC, &time) != 0 || time.tv_nsec < 0 || gettimeofday(&day, 0) != 0 ||
        day.tv_usec < 0)
        abort();
}
