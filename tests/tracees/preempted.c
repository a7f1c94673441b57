// Coroutines that are preempted: a signal handler switches to another coroutine, and later the interrupted one goes on
// where it was: in the vDSO, or in code that was there at that time. Contexts wait on stacks of no running thread.
//
// preempted HOW COROUTINES MICROSECONDS [KIB]
//   swap      a timer's handler calls swapcontext: signal frames wait on the coroutines' stacks
//   frames    a timer's handler exchanges the registers that the kernel will restore: contexts wait in the heap only
//   kill      another thread sends the signals, without a timer
//   threads   as swap, in three threads at once, each with its own timer and a part of the coroutines
//   filter    as swap, and after a quarter of a second a seccomp filter refuses mremap to all threads
// A handler uses KIB of stack before it switches.
//
// Each coroutine reads clocks and compares. The program prints "ready" when each thread has switched once, and at the
// end of its input the number of switches. It exits with status 7 if no clock went back and no call failed.
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
#define MAIN_STACK (256 << 10)

struct coroutine {
    ucontext_t context;
    struct _libc_fpstate vectors;
};
struct ring {
    struct coroutine *all;
    int count, now, has_ended;
    long switches;
};
static __thread struct ring *own; // a coroutine stays in its thread
static atomic_long wrong, switches, reads;
static atomic_int over;
static long microseconds, kib;
static int by_frames;
static sem_t began, ended; // once for each thread

static struct coroutine *next(struct ring *ring)
{
    if (ring->switches++ == 0) sem_post(&began);
    ring->now = (int)((ring->now + 1 + ring->switches % 3) % ring->count);
    return &ring->all[ring->now];
}

static __attribute__((noinline)) void use_stack(void)
{
    if (kib == 0) return;
    volatile char *deep = alloca((size_t)kib << 10);
    for (long at = 0; at < kib << 10; at += 4096) deep[at] = 1;
    struct ring *ring = own;
    struct coroutine *from = &ring->all[ring->now], *to = next(ring);
    if (from != to && swapcontext(&from->context, &to->context) != 0) wrong++;
    if (deep[0] != 1) wrong++;
}

static void on_signal(int number, siginfo_t *info, void *frame)
{
    (void)number, (void)info;
    int saved = errno;
    struct ring *ring = own;
    if (by_frames) {
        ucontext_t *interrupted = frame;
        struct coroutine *from = &ring->all[ring->now], *to = next(ring);
        struct _libc_fpstate *there = interrupted->uc_mcontext.fpregs;
        from->context = *interrupted;
        from->vectors = *there;
        greg_t flags = interrupted->uc_mcontext.gregs[REG_EFL], segments = interrupted->uc_mcontext.gregs[REG_CSGSFS];
        int is_new = to->context.uc_mcontext.fpregs == NULL;
        memcpy(interrupted->uc_mcontext.gregs, to->context.uc_mcontext.gregs, sizeof interrupted->uc_mcontext.gregs);
        interrupted->uc_mcontext.gregs[REG_CSGSFS] = segments;
        if (is_new) interrupted->uc_mcontext.gregs[REG_EFL] = flags & ~0x400;
        else memcpy(there, &to->vectors, offsetof(struct _libc_fpstate, __glibc_reserved1));
    } else if (kib) {
        use_stack();
    } else {
        struct coroutine *from = &ring->all[ring->now], *to = next(ring);
        if (from != to && swapcontext(&from->context, &to->context) != 0) wrong++;
    }
    errno = saved;
}

static void body(void)
{
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    struct timespec last = {0, 0}, now;
    struct timeval day;
    while (!over) {
        for (int i = 0; i < 64; i++) {
            if (clock_gettime(CLOCK_MONOTONIC, &now) != 0 || gettimeofday(&day, NULL) != 0) wrong++;
            if (now.tv_sec < last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec < last.tv_nsec)) wrong++;
            if (clock_getres(CLOCK_MONOTONIC, &last) != 0 || time(NULL) <= 0) wrong++;
            last = now;
        }
        atomic_fetch_add(&reads, 4 * 64);
    }
    if (!by_frames) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
    }
    switches += own->switches;
    own->switches = 0;
    if (!own->has_ended) {
        own->has_ended = 1;
        sem_post(&ended);
    }
    for (;;) pause();
}

static void *thread(void *argument)
{
    own = argument;
    for (int i = 1; i < own->count; i++) {
        ucontext_t *context = &own->all[i].context;
        size_t size = MAIN_STACK + ((size_t)kib << 10);
        getcontext(context);
        if (by_frames) context->uc_mcontext.fpregs = NULL;
        context->uc_stack.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        context->uc_stack.ss_size = size;
        sigfillset(&context->uc_sigmask);
        makecontext(context, body, 0);
    }
    if (microseconds) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
        event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
        timer_t timer;
        struct itimerspec every = {{0, microseconds * 1000}, {0, microseconds * 1000}};
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &every, NULL) != 0) wrong++;
    }
    body();
    return NULL;
}

static void refuse_mremap(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) wrong++;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) wrong++;
}

int main(int count, char **words)
{
    if (count < 4) return 2;
    const char *how = words[1];
    int coroutines = atoi(words[2]), is_kill = strcmp(how, "kill") == 0;
    long us = atol(words[3]);
    kib = count > 4 ? atol(words[4]) : 0;
    by_frames = strcmp(how, "frames") == 0;
    microseconds = is_kill ? 0 : us;
    sem_init(&began, 0, 0);
    sem_init(&ended, 0, 0);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    sigset_t signals; // until a thread's coroutines are ready
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    int threads = strcmp(how, "threads") == 0 ? 3 : 1;
    pthread_t all[3];
    for (int i = 0; i < threads; i++) {
        struct ring *ring = calloc(1, sizeof *ring);
        ring->count = coroutines / threads < 2 ? 2 : coroutines / threads;
        ring->all = calloc((size_t)ring->count, sizeof *ring->all);
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, MAIN_STACK + ((size_t)kib << 10));
        if (pthread_create(&all[i], &attributes, thread, ring) != 0) return 3;
    }
    for (int i = 0; i < threads;) {
        if (is_kill) pthread_kill(all[0], SIGUSR1);
        if (sem_trywait(&began) == 0) i++;
        else usleep(1000);
    }
    printf("ready\n");
    fflush(stdout);
    char line[64];
    if (strcmp(how, "filter") == 0) {
        usleep(250000);
        refuse_mremap();
    }
    if (is_kill) {
        pthread_t reader;
        extern void *reads_input(void *);
        pthread_create(&reader, NULL, reads_input, NULL);
        while (!over) {
            usleep((useconds_t)us);
            pthread_kill(all[0], SIGUSR1);
        }
    } else {
        while (fgets(line, sizeof line, stdin)) {}
        over = 1;
    }
    for (int i = 0; i < threads; i++) while (sem_wait(&ended) != 0) {}
    printf("switches %ld reads %ld wrong %ld\n", (long)switches, (long)reads, (long)wrong);
    fflush(stdout);
    _exit(wrong == 0 && switches > 0 ? 7 : 1);
}

void *reads_input(void *nothing)
{
    char line[64];
    (void)nothing;
    while (fgets(line, sizeof line, stdin)) {}
    over = 1;
    return NULL;
}
