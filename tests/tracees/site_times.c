// Times system calls with the program's own clock. `site_times plain` makes many calls that do not wait and some that
// wait about equally long, and prints each kind's total time. `site_times handlers` waits for signals with a handler
// that takes much longer than the wait. `site_times forbids` makes calls, forbids itself the time-stamp counter, and
// makes more. `site_times leaps` leaves calls by a jump out of a handler, and makes more from the same place of the
// stack.
//
// Exact: only this program calls getpgid.
#define _GNU_SOURCE
#include "say.h"
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { CALLS = 300000, WAITS = 60, SIGNALS = 40, SPINS_US = 5000 };

static long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void *call(void *nothing)
{
    REPEAT(CALLS) getpgid(0);
    return nothing;
}

static void plain(void)
{
    long start = now_ns();
    call(NULL);
    long called = now_ns();
    REPEAT(WAITS) poll(NULL, 0, 5);
    SAY("took getpgid %ld\n", called - start);
    SAY("took poll %ld\n", now_ns() - called);
    pthread_t other;
    pthread_create(&other, NULL, call, NULL);
    pthread_join(other, NULL);
    say_syscall("getpgid", 2 * (long)CALLS);
    say_syscall("poll", WAITS);
}

static void spin(int signal)
{
    (void)signal;
    for (long until = now_ns() + 1000L * SPINS_US; now_ns() < until;) getpgid(0);
}

static void handlers(void)
{
    signal(SIGALRM, spin);
    struct itimerval often = {{0, 2 * SPINS_US}, {0, 2 * SPINS_US}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    REPEAT(SIGNALS) pause();
    setitimer(ITIMER_REAL, &never, NULL);
    say_syscall("pause", SIGNALS);
}

static void forbids(void)
{
    call(NULL);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) _exit(96);
    REPEAT(CALLS) getpgid(0);
    if (fork() == 0) {
        REPEAT(1000) getpgid(0);
        _exit(0);
    }
    wait(NULL);
    say_syscall("getpgid", 2 * (long)CALLS + 1000);
}

static sigjmp_buf away;

static void leap(int signal)
{
    (void)signal;
    siglongjmp(away, 1);
}

static void leaps(void)
{
    signal(SIGALRM, leap);
    struct itimerval once = {{0, 0}, {0, 500}};
    for (volatile int left = 0; left < SIGNALS; left++) {
        if (sigsetjmp(away, 1) == 0) {
            setitimer(ITIMER_REAL, &once, NULL);
            for (;;) pause();
        }
        REPEAT(1000) getpgid(0);
    }
    say_syscall("getpgid", SIGNALS * 1000L);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "plain") == 0) plain();
    else if (strcmp(what, "handlers") == 0) handlers();
    else if (strcmp(what, "forbids") == 0) forbids();
    else if (strcmp(what, "leaps") == 0) leaps();
    else return 64;
    return 0;
}
