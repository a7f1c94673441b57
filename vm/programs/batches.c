// Reads CLOCK_MONOTONIC in batches and prints the cost of a call in the cheapest batch, by the machine's clock. That
// batch had no interrupt, and clockscope timed no call in it. If the clock advances by a nanosecond with each
// instruction, the cost is the number of instructions.
//
// Batches are timed by system calls, whose cost does not depend on the vDSO; the cost of an empty batch is subtracted.
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
