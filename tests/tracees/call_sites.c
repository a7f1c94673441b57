// Call sites whose calls are known: `call_sites flat|threads|fork|exec ROUNDS`.
//
// Exact: every function below makes a fixed number of calls a round. A line `site FUNCTION CALLED CLOCK N` gives the
// calls of CALLED that FUNCTION made itself, `-` for no clock. Each function has a frame, no frame pointer (-O2), and
// makes no other calls of the vDSO.
#define _GNU_SOURCE
#include "say.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static volatile long sink;

// The increment behind the last call keeps the call from becoming a jump.
#define SITE(name, calls, call)                                                                    \
    __attribute__((noinline, noclone)) static void name(void)                                      \
    {                                                                                              \
        struct timespec now;                                                                       \
        struct timeval day;                                                                        \
        (void)now, (void)day;                                                                      \
        REPEAT(calls) { call; sink++; }                                                            \
    }

SITE(reads_often, 60, clock_gettime(CLOCK_MONOTONIC, &now))
SITE(reads_seldom, 20, clock_gettime(CLOCK_MONOTONIC, &now))
SITE(reads_raw, 10, clock_gettime(CLOCK_MONOTONIC_RAW, &now))
SITE(reads_day, 30, gettimeofday(&day, NULL))

__attribute__((noinline, noclone)) static void one_round(void)
{
    reads_often();
    reads_seldom();
    reads_raw();
    reads_day();
    sink++;
}

static void work(long rounds)
{
    REPEAT(rounds) one_round();
    SAY("site reads_often clock_gettime CLOCK_MONOTONIC %ld\n", 60 * rounds);
    SAY("site reads_seldom clock_gettime CLOCK_MONOTONIC %ld\n", 20 * rounds);
    SAY("site reads_raw clock_gettime CLOCK_MONOTONIC_RAW %ld\n", 10 * rounds);
    SAY("site reads_day gettimeofday - %ld\n", 30 * rounds);
    say_vdso("clock_gettime", "CLOCK_MONOTONIC", 80 * rounds);
    say_vdso("clock_gettime", "CLOCK_MONOTONIC_RAW", 10 * rounds);
    say_vdso("gettimeofday", "-", 30 * rounds);
}

static void *thread(void *rounds)
{
    work((long)rounds);
    return NULL;
}

static int threads(long rounds)
{
    pthread_t all[8];
    for (int i = 0; i < 8; i++)
        if (pthread_create(&all[i], NULL, thread, (void *)rounds) != 0) return 1;
    for (int i = 0; i < 8; i++) pthread_join(all[i], NULL);
    return 0;
}

static int children(long rounds, const char *execute)
{
    for (int child = 0; child < 3; child++) {
        if (fork() != 0) continue;
        if (execute != NULL) {
            execl("/proc/self/exe", "call_sites", "flat", execute, (char *)NULL);
            _exit(99);
        }
        work(rounds);
        _exit(0);
    }
    work(rounds);
    int status, failed = 0;
    while (wait(&status) > 0) failed |= status;
    SAY("processes 4\n");
    return failed != 0;
}

int main(int count, char **words)
{
    if (count < 3) return 2;
    long rounds = atol(words[2]);
    if (strcmp(words[1], "threads") == 0) return threads(rounds);
    if (strcmp(words[1], "fork") == 0) return children(rounds, NULL);
    if (strcmp(words[1], "exec") == 0) return children(rounds, words[2]);
    work(rounds);
    return 0;
}
