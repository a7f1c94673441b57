// `second_thread WAY TRIES [asked]`: each try is a child with one thread, which reads CLOCK_MONOTONIC without pause and then makes
// another task with its memory; both go on reading at the same time. A timer's handler reads every 50 us, too.
//
//   pthread   a thread with a thread pointer of its own
//   handler   a thread that the timer's handler makes, wherever it interrupts the reading; it has the same thread pointer
//   handler-fork   a child that the handler makes, which returns to the interrupted reading as its parent does: it says
//             that the interrupted read was made twice, though it may have been counted before
//   step, step-handler, step-fork   the try's number is the number of instructions after which a handler interrupts the
//             first read, on x86-64: it reads, or makes a second task in one of these ways
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
#include <ucontext.h>

enum { READS = 20000, STACK = 1 << 18, FEWER = 9 };
// Shared by all processes.
static atomic_long *reads;
static const char *way;
static atomic_int made, done, ends;
static char *stack;

static void read_clock(long times)
{
    struct timespec now;
    // A child of the handler makes the rest of an interrupted reading, not the whole.
    const long step = strcmp(way, "handler-fork") ? times : 1;
    for (long i = 0; i < times; i += step) {
        for (long j = 0; j < step; j++) clock_gettime(CLOCK_MONOTONIC, &now);
        atomic_fetch_add(reads, step);
    }
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

static void make_in_handler(void)
{
    if (atomic_exchange(&made, 1)) return;
    if (!strcmp(way, "step")) {
        read_clock(READS);
        atomic_store(&done, 1);
        return;
    }
    if (!strstr(way, "fork")) {
        make(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD);
        return;
    }
    pid_t child = fork();
    if (child < 0) _exit(98);
    if (child == 0) read_clock(1);
    else atomic_store(&done, 1);
}

// The next signal comes so long after the handler, however long a traced signal takes.
static void set_timer(int microseconds)
{
    struct itimerval once = {.it_value.tv_usec = microseconds};
    setitimer(ITIMER_REAL, &once, NULL);
}

static void on_timer(int signal)
{
    (void)signal;
    read_clock(1);
    if (!atomic_load(&ends)) set_timer(50);
    if (!strcmp(way, "handler") || !strcmp(way, "handler-fork")) make_in_handler();
}

#if defined __x86_64__
// Bit 8 of the flags register: a signal after each instruction.
enum { TRAP = 1 << 8 };

static volatile long steps;

static void set_trap(int on)
{
    __asm__ volatile("sub $128, %%rsp; pushfq; andq $~256, (%%rsp); orq %0, (%%rsp); popfq; add $128, %%rsp"
                     : : "r"((long)(on ? TRAP : 0)) : "cc", "memory");
}

static void on_step(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    if (steps--) return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP;
    make_in_handler();
}

// Makes the first read, which the handler interrupts after so many instructions. False if the read has fewer.
static int read_in_steps(long instructions)
{
    struct sigaction stepped = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    struct timespec now;
    sigaction(SIGTRAP, &stepped, NULL);
    steps = instructions;
    set_trap(1);
    clock_gettime(CLOCK_MONOTONIC, &now);
    set_trap(0);
    atomic_fetch_add(reads, 1);
    return atomic_load(&made);
}
#else
static int read_in_steps(long instructions)
{
    return instructions < 0;
}
#endif

static void try_once(long try)
{
    const pid_t first = getpid();
    const int stepped = !strncmp(way, "step", 4);
    if (stepped && !read_in_steps(try)) _exit(FEWER);
    // The first signal comes at any moment of the first reads.
    signal(SIGALRM, on_timer);
    if (!stepped) set_timer(1 + try % 40);
    read_clock(READS / 4);
    pthread_t thread = 0;
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
    // The child of the handler has no timer, and nothing to wait for.
    while (!atomic_load(&done) && getpid() == first) read_clock(10);
    atomic_store(&ends, 1);
    if (thread) pthread_join(thread, NULL);
    set_timer(0);
    if (getpid() == first) while (wait(&status) > 0) continue;
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
        if (waitpid(child, &status, 0) != child) return 3;
        if (WIFEXITED(status) && WEXITSTATUS(status) == FEWER) tries = i;
        else if (status) return 3;
    }
    SAY("result tries %ld\n", tries);
    if (!strcmp(way, "pthread")) try_once(tries);
    long last = strcmp(way, "exec") ? 0 : tries * READS;
    say_vdso("clock_gettime", "CLOCK_MONOTONIC", atomic_load(reads) + last);
    if (count > 3) {
        SAY("done\n");
        if (read(0, &line, 1) != 1) return 4;
    }
    return 0;
}
