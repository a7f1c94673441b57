// `second_thread WAY TRIES [asked]`: each try is a child with one thread, which reads CLOCK_MONOTONIC without pause and then makes
// another task with its memory; both go on reading at the same time. A timer's handler reads every 50 us, too.
//
//   pthread   a thread with a thread pointer of its own
//   handler   a thread that the timer's handler makes, wherever it interrupts the reading; it has the same thread pointer
//   process   a process that shares the memory
//   vfork     a child that reads while its parent stands still, and then the same
//   fork      a child with a copy of the memory, whose parent goes on
//   exec      the program again, by the second thread
//
// With `asked` it waits for a line end before it begins and before it ends. The first process reads, too, and makes a
// thread of its own (`pthread`).
#define _GNU_SOURCE
#include "say.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { READS = 20000, STACK = 1 << 18 };
// Shared by all processes.
static atomic_long *reads;
static const char *way;
static atomic_int made, done;
static char *stack;

static long read_clock(long times)
{
    struct timespec now;
    for (long i = 0; i < times; i++) clock_gettime(CLOCK_MONOTONIC, &now);
    return atomic_fetch_add(reads, times);
}

static int second(void *end)
{
    read_clock(READS);
    if (end && !strcmp(way, "exec")) {
        char shared[24];
        snprintf(shared, sizeof shared, "%d", READS);
        execl("/proc/self/exe", "second_thread", "last", shared, NULL);
    }
    atomic_store(&done, 1);
    return 0;
}

static void *second_of_pthread(void *end)
{
    second(end);
    return NULL;
}

static void make(int flags)
{
    if (clone(second, stack + STACK, flags, NULL) < 0) _exit(98);
}

static void on_timer(int signal)
{
    (void)signal;
    read_clock(1);
    if (!strcmp(way, "handler") && !atomic_exchange(&made, 1))
        make(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD);
}

static void try_once(long try)
{
    // The first signal comes at any moment of the first reads.
    struct itimerval often = {{0, 50}, {0, 1 + try % 40}}, never = {0};
    signal(SIGALRM, on_timer);
    setitimer(ITIMER_REAL, &often, NULL);
    read_clock(READS / 4);
    pthread_t thread;
    int status;
    if (!strcmp(way, "pthread") || !strcmp(way, "exec")) {
        // The program that is executed has the timer still.
        if (!strcmp(way, "exec")) signal(SIGALRM, SIG_IGN);
        if (pthread_create(&thread, NULL, second_of_pthread, &made)) _exit(97);
    } else if (!strcmp(way, "process")) {
        make(CLONE_VM | SIGCHLD);
    } else if (!strcmp(way, "vfork")) {
        make(CLONE_VM | CLONE_VFORK | SIGCHLD);
        wait(&status);
        atomic_store(&done, 0);
        if (pthread_create(&thread, NULL, second_of_pthread, NULL)) _exit(97);
    } else if (!strcmp(way, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            read_clock(READS);
            _exit(0);
        }
        atomic_store(&done, 1);
    } else {
        while (!atomic_load(&made)) read_clock(100);
    }
    if (!strcmp(way, "exec")) for (;;) pause();
    read_clock(READS);
    while (!atomic_load(&done)) read_clock(10);
    setitimer(ITIMER_REAL, &never, NULL);
    if (!strcmp(way, "process") || !strcmp(way, "fork")) wait(&status);
}

int main(int count, char **words)
{
    if (count < 3) return 2;
    way = words[1];
    if (!strcmp(way, "last")) {
        struct timespec now;
        REPEAT(atol(words[2])) clock_gettime(CLOCK_MONOTONIC, &now);
        return 0;
    }
    long tries = atol(words[2]);
    reads = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    stack = malloc(STACK);
    char line;
    if (count > 3) {
        SAY("ready\n");
        if (read(0, &line, 1) != 1) return 4;
    }
    for (long i = 0; i < tries; i++) {
        read_clock(READS / 10);
        pid_t child = fork();
        if (child == 0) {
            try_once(i);
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 3;
    }
    if (!strcmp(way, "pthread")) try_once(tries);
    long last = strcmp(way, "exec") ? 0 : tries * READS;
    say_vdso("clock_gettime", "CLOCK_MONOTONIC", atomic_load(reads) + last);
    if (count > 3) {
        SAY("done\n");
        if (read(0, &line, 1) != 1) return 4;
    }
    return 0;
}
