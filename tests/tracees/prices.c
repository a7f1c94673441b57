// Clock reads of known kinds, and processes with known processor time: `reads COARSE CPU PRECISE`,
// `family`.
//
// Exact: libc makes no vDSO calls by itself. `family` forks a child for each input line, `wait` or
// `live`. The child reads the clock and computes, prints its own processor time, and ends or stays.
// A child that ends has been waited for before the next line is read. Reads are at most half of a
// child's time: between two reads it computes for longer than a read takes.
#define _GNU_SOURCE
#include "say.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static void read_clock(clockid_t clock, const char *name, long calls)
{
    struct timespec now;
    REPEAT(calls) clock_gettime(clock, &now);
    if (calls > 0) say_vdso("clock_gettime", name, calls);
}

static void child(int stays)
{
    struct timespec now, cpu;
    volatile long sum = 0;
    REPEAT(200000) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        for (int i = 0; i < 100; i++) sum += i;
    }
    say_vdso("clock_gettime", "CLOCK_MONOTONIC", 200000);
    syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &cpu);
    SAY("result cpu-us %ld\n", cpu.tv_sec * 1000000 + cpu.tv_nsec / 1000);
    while (stays) pause();
    _exit(0);
}

int main(int count, char **words)
{
    if (count == 5 && strcmp(words[1], "reads") == 0) {
        read_clock(CLOCK_REALTIME_COARSE, "CLOCK_REALTIME_COARSE", atol(words[2]));
        read_clock(CLOCK_THREAD_CPUTIME_ID, "CLOCK_THREAD_CPUTIME_ID", atol(words[3]));
        read_clock(CLOCK_MONOTONIC, "CLOCK_MONOTONIC", atol(words[4]));
        return 0;
    }
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        int stays = strcmp(line, "live\n") == 0;
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // ends with its parent
            child(stays);
        }
        if (!stays) waitpid(pid, NULL, 0);
    }
    return 0;
}
