// Clocks from a page that another process keeps: `page_clock MODE...`. Modes:
//
// `order THREADS MS`: threads hand their readings on; prints for each clock how many readings were less than one
// that was handed on before. `bound MS NS`: reads CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME and CLOCK_TAI
// between two system calls; prints how many readings were outside by more than NS. `wait-order THREADS MS`: as
// `order`, then exits with status 7, for programs whose tracer is killed. `forbid MS`: forbids itself the time-stamp
// counter after reading the clock for so long (400 ms), and prints the effect. `strict`: the same by seccomp's strict
// mode. `count N MS`: N reads of each clock of the page after that time. `fork N`: children and grandchildren read
// at once.
#define _GNU_SOURCE
#include "say.h"
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
static const struct { clockid_t id; const char *name; } clocks[] = {
    {CLOCK_REALTIME, "CLOCK_REALTIME"}, {CLOCK_MONOTONIC, "CLOCK_MONOTONIC"},
    {CLOCK_BOOTTIME, "CLOCK_BOOTTIME"}, {CLOCK_TAI, "CLOCK_TAI"},
    {CLOCK_REALTIME_COARSE, "CLOCK_REALTIME_COARSE"}, {CLOCK_MONOTONIC_COARSE, "CLOCK_MONOTONIC_COARSE"}};

static int64_t nanos(const struct timespec *time) { return time->tv_sec * 1000000000LL + time->tv_nsec; }

static int64_t by_syscall(clockid_t clock)
{
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return nanos(&now);
}

static int64_t by_vdso(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return nanos(&now);
}

static int64_t end;
static int running(void) { return by_syscall(CLOCK_MONOTONIC_RAW) < end; }
static void run_for(const char *millis) { end = by_syscall(CLOCK_MONOTONIC_RAW) + atol(millis) * 1000000LL; }

static _Atomic int64_t latest[LENGTH(clocks)];
static atomic_long backwards[LENGTH(clocks)];

static void *hand_on(void *unused)
{
    while (running()) {
        for (size_t clock = 1; clock < LENGTH(clocks); clock++) {
            if (clock == 3 || clock == 4) continue; // CLOCK_REALTIME and CLOCK_TAI may be stepped
            for (int turn = 0; turn < 200; turn++) {
                int64_t before = atomic_load(&latest[clock]), now = by_vdso(clocks[clock].id);
                if (now < before) atomic_fetch_add(&backwards[clock], 1);
                while (before < now && !atomic_compare_exchange_weak(&latest[clock], &before, now)) {}
            }
        }
    }
    return unused;
}

static void order(int threads, const char *millis)
{
    pthread_t thread[64];
    run_for(millis);
    for (int i = 0; i < threads && i < 64; i++) pthread_create(&thread[i], NULL, hand_on, NULL);
    for (int i = 0; i < threads && i < 64; i++) pthread_join(thread[i], NULL);
    for (size_t clock = 1; clock < LENGTH(clocks); clock++)
        if (clock != 3 && clock != 4) SAY("result %s backwards %ld\n", clocks[clock].name, atomic_load(&backwards[clock]));
}

static void bound(const char *millis, long slack)
{
    long outside[4] = {0}, worst[4] = {0};
    run_for(millis);
    while (running())
        for (int clock = 0; clock < 4; clock++) {
            int64_t before = by_syscall(clocks[clock].id), now = by_vdso(clocks[clock].id), after = by_syscall(clocks[clock].id);
            long off = before > now ? before - now : now > after ? now - after : 0;
            if (after < before || after - before > 100000000) continue; // stepped, or held up
            outside[clock] += off > slack;
            if (off > worst[clock]) worst[clock] = off;
        }
    for (int clock = 0; clock < 4; clock++) SAY("result %s outside %ld\n", clocks[clock].name, outside[clock]);
    for (int clock = 0; clock < 4; clock++) dprintf(2, "%s worst %ld ns\n", clocks[clock].name, worst[clock]);
}

static sigjmp_buf back;
static volatile int faults;
static void fault(int number) { faults++; siglongjmp(back, number); }

static void read_forbidden(void)
{
    faults = 0;
    for (volatile int turn = 0; turn < 50; turn++) {
        for (volatile size_t clock = 0; clock < LENGTH(clocks); clock++)
            if (sigsetjmp(back, 1) == 0) by_vdso(clocks[clock].id);
        if (sigsetjmp(back, 1) == 0) time(NULL);
    }
    SAY("result faults %d\n", faults);
}

static void forbid(const char *millis)
{
    run_for(millis);
    while (running()) for (size_t clock = 0; clock < LENGTH(clocks); clock++) by_vdso(clocks[clock].id);
    signal(SIGSEGV, fault);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0) exit(1);
    read_forbidden();
    pid_t child = fork();
    if (child == 0) {
        read_forbidden();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    read_forbidden();
}

static void count(long calls, const char *millis)
{
    struct timeval now;
    run_for(millis);
    while (running()) usleep(1000);
    for (size_t clock = 0; clock < LENGTH(clocks); clock++) {
        REPEAT(calls) by_vdso(clocks[clock].id);
        say_vdso("clock_gettime", clocks[clock].name, calls);
    }
    REPEAT(calls) gettimeofday(&now, NULL);
    say_vdso("gettimeofday", "-", calls);
    REPEAT(calls) time(NULL);
    say_vdso("time", "-", calls);
}

static void forks(int depth)
{
    int64_t before = by_vdso(CLOCK_MONOTONIC);
    pid_t child = depth > 0 ? fork() : -1;
    if (child > 0) {
        int status;
        waitpid(child, &status, 0);
        if (status != 0) _exit(1);
    }
    int64_t now = by_vdso(CLOCK_MONOTONIC);
    // A forked child may use the kernel's clock where its parent used the page.
    if (now + 20000 < before) _exit(1);
    if (child == 0) {
        forks(depth - 1);
        _exit(0);
    }
}

int main(int count_, char **arguments)
{
    const char *mode = count_ > 1 ? arguments[1] : "";
    if (strcmp(mode, "order") == 0) order(atoi(arguments[2]), arguments[3]);
    else if (strcmp(mode, "wait-order") == 0) {
        order(atoi(arguments[2]), arguments[3]);
        return 7;
    } else if (strcmp(mode, "bound") == 0) bound(arguments[2], atol(arguments[3]));
    else if (strcmp(mode, "forbid") == 0) forbid(count_ > 2 ? arguments[2] : "400");
    else if (strcmp(mode, "strict") == 0) {
        by_vdso(CLOCK_MONOTONIC);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        by_vdso(CLOCK_MONOTONIC_COARSE);
        SAY("result coarse read\n");
        by_vdso(CLOCK_MONOTONIC);
        SAY("result read\n");
        syscall(SYS_exit, 0);
    } else if (strcmp(mode, "count") == 0) count(atol(arguments[2]), arguments[3]);
    else if (strcmp(mode, "fork") == 0) {
        run_for("300");
        while (running()) forks(3);
        SAY("result forked\n");
    } else return 2;
    return 0;
}
