// A program with timers and signals: `timers SOURCE PERIOD_US WAIT THREADS [TURNS]`. Prints "ready". At the
// end of its input, or when its first thread has waited TURNS times, prints `signals SENT RECEIVED EINTR DISORDER`
// and then its number of clock reads, and exits with status 7.
//
//   SOURCE   none, real, prof (setitimer), thread (a timer for each thread, SIGEV_THREAD_ID), signalfd,
//            queue (a neighbour queues hundreds of numbered real-time signals), child (children that end),
//            wake (the neighbour sends one signal for each wait of the first thread, the next when that is over)
//   WAIT     sleep, spin, read, futex, nanosleep, epoll, uring, or all: each in turn; or births: of a thread, a
//            vfork and a fork, and their ends. With wake: suspend, pause,
//            ppoll, pselect, epollp, sigtimed, or norestart (a read, with a handler without SA_RESTART)
//
// SENT is exact where the kernel tells: a timer's expirations with its overruns, the numbers queued, the children made.
// setitimer has no overruns; there SENT is RECEIVED if the timer still ticks at the end. With wake, RECEIVED is the
// number of waits that ended: a wait that goes on although its signal was handled is found when the input ends, and
// counts as another one sent. EINTR counts calls that were interrupted although no handler ran, and interrupted reads
// of a pipe or futex in any case: their handlers are set with SA_RESTART. DISORDER counts real-time signals out of
// order, times that ran backwards, and sleeps that were too short.
//
// Exact: no other code reads CLOCK_TAI.
#define _GNU_SOURCE
#include "say.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define THREADS_MAX 64
#define SECOND 1000000000L
#define QUEUED (SIGRTMIN + 2)
#define TICK (SIGRTMIN + 1)
#define WAKE SIGUSR1

// Memory shared with the neighbour, a process that tests do not attach to.
struct shared {
    atomic_int begun, over, has_sent_all, word;
    atomic_long sent, received, waits;
};

struct self {
    pthread_t thread;
    int number;
    timer_t timer;
    long expirations, next;
    volatile long handled;
    int ring;
    unsigned *tail, *done_head, *done_tail, mask, done_mask;
    struct io_uring_sqe *entries;
};

static struct shared *shared;
static struct self threads[THREADS_MAX];
static __thread struct self *self;
static atomic_long interrupted, disorder, reads;
static atomic_int started;
static const char *source, *wait_for;
static long period, turns = LONG_MAX;
static int thread_count, bell[2], silent[2], event, poller, idle, signals_fd = -1;
static struct timespec first;

static void fail(const char *what)
{
    SAY("result failed %s %d\n", what, errno);
    _exit(98);
}

static int is(const char *word, const char *other) { return strcmp(word, other) == 0; }

static long nanoseconds(const struct timespec *time) { return time->tv_sec * SECOND + time->tv_nsec; }

static long now(void)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return nanoseconds(&time);
}

static void read_clock(void)
{
    struct timespec time;
    clock_gettime(CLOCK_TAI, &time);
    atomic_fetch_add(&reads, 1);
}

static void on_tick(int signal, siginfo_t *info, void *context)
{
    int saved = errno;
    (void)signal, (void)context;
    read_clock();
    self->handled++;
    if (is(source, "queue")) {
        if (info->si_code != SI_QUEUE || info->si_value.sival_int != threads[0].next++)
            atomic_fetch_add(&disorder, 1);
    } else if (is(source, "child")) {
        while (waitpid(-1, NULL, WNOHANG | __WALL) > 0) atomic_fetch_add(&shared->received, 1);
        errno = saved;
        return;
    } else if (is(source, "wake")) {
        errno = saved;
        return;
    } else if (is(source, "thread")) {
        if (info->si_code != SI_TIMER) atomic_fetch_add(&disorder, 1);
        self->expirations += 1 + info->si_overrun;
        errno = saved;
        return;
    }
    atomic_fetch_add(&shared->received, 1);
    errno = saved;
}

static timer_t make_timer(int signal, int thread)
{
    struct sigevent how = {.sigev_signo = signal, .sigev_notify = thread ? SIGEV_THREAD_ID : SIGEV_SIGNAL};
    struct itimerspec when = {.it_interval = {period / SECOND, period % SECOND}, .it_value = first};
    timer_t timer;
    how._sigev_un._tid = thread;
    if (timer_create(CLOCK_MONOTONIC, &how, &timer) != 0) fail("timer_create");
    if (timer_settime(timer, TIMER_ABSTIME, &when, NULL) != 0) fail("timer_settime");
    return timer;
}

// Number of expirations until `time` of a timer that began at `first`.
static long expirations_until(long time)
{
    long since = time - nanoseconds(&first);
    return since < 0 ? 0 : since / period + 1;
}

// Takes the timer's signals and the time before and after, until both times give the same number of expirations.
// Expirations that are missing then were lost.
static void account(long *expirations, int signal)
{
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, signal);
    for (;;) {
        long before, after;
        do {
            sigset_t pending;
            before = now();
            sigpending(&pending);
            if (sigismember(&pending, signal)) break;
            sched_yield();
        } while (1);
        before = now();
        if (signals_fd >= 0) {
            struct signalfd_siginfo told;
            if (read(signals_fd, &told, sizeof told) != sizeof told) continue;
            info.si_overrun = told.ssi_overrun;
        } else if (sigwaitinfo(&set, &info) != signal) continue;
        after = now();
        *expirations += 1 + info.si_overrun;
        if (expirations_until(before) != expirations_until(after)) continue;
        atomic_fetch_add(&shared->sent, expirations_until(after));
        atomic_fetch_add(&shared->received, *expirations);
        return;
    }
}

static void set_up_ring(void)
{
    struct io_uring_params params = {0};
    self->ring = syscall(SYS_io_uring_setup, 8, &params);
    if (self->ring < 0) {
        if (errno == ENOSYS || errno == EPERM || errno == ENOMEM) return;
        fail("io_uring_setup");
    }
    size_t size = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t done = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    if (done > size) size = done;
    char *rings = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, self->ring, IORING_OFF_SQ_RING);
    self->entries = mmap(0, params.sq_entries * sizeof *self->entries, PROT_READ | PROT_WRITE, MAP_SHARED,
                         self->ring, IORING_OFF_SQES);
    if (rings == MAP_FAILED || self->entries == MAP_FAILED) fail("mmap");
    self->tail = (unsigned *)(rings + params.sq_off.tail);
    self->mask = *(unsigned *)(rings + params.sq_off.ring_mask);
    self->done_head = (unsigned *)(rings + params.cq_off.head);
    self->done_tail = (unsigned *)(rings + params.cq_off.tail);
    unsigned *array = (unsigned *)(rings + params.sq_off.array);
    for (unsigned i = 0; i < params.sq_entries; i++) array[i] = i;
}

// Counts an EINTR, unless a handler without SA_RESTART has run.
static void check(long result, long handled, int restarts)
{
    if (result >= 0 || errno != EINTR) return;
    if (restarts || self->handled == handled) atomic_fetch_add(&interrupted, 1);
}

static void wait_in_ring(void)
{
    if (self->ring < 0) return;
    struct __kernel_timespec pause = {.tv_nsec = 1000000};
    unsigned tail = *self->tail;
    struct io_uring_sqe *entry = &self->entries[tail & self->mask];
    memset(entry, 0, sizeof *entry);
    entry->opcode = IORING_OP_TIMEOUT;
    entry->addr = (unsigned long)&pause;
    entry->len = 1;
    __atomic_store_n(self->tail, tail + 1, __ATOMIC_RELEASE);
    int submit = 1;
    while (__atomic_load_n(self->done_tail, __ATOMIC_ACQUIRE) == *self->done_head) {
        long handled = self->handled;
        long result = syscall(SYS_io_uring_enter, self->ring, submit, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        check(result, handled, 0);
        if (result > 0) submit = 0;
    }
    __atomic_store_n(self->done_head, *self->done_head + 1, __ATOMIC_RELEASE);
}

static void sleep_for(long ns, int relative)
{
    long begun = now();
    struct timespec left = {0, ns}, until = {(begun + ns) / SECOND, (begun + ns) % SECOND};
    for (;;) {
        long handled = self->handled;
        int error = relative ? (nanosleep(&left, &left) ? errno : 0)
                             : clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        if (error == 0) break;
        if (error != EINTR) fail("nanosleep");
        errno = error;
        check(-1, handled, 0);
        if (shared->over) return;
    }
    if (now() - begun < ns) atomic_fetch_add(&disorder, 1);
}

static void *end_thread(void *unused) { return unused; }

static void give_birth(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, end_thread, NULL) != 0) fail("pthread_create");
    pthread_join(other, NULL);
    pid_t child = vfork();
    if (child == 0) _exit(0);
    if (child < 0 || waitpid(child, NULL, 0) != child) fail("vfork");
    child = fork();
    if (child == 0) _exit(0);
    if (child < 0 || waitpid(child, NULL, 0) != child) fail("fork");
}

static void wait_once(const char *how)
{
    long handled = self->handled;
    char byte;
    if (is(how, "sleep")) {
        sleep_for(2000000, 0);
    } else if (is(how, "nanosleep")) {
        sleep_for(1000000, 1);
    } else if (is(how, "spin")) {
        long until = now() + 300000, last = 0;
        while (last < until) {
            struct timespec time;
            clock_gettime(CLOCK_MONOTONIC, &time);
            if (nanoseconds(&time) < last) atomic_fetch_add(&disorder, 1);
            last = nanoseconds(&time);
        }
    } else if (is(how, "read")) {
        check(read(bell[0], &byte, 1), handled, 1);
    } else if (is(how, "futex")) {
        int seen = shared->word;
        check(syscall(SYS_futex, &shared->word, FUTEX_WAIT, seen, NULL, NULL, 0), handled, 1);
        handled = self->handled;
        struct timespec limit = {0, 1000000};
        check(syscall(SYS_futex, &shared->word, FUTEX_WAIT, shared->word, &limit, NULL, 0), handled, 0);
    } else if (is(how, "epoll")) {
        struct epoll_event told;
        long count;
        check(epoll_wait(poller, &told, 1, -1), handled, 0);
        check(read(event, &count, sizeof count), handled, 1);
    } else if (is(how, "uring")) {
        wait_in_ring();
    } else if (is(how, "births")) {
        give_birth();
    } else {
        fail("there is no such wait");
    }
}

#ifndef SYS_pause // arm64: pause() is ppoll
#define SYS_pause SYS_ppoll
#endif

// The waits that a signal ends. All but `pause` and `norestart` have the signal blocked before and after.
static const struct { const char *name; long call; int is_blocked; } wakes[] = {
    {"suspend", SYS_rt_sigsuspend, 1}, {"ppoll", SYS_ppoll, 1},         {"pselect", SYS_pselect6, 1},
    {"epollp", SYS_epoll_pwait, 1},    {"sigtimed", SYS_rt_sigtimedwait, 1}, {"pause", SYS_pause, 0},
    {"norestart", SYS_read, 0},
};

static int wake_number(void)
{
    for (int i = 0; i < 7; i++)
        if (is(wait_for, wakes[i].name)) return i;
    return -1;
}

static void wait_to_be_woken(void)
{
    sigset_t open, wake;
    struct epoll_event told;
    char byte;
    long handled = self->handled, result;
    sigemptyset(&wake);
    sigaddset(&wake, WAKE);
    pthread_sigmask(SIG_SETMASK, NULL, &open);
    sigdelset(&open, WAKE);
    switch (wake_number()) {
    case 0: result = sigsuspend(&open); break;
    case 1: result = ppoll(NULL, 0, NULL, &open); break;
    case 2: result = pselect(0, NULL, NULL, NULL, NULL, &open); break;
    case 3: result = epoll_pwait(idle, &told, 1, -1, &open); break;
    case 4: result = sigwaitinfo(&wake, NULL), self->handled += result == WAKE; break;
    case 5: result = pause(); break;
    default: result = read(silent[0], &byte, 1);
    }
    check(result, handled, 0);
    if (!shared->has_sent_all) atomic_fetch_add(&shared->received, self->handled - handled);
}

// Whether the first thread waits in its call. A tracer may make the thread execute the same call elsewhere, after which
// the thread may not be back in its own call: that does not count. At the first check no tracer is attached.
static int is_in_wait(pid_t parent)
{
    static unsigned long first_at;
    char name[40], text[200] = "";
    snprintf(name, sizeof name, "/proc/%d/syscall", parent);
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) fail("syscall");
    close(file);
    if (strchr(text, ' ') == NULL || atol(text) != wakes[wake_number()].call) return 0;
    unsigned long at = strtoul(strrchr(text, ' '), NULL, 16);
    if (first_at == 0) first_at = at;
    return at == first_at;
}

// Sends a signal when the one before has ended a wait. At the end, lets threads that still wait go.
static void send_one(pid_t parent)
{
    static long seen, until;
    if (shared->has_sent_all) {
        kill(parent, WAKE);
    } else if (shared->sent == shared->received) {
        until = 0;
        if (shared->over) shared->has_sent_all = 1;
        else if (wakes[wake_number()].is_blocked || (seen += is_in_wait(parent)) % 4 == 3) {
            seen = 0;
            atomic_fetch_add(&shared->sent, 1);
            kill(parent, WAKE);
        }
    } else if (shared->over) {
        if (until == 0) until = now() + 10 * SECOND;
        if (now() < until) return;
        atomic_fetch_add(&shared->sent, 1);
        shared->has_sent_all = 1;
    }
}

static void live(void)
{
    static const char *all[] = {"sleep", "spin", "read", "futex", "nanosleep", "epoll", "uring"};
    int turn = self->number;
    long left = turns;
    atomic_fetch_add(&started, 1);
    int is_woken = is(source, "wake") && self->number == 0;
    while (is_woken ? !shared->has_sent_all : !shared->over) {
        read_clock();
        if (self->number == 0 && left-- <= 0) shared->over = 1;
        if (signals_fd >= 0 && self->number == 0) {
            struct signalfd_siginfo told;
            struct pollfd ask = {.fd = signals_fd, .events = POLLIN};
            long handled = self->handled;
            check(ppoll(&ask, 1, NULL, NULL), handled, 1);
            if (read(signals_fd, &told, sizeof told) == sizeof told)
                self->expirations += 1 + told.ssi_overrun;
        } else if (is_woken) {
            wait_to_be_woken();
        } else {
            wait_once(is(wait_for, "all") || is(source, "wake") ? all[turn++ % 7] : wait_for);
        }
        if (self->number == 0) atomic_fetch_add(&shared->waits, 1);
    }
}

static void *begin(void *number)
{
    self = &threads[(long)number];
    self->number = (long)number;
    self->ring = -1;
    if (is(wait_for, "uring") || is(wait_for, "all")) set_up_ring();
    if (is(source, "thread")) self->timer = make_timer(TICK, gettid());
    live();
    if (is(source, "thread")) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, TICK);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        account(&self->expirations, TICK);
        timer_delete(self->timer);
    }
    return NULL;
}

static int end_at_once(void *unused)
{
    (void)unused;
    return 0;
}

// Sends signals and wakes waiting threads about every millisecond. After the end of the input it only wakes them.
static void be_a_neighbour(pid_t parent)
{
    static char stack[16384];
    int next = 0;
    long waits = -1;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (!shared->begun && getppid() == parent) usleep(1000);
    while (getppid() == parent) {
        unsigned long many = (unsigned long)thread_count;
        if (turns == LONG_MAX ? poll(&input, 1, 1) != 0 : poll(NULL, 0, 1) != 0) shared->over = 1;
        int is_next = !shared->over && shared->received >= shared->sent && shared->waits > waits;
        if (is_next) waits = shared->waits;
        for (int i = 0; i < 300 && is(source, "queue") && is_next; i++) {
            union sigval value = {.sival_int = next};
            if (sigqueue(parent, QUEUED, value) != 0) break;
            next++;
            atomic_fetch_add(&shared->sent, 1);
        }
        for (int i = 0; i < 20 && is(source, "child") && is_next; i++) {
            if (clone(end_at_once, stack + sizeof stack, CLONE_PARENT | SIGCHLD, NULL) < 0) break;
            atomic_fetch_add(&shared->sent, 1);
        }
        if (is(source, "wake")) send_one(parent);
        if (shared->over) {
            if (!is(source, "wake")) shared->has_sent_all = 1;
            usleep(1000);
        }
        shared->word++;
        syscall(SYS_futex, &shared->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        for (int i = 0; i < thread_count; i++)
            if (write(bell[1], "", 1) != 1) break;
        if (write(event, &many, sizeof many) < 0 && errno != EAGAIN) fail("write");
    }
    _exit(0);
}

static void use_signal(int signal)
{
    struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_RESTART | SA_SIGINFO};
    if (is(wait_for, "norestart")) action.sa_flags &= ~SA_RESTART;
    sigaction(signal, &action, NULL);
}

// Starts this process's source of signals, before the other threads exist.
static void begin_source(sigset_t *own)
{
    struct itimerval every = {{period / SECOND, period % SECOND / 1000}, {0, 10000}};
    clock_gettime(CLOCK_MONOTONIC, &first);
    first.tv_nsec += first.tv_nsec < SECOND / 2 ? 10000000 : -10000000; // expirations before now count as overruns
    int signal = is(source, "real")    ? SIGALRM
                 : is(source, "prof")  ? SIGPROF
                 : is(source, "child") ? SIGCHLD
                 : is(source, "queue") ? QUEUED
                 : is(source, "wake")  ? WAKE
                                       : TICK;
    use_signal(signal);
    sigemptyset(own);
    if (!is(source, "thread")) sigaddset(own, signal); // only the first thread takes these signals
    pthread_sigmask(SIG_BLOCK, own, NULL);
    if (is(source, "signalfd")) {
        signals_fd = signalfd(-1, own, 0);
        threads[0].timer = make_timer(signal, 0);
    } else if (is(source, "real") && setitimer(ITIMER_REAL, &every, NULL) != 0) {
        fail("setitimer");
    } else if (is(source, "prof") && setitimer(ITIMER_PROF, &every, NULL) != 0) {
        fail("setitimer");
    }
}

// Waits up to ten seconds for signals that are still under way; later ones count as lost. Then blocks the program's own
// signals.
static void take_the_rest(const sigset_t *own)
{
    int is_ticking = 1;
    long before = shared->received, until = now() + 10 * SECOND;
    if (is(source, "signalfd")) account(&threads[0].expirations, TICK);
    while (!shared->has_sent_all) sched_yield();
    if (is(source, "queue") || is(source, "child"))
        while (shared->received < shared->sent && now() < until) continue;
    if (is(source, "real") || is(source, "prof")) {
        while (shared->received == before && now() < until) continue; // the timer must still tick
        is_ticking = shared->received != before;
    }
    pthread_sigmask(SIG_BLOCK, own, NULL);
    if (is(source, "real") || is(source, "prof")) shared->sent = shared->received + !is_ticking;
}

int main(int argc, char **argv)
{
    sigset_t own;
    if (argc < 5) fail("usage");
    source = argv[1], wait_for = argv[3];
    period = atol(argv[2]) * 1000, thread_count = atoi(argv[4]);
    if (argc > 5) turns = atol(argv[5]);
    if (thread_count < 1 || thread_count > THREADS_MAX) fail("threads");
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pipe2(bell, O_CLOEXEC) != 0 || pipe2(silent, O_CLOEXEC) != 0) fail("pipe");
    if (is(source, "wake") && wake_number() < 0) fail("there is no such wait");
    fcntl(bell[1], F_SETFL, O_NONBLOCK);
    event = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
    poller = epoll_create1(0), idle = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, event, &wanted) != 0) fail("epoll_ctl");
    pid_t parent = getpid(), neighbour = fork();
    if (neighbour == 0) be_a_neighbour(parent);
    begin_source(&own);
    shared->begun = 1;
    self = &threads[0];
    for (long i = 1; i < thread_count; i++)
        if (pthread_create(&threads[i].thread, NULL, begin, (void *)i) != 0) fail("pthread_create");
    while (started < thread_count - 1) sched_yield();
    SAY("ready\n");
    if (!is(source, "signalfd") && !(is(source, "wake") && wakes[wake_number()].is_blocked))
        pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    begin(0);
    for (int i = 1; i < thread_count; i++) pthread_join(threads[i].thread, NULL);
    take_the_rest(&own);
    kill(neighbour, SIGKILL);
    waitpid(neighbour, NULL, 0);
    SAY("signals %ld %ld %ld %ld\n", shared->sent, shared->received, interrupted, disorder);
    say_vdso("clock_gettime", "CLOCK_TAI", reads);
    return 7;
}
