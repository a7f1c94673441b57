// About 50 ms of all kinds of work, whose output does not depend on time: reads, system calls,
// threads, signals, forks and execs. The kill test compares the output with the output under a
// tracer that dies.
#define _GNU_SOURCE
#include "say.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static long backwards, handled;

static void read_in_order(long calls)
{
    struct timespec last = {0, 0}, now;
    REPEAT(calls) {
        if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) exit(1);
        backwards += now.tv_sec < last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec < last.tv_nsec);
        last = now;
    }
}

static void *in_thread(void *unused)
{
    read_in_order(30011);
    return unused;
}

static void on_signal(int signal)
{
    (void)signal;
    handled++;
}

static void one_round(int round)
{
    pthread_t thread;
    int status;
    if (pthread_create(&thread, NULL, in_thread, NULL) != 0) exit(1);
    read_in_order(100003);
    raise(SIGUSR1);
    REPEAT(211) syscall(SYS_getppid);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        if (round % 2 == 0) execl("/proc/self/exe", "steady", "leaf", (char *)NULL);
        read_in_order(10007);
        _exit(backwards == 0 ? 42 : 1);
    }
    if (waitpid(child, &status, 0) != child) exit(1);
    SAY("result round %d child %d backwards %ld signals %ld\n", round, WEXITSTATUS(status), backwards, handled);
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "leaf") == 0) return read_in_order(10007), backwards == 0 ? 43 : 1;
    signal(SIGUSR1, on_signal);
    for (int round = 0; round < 8; round++) one_round(round);
    SAY("result done\n");
    return 7;
}
