// A server to attach to while it works: `attach_server THREADS`. Prints "ready", then answers lines:
//   begin         all counted workers are parked, and then read the clocks that only they read
//   end           they are parked again; prints their exact counts since then, then "done"
//   sum N         "sum N CHECKSUM", for a client that knows the answer
//   fork N        a child reads CLOCK_TAI N times, prints that and ends; then "done"
//   exec N        the same by a child that executes this program again
//   health        "health backwards N wrong N"
// At the end of the input it prints how it ended, and exits with status 7.
//
// Exact: every second worker is counted, and reads CLOCK_TAI, CLOCK_BOOTTIME, gettimeofday, time and
// clock_getres between begin and end only; the C library reads none of them by itself. The other
// workers read CLOCK_MONOTONIC all the time, and print the least number of reads.
#define _GNU_SOURCE
#include "say.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { FREE, COUNTED, PARKED, LEAVING };

// Up to this number, workers never rest. With more workers, each naps between bursts.
#define BUSY_WORKERS 32

static atomic_int phase = FREE;
static atomic_long backwards, wrong, free_reads, bursts;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int parked, counted_workers, workers;

static long nanoseconds(const struct timespec *time)
{
    return time->tv_sec * 1000000000L + time->tv_nsec;
}

// Reads a clock. The time must not go back, and must lie between two system calls.
static long read_in_order(clockid_t clock, int calls, long last)
{
    struct timespec now;
    for (int i = 0; i < calls; i++) {
        if (clock_gettime(clock, &now) != 0) atomic_fetch_add(&wrong, 1);
        if (nanoseconds(&now) < last) atomic_fetch_add(&backwards, 1);
        last = nanoseconds(&now);
    }
    return last;
}

static void sandwich(void)
{
    struct timespec before, now, after;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &before);
    clock_gettime(CLOCK_MONOTONIC, &now);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &after);
    if (nanoseconds(&now) < nanoseconds(&before) || nanoseconds(&now) > nanoseconds(&after))
        atomic_fetch_add(&wrong, 1);
}

static void wait_at_the_gate(void)
{
    pthread_mutex_lock(&gate);
    parked++;
    pthread_cond_broadcast(&changed);
    while (atomic_load(&phase) == PARKED) pthread_cond_wait(&changed, &gate);
    parked--;
    pthread_mutex_unlock(&gate);
}

static void nap(void)
{
    // With these naps all workers together load the machine like BUSY_WORKERS.
    struct timespec pause = {0, 62500L * workers};
    if (workers > BUSY_WORKERS) nanosleep(&pause, NULL);
}

// One burst of a counted worker; say_counts has the same numbers.
static void counted_burst(void)
{
    struct timeval now;
    struct timespec tai, resolution;
    // CLOCK_TAI may go back, because an administrator may set the time.
    for (int i = 0; i < 61; i++)
        if (clock_gettime(CLOCK_TAI, &tai) != 0) atomic_fetch_add(&wrong, 1);
    read_in_order(CLOCK_BOOTTIME, 7, 0);
    for (int i = 0; i < 5; i++) gettimeofday(&now, NULL);
    for (int i = 0; i < 3; i++) time(NULL);
    clock_getres(CLOCK_TAI, &resolution);
    syscall(SYS_getppid);
    syscall(SYS_getppid);
    atomic_fetch_add(&bursts, 1);
}

static void say_counts(long count)
{
    say_vdso("clock_gettime", "CLOCK_TAI", 61 * count);
    say_vdso("clock_gettime", "CLOCK_BOOTTIME", 7 * count);
#ifndef __GLIBC__ // musl has a single path to the vDSO, and none for clock_getres
    say_vdso("clock_gettime", "CLOCK_REALTIME", (5 + 3) * count);
    say_syscall("clock_getres", count);
#else
    say_vdso("gettimeofday", "-", 5 * count);
    say_vdso("clock_getres", "CLOCK_TAI", count);
#ifdef SYS_time
    say_vdso("time", "-", 3 * count);
#else // the arm64 vDSO has no `time` function
    say_vdso("clock_gettime", "CLOCK_REALTIME_COARSE", 3 * count);
#endif
#endif
    say_syscall("getppid", 2 * count);
}

static void *counted_worker(void *unused)
{
    for (long last = 0;;) {
        int now = atomic_load(&phase);
        if (now == LEAVING) return unused;
        if (now == PARKED) wait_at_the_gate();
        if (now == COUNTED) counted_burst();
        if (now == FREE) last = read_in_order(CLOCK_MONOTONIC, 61, last);
        nap();
    }
}

static void *free_worker(void *unused)
{
    for (long last = 0; atomic_load(&phase) != LEAVING;) {
        last = read_in_order(CLOCK_MONOTONIC, 97, last);
        sandwich();
        atomic_fetch_add(&free_reads, 98);
        nap();
    }
    return unused;
}

static void enter(int next)
{
    pthread_mutex_lock(&gate);
    atomic_store(&phase, PARKED);
    while (parked != counted_workers) pthread_cond_wait(&changed, &gate);
    // The mutex is held, so the workers that leave the gate are gone before the gate can be closed again.
    atomic_store(&phase, next);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&gate);
}

static void wait_until_all_run(void)
{
    for (int left = 1; left;) {
        pthread_mutex_lock(&gate);
        left = parked;
        pthread_mutex_unlock(&gate);
        if (left) sched_yield();
    }
}

static unsigned long checksum(unsigned long seed)
{
    unsigned long mixed = 14695981039346656037UL;
    for (int i = 0; i < 1000; i++) mixed = (mixed ^ (seed + (unsigned long)i)) * 1099511628211UL;
    return mixed;
}

static void leaf(long calls)
{
    struct timespec now;
    REPEAT(calls) clock_gettime(CLOCK_TAI, &now);
    syscall(SYS_getppid);
    say_vdso("clock_gettime", "CLOCK_TAI", calls);
    say_syscall("getppid", 1);
    _exit(0);
}

static void child(const char *calls, int executes)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0 && executes) {
        execl("/proc/self/exe", "attach_server", "leaf", calls, (char *)NULL);
        _exit(1);
    }
    if (pid == 0) leaf(atol(calls));
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) atomic_fetch_add(&wrong, 1);
    SAY("done\n");
}

static void answer(const char *line)
{
    static long bursts_before, free_before;
    unsigned long number = strtoul(line + strcspn(line, " "), NULL, 10);
    if (strcmp(line, "begin") == 0) {
        bursts_before = atomic_load(&bursts);
        enter(COUNTED);
        free_before = atomic_load(&free_reads);
        wait_until_all_run();
        SAY("begun\n");
    } else if (strcmp(line, "end") == 0) {
        long least = atomic_load(&free_reads) - free_before;
        enter(FREE);
        wait_until_all_run();
        say_counts(atomic_load(&bursts) - bursts_before);
        SAY("at-least clock_gettime CLOCK_MONOTONIC %ld\ndone\n", least);
    } else if (strncmp(line, "sum ", 4) == 0) {
        SAY("sum %lu %lu\n", number, checksum(number));
    } else if (strncmp(line, "fork ", 5) == 0 || strncmp(line, "exec ", 5) == 0) {
        child(line + 5, line[0] == 'e');
    } else if (strcmp(line, "health") == 0) {
        SAY("health backwards %ld wrong %ld\n", atomic_load(&backwards), atomic_load(&wrong));
    } else {
        SAY("what is %s\n", line);
    }
}

int main(int count, char **arguments)
{
    if (count == 3 && strcmp(arguments[1], "leaf") == 0) leaf(atol(arguments[2]));
    workers = count > 1 ? atoi(arguments[1]) - 1 : 0;
    pthread_t thread[workers > 0 ? workers : 1];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < workers; i++) {
        counted_workers += i % 2 == 0;
        if (pthread_create(&thread[i], &small, i % 2 ? free_worker : counted_worker, NULL) != 0) return 3;
    }
    SAY("ready\n");
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        answer(line);
    }
    atomic_store(&phase, LEAVING);
    for (int i = 0; i < workers; i++) pthread_join(thread[i], NULL);
    SAY("result ended well backwards %ld wrong %ld\n", atomic_load(&backwards), atomic_load(&wrong));
    return 7;
}
