// An ordinary program of an ordinary user: reads the page of the host's timekeeper through the C library, and prints
// which clock answers and whether the answer equals the kernel's. `--until FILE` reads on until FILE exists.
#include <fastclock.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TOLERATED 1000000 // ns

static int64_t kernel(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int main(int arguments, char **argument)
{
    fastclock_t *clock = fastclock_new();
    int64_t last = 0;
    long wrong = 0, backwards = 0;
    int host_page = fastclock_host_page(clock);
    const char *file = arguments == 3 ? argument[2] : NULL;
    for (long reads = 0; reads < 100000 || (file && access(file, F_OK) != 0); reads++) {
        int64_t before = kernel(), now = fastclock_now(clock), after = kernel();
        wrong += now < before - TOLERATED || now > after + TOLERATED;
        backwards += now < last;
        last = now;
    }
    int status = fastclock_status(clock);
    printf("host page %d, status %d, wrong %ld, backwards %ld\n", host_page, status, wrong, backwards);
    fastclock_free(clock);
    return host_page != 0 || status != 0 || wrong != 0 || backwards != 0;
}
