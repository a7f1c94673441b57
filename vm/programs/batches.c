// Reads CLOCK_MONOTONIC in batches and prints what a call takes by the machine's clock in the cheapest batch: one
// that no interrupt came into, and in which clockscope timed no call. Where the clock goes on by a nanosecond with each instruction, that is the number of instructions.
//
// The clock is looked at by system calls, which cost the same whatever is done with the vDSO; a batch of no calls is taken off.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 400, CALLS = 1000 };

static long now(void)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

static long batch(int calls)
{
    struct timespec time;
    long begin = now();
    for (int i = 0; i < calls; i++) clock_gettime(CLOCK_MONOTONIC, &time);
    return now() - begin;
}

int main(void)
{
    long empty = batch(0), least = batch(CALLS);
    for (int i = 0; i < BATCHES; i++) {
        long one = batch(0), took = batch(CALLS);
        if (one < empty) empty = one;
        if (took < least) least = took;
    }
    printf("%.2f\n", (double)(least - empty) / CALLS);
    return 0;
}
