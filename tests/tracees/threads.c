// Threads that read the clock: `threads all N` (N at once, each a prime number of reads), `threads churn N`
// (N short ones, 50 at a time).
//
// Exact: each thread counts its own reads, and the sums are printed after the last join; glibc's
// pthread functions make no vDSO calls. Totals must be exact although slots are reused.
#define _GNU_SOURCE
#include "say.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

static pthread_barrier_t all_there;
static pthread_attr_t small;

static long prime_above(long n)
{
    for (long divisor = 2; divisor * divisor <= n; divisor++)
        if (n % divisor == 0) return prime_above(n + 1);
    return n;
}

static void *read_together(void *calls)
{
    struct timespec now;
    pthread_barrier_wait(&all_there);
    REPEAT((long)calls) clock_gettime(CLOCK_TAI, &now);
    REPEAT(3) syscall(SYS_getppid);
    pthread_barrier_wait(&all_there); // all threads exist at the same time
    return NULL;
}

static void *read_shortly(void *calls)
{
    struct timespec now;
    REPEAT((long)calls) clock_gettime(CLOCK_BOOTTIME, &now);
    syscall(SYS_getppid);
    return NULL;
}

static void all(int count)
{
    pthread_t thread[count];
    long total = 0;
    pthread_barrier_init(&all_there, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        long calls = prime_above(count > 100 ? 101 : 10007 + 100L * i);
        total += calls;
        if (pthread_create(&thread[i], &small, read_together, (void *)calls) != 0) exit(1);
    }
    for (int i = 0; i < count; i++) pthread_join(thread[i], NULL);
    say_vdso("clock_gettime", "CLOCK_TAI", total);
    say_syscall("getppid", 3L * count);
}

static void churn(int count)
{
    pthread_t thread[50];
    for (int started = 0; started < count; started += 50) {
        for (int i = 0; i < 50; i++)
            if (pthread_create(&thread[i], &small, read_shortly, (void *)7L) != 0) exit(1);
        for (int i = 0; i < 50; i++) pthread_join(thread[i], NULL);
    }
    say_vdso("clock_gettime", "CLOCK_BOOTTIME", 7L * count);
    say_syscall("getppid", count);
}

int main(int count, char **arguments)
{
    if (count != 3) return 2;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    int threads = atoi(arguments[2]);
    if (strcmp(arguments[1], "churn") == 0) churn(threads);
    else all(threads);
    SAY("threads %d\nprocesses 1\n", threads + 1);
    return 0;
}
