// Real-time threads (SCHED_FIFO) on one CPU, where a running thread keeps the others from running:
//
//   order N    N children by fork and N threads; prints how many ran before their parent had returned
//              from the call. With the same priority and CPU, none does.
//   outrun     a child gives itself a higher priority than its parent and spins, until the parent has
//              given itself an even higher one (rt-tests' pip_stress)
//   alarms N   the same, and then the parent gets N alarms, one a millisecond, while the child
//              spins below it; prints whether at least half of them came
//   term       the same, until it gets SIGTERM
//   execs N    the same, and the parent makes N children that execute a program each
//   hog        until a line is read, a thread of priority 50 spins; on the other CPUs a thread without
//              a priority gets an alarm each millisecond; prints the longest time between two alarms
//
// Except for `hog`, a child of the program does all this: the kernel reports a tracer's own child before that child's
// children, and all other processes in the opposite order. Waits for the parent end after 20 s with a message.
#define _GNU_SOURCE
#include "say.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static volatile struct shared {
    int parent_is_out, ran_before, parent_is_above, is_over, gave_up;
} *shared;

static volatile long alarms;

static int fifo(int priority)
{
    struct sched_param parameters = {.sched_priority = priority};
    return sched_setscheduler(0, SCHED_FIFO, &parameters);
}

// Moves to the first of the allowed CPUs.
static void on_one_cpu(void)
{
    cpu_set_t all, one;
    int first = 0;
    sched_getaffinity(0, sizeof all, &all);
    while (!CPU_ISSET(first, &all)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof one, &one);
}

// The time in seconds, by a system call.
static double now(void)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void spin_until(volatile int *flag)
{
    double end = now() + 20;
    while (!*flag)
        if (now() > end) {
            shared->gave_up = 1;
            return;
        }
}

static void *look(void *none)
{
    if (!shared->parent_is_out) shared->ran_before++;
    return none;
}

static void order(long rounds)
{
    fifo(1);
    REPEAT(rounds) {
        shared->parent_is_out = 0;
        pid_t child = fork();
        shared->parent_is_out |= child != 0;
        if (child == 0) {
            look(NULL);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    SAY("result children that ran before their parent: %d\n", shared->ran_before);
    shared->ran_before = 0;
    REPEAT(rounds) {
        pthread_t thread;
        shared->parent_is_out = 0;
        pthread_create(&thread, NULL, look, NULL);
        shared->parent_is_out = 1;
        pthread_join(thread, NULL);
    }
    SAY("result threads that ran before their parent: %d\n", shared->ran_before);
}

static pid_t start_spinner(volatile int *until)
{
    pid_t child = fork();
    if (child == 0) {
        fifo(2);
        spin_until(until);
        _exit(0);
    }
    return child;
}

static void outrun(void)
{
    fifo(1);
    pid_t child = start_spinner(&shared->parent_is_above);
    fifo(3);
    shared->parent_is_above = 1;
    waitpid(child, NULL, 0);
}

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

static void on_term(int signal)
{
    (void)signal;
    shared->is_over = 1;
}

static void term(void)
{
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    struct sigaction action = {.sa_handler = on_term};
    sigaction(SIGTERM, &action, NULL);
    pid_t child = start_spinner(&shared->is_over);
    fifo(3);
    SAY("ready\n");
    while (!shared->is_over) sigsuspend(&before);
    waitpid(child, NULL, 0);
    SAY("result ended by SIGTERM\n");
}

static void alarms_while_it_spins(long wanted)
{
    sigset_t alarm, before;
    struct itimerval every = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, &before);
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    // The child is made before this process has a real-time priority.
    pid_t child = start_spinner(&shared->is_over);
    fifo(3);
    double end = now() + (double)wanted * 1e-3;
    setitimer(ITIMER_REAL, &every, NULL);
    while (now() < end) sigsuspend(&before);
    setitimer(ITIMER_REAL, &off, NULL);
    shared->is_over = 1;
    waitpid(child, NULL, 0);
    SAY("result alarms in time: %s\n", alarms * 2 >= wanted ? "at least half" : "less than half");
}

static void execute_while_it_spins(long programs)
{
    pid_t child = start_spinner(&shared->is_over);
    fifo(3);
    REPEAT(programs) {
        pid_t executes = fork();
        if (executes == 0) {
            execlp("true", "true", NULL);
            _exit(99);
        }
        waitpid(executes, NULL, 0);
    }
    shared->is_over = 1;
    waitpid(child, NULL, 0);
}

static void *spin_on_one_cpu(void *none)
{
    on_one_cpu();
    fifo(50);
    spin_until(&shared->is_over);
    return none;
}

static double last_alarm, longest;

static void on_late_alarm(int signal)
{
    (void)signal;
    double time = now();
    if (last_alarm > 0 && time - last_alarm > longest) longest = time - last_alarm;
    last_alarm = time;
    alarms++;
}

static void hog(void)
{
    cpu_set_t all, others;
    sigset_t alarm;
    pthread_t spinner;
    char byte;
    struct itimerval every = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_late_alarm, .sa_flags = SA_RESTART};
    sched_getaffinity(0, sizeof all, &all);
    others = all;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_CLR(cpu, &others);
            break;
        }
    if (sched_setaffinity(0, sizeof others, &others) != 0) {
        SAY("one CPU only\n");
        return;
    }
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    // The thread starts on any CPU, so that it can begin, and then moves to the first one.
    pthread_attr_t on_all;
    pthread_attr_init(&on_all);
    pthread_attr_setaffinity_np(&on_all, sizeof all, &all);
    pthread_create(&spinner, &on_all, spin_on_one_cpu, NULL);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    SAY("ready\n");
    long was_read;
    do was_read = read(0, &byte, 1);
    while (was_read == 1 && byte != '\n');
    if (was_read != 1) {
        shared->gave_up = 1;
        SAY("result read gave %ld, errno %d\n", was_read, errno);
    }
    setitimer(ITIMER_REAL, &off, NULL);
    shared->is_over = 1;
    pthread_join(spinner, NULL);
    SAY("alarms %ld\n", alarms);
    SAY("longest-ms %ld\n", (long)(longest * 1e3));
    SAY("done\n");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "order";
    long number = argc > 2 ? atol(argv[2]) : 40;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fifo(1) != 0) {
        SAY("result no real-time priorities\n");
        return 0;
    }
    struct sched_param ordinary = {0};
    sched_setscheduler(0, SCHED_OTHER, &ordinary);
    if (!strcmp(what, "hog")) {
        hog();
        return shared->gave_up;
    }
    on_one_cpu();
    if (!strcmp(what, "term")) {
        term();
        return shared->gave_up;
    }
    pid_t parent = fork();
    if (parent == 0) {
        if (!strcmp(what, "order")) order(number);
        else if (!strcmp(what, "outrun")) outrun();
        else if (!strcmp(what, "execs")) execute_while_it_spins(number);
        else alarms_while_it_spins(number);
        _exit(0);
    }
    waitpid(parent, NULL, 0);
    SAY("result %s\n", shared->gave_up ? "somebody was kept from running" : "nobody was kept from running");
    return 0;
}
