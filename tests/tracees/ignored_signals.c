// System calls that wait, and signals that the program ignores:
//
//   unlimited   each call gets five ignored signals while it waits, and then the event that it waits for; prints
//               the result. Then once more with a signal that has a handler
//   limited     the same calls with a limit of a day, and ignored signals only
//   stopped     a child stops and continues the program while it waits in epoll_wait
//
// A neighbour thread sends a signal when the first thread sleeps in its call, and the next one when the kernel has
// handled the first: no signal is pending, and the thread sleeps in its call (or has returned from it).
#define _GNU_SOURCE
#include "say.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static const int ignored[] = {SIGCHLD, SIGURG, SIGWINCH, SIGCONT, SIGUSR1};
#define IGNORED (int)(sizeof ignored / sizeof *ignored)

static int event, epoll, semaphores, has_limit;
static aio_context_t aio;
static uint32_t word;
static sigset_t usr2;

// A call that waits, and the function that ends the wait: by the event, or by a semaphore, a signal or a futex word.
struct call {
    const char *name;
    int number;
    long (*wait)(void);
    void (*end)(void);
};

static atomic_int is_over, number;
static int sends_handled;
static pid_t first;

static struct timespec day = {86400, 0};

static struct timespec *limit(void)
{
    static struct timespec time;
    time = day; // select and other calls change it
    return has_limit ? &time : NULL;
}

static long in_epoll_wait(void)
{
    struct epoll_event got;
    return syscall(SYS_epoll_wait, epoll, &got, 1, has_limit ? 86400000 : -1);
}
static long in_epoll_pwait(void)
{
    struct epoll_event got;
    return syscall(SYS_epoll_pwait, epoll, &got, 1, has_limit ? 86400000 : -1, NULL, 8);
}
static long in_epoll_pwait2(void)
{
    struct epoll_event got;
    return syscall(SYS_epoll_pwait2, epoll, &got, 1, limit(), NULL, 8);
}
static long in_sigtimedwait(void)
{
    return syscall(SYS_rt_sigtimedwait, &usr2, NULL, limit(), 8);
}
static long in_semtimedop(void)
{
    struct sembuf take = {0, -1, 0};
    return syscall(SYS_semtimedop, semaphores, &take, 1, limit());
}
static long in_io_getevents(void)
{
    struct iocb wanted = {.aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = (uint32_t)event, .aio_buf = POLLIN};
    struct iocb *all[] = {&wanted};
    struct io_event got;
    static int is_submitted; // an interrupted wait leaves its request submitted
    if (!is_submitted++) syscall(SYS_io_submit, aio, 1, all);
    long result = syscall(SYS_io_getevents, aio, 1, 1, &got, limit());
    if (result == 1) is_submitted = 0;
    return result;
}
static long in_poll(void)
{
    struct pollfd wanted = {.fd = event, .events = POLLIN};
    return syscall(SYS_poll, &wanted, 1, has_limit ? 86400000 : -1);
}
static long in_select(void)
{
    fd_set wanted;
    struct timeval time = {86400, 0};
    FD_ZERO(&wanted);
    FD_SET(event, &wanted);
    return syscall(SYS_select, event + 1, &wanted, NULL, NULL, has_limit ? &time : NULL);
}
static long in_futex(void)
{
    return syscall(SYS_futex, &word, FUTEX_WAIT, 0, limit(), NULL, 0);
}
static long in_read(void)
{
    uint64_t value;
    fcntl(event, F_SETFL, 0);
    long result = syscall(SYS_read, event, &value, sizeof value);
    fcntl(event, F_SETFL, O_NONBLOCK);
    return result;
}

static struct io_uring_params ring_is;
static int ring;
static char *ring_memory;

static int has_ring(void)
{
    ring = (int)syscall(SYS_io_uring_setup, 4, &ring_is);
    if (ring < 0) return 0;
    ring_memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    memset(entries, 0, sizeof *entries);
    entries->opcode = IORING_OP_POLL_ADD;
    entries->fd = event;
    entries->poll32_events = POLLIN;
    ((unsigned *)(void *)(ring_memory + ring_is.sq_off.array))[0] = 0;
    return 1;
}
static long in_io_uring_enter(void)
{
    unsigned *tail = (void *)(ring_memory + ring_is.sq_off.tail);
    struct io_uring_getevents_arg argument = {.ts = (uint64_t)(uintptr_t)&day};
    static int is_submitted;
    if (!is_submitted++) {
        *tail += 1;
        syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0);
    }
    if (!has_limit) return syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    return syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument,
                   sizeof argument);
}

static void by_event(void)
{
    uint64_t one = 1;
    if (write(event, &one, sizeof one) != sizeof one) _exit(98);
}
static void by_signal(void) { syscall(SYS_tgkill, getpid(), first, SIGUSR2); }
static void by_semaphore(void)
{
    struct sembuf give = {0, 1, 0};
    semop(semaphores, &give, 1);
}
static void by_futex(void)
{
    word = 1;
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static const struct call calls[] = {
    {"epoll_wait", SYS_epoll_wait, in_epoll_wait, by_event},
    {"epoll_pwait", SYS_epoll_pwait, in_epoll_pwait, by_event},
    {"epoll_pwait2", SYS_epoll_pwait2, in_epoll_pwait2, by_event},
    {"rt_sigtimedwait", SYS_rt_sigtimedwait, in_sigtimedwait, by_signal},
    {"semtimedop", SYS_semtimedop, in_semtimedop, by_semaphore},
    {"io_getevents", SYS_io_getevents, in_io_getevents, by_event},
    {"poll", SYS_poll, in_poll, by_event},
    {"select", SYS_select, in_select, by_event},
    {"futex", SYS_futex, in_futex, by_futex},
    {"read", SYS_read, in_read, by_event},
    {"io_uring_enter", SYS_io_uring_enter, in_io_uring_enter, by_event}, // last, because not every kernel allows it
};
#define CALLS (int)(sizeof calls / sizeof *calls)

static void text_of(const char *file, char *into, size_t size)
{
    int opened = open(file, O_RDONLY);
    long length = opened < 0 ? 0 : read(opened, into, size - 1);
    into[length < 0 ? 0 : length] = 0;
    if (opened >= 0) close(opened);
}

// The letter of a thread's state; 0 if the thread is gone.
static char state_of(pid_t thread)
{
    char file[64], text[512];
    snprintf(file, sizeof file, "/proc/%d/stat", thread);
    text_of(file, text, sizeof text);
    char *behind = strrchr(text, ')');
    return behind ? behind[2] : 0;
}

static int has_pending(pid_t thread)
{
    char file[64], text[4096];
    snprintf(file, sizeof file, "/proc/%d/status", thread);
    text_of(file, text, sizeof text);
    char *own = strstr(text, "SigPnd:\t"), *shared = strstr(text, "ShdPnd:\t");
    return (own && strtoull(own + 8, NULL, 16) != 0) || (shared && strtoull(shared + 8, NULL, 16) != 0);
}

// Whether the first thread sleeps in its call, or in restart_syscall, by which the kernel resumes the call.
static int sleeps_in_its_call(void)
{
    char file[64], text[256];
    snprintf(file, sizeof file, "/proc/%d/syscall", first);
    text_of(file, text, sizeof text);
    int call = text[0] == 'r' ? -1 : atoi(text);
    return state_of(first) == 'S' && (call == calls[number].number || call == SYS_restart_syscall);
}

// Waits until the first thread sleeps in its call with no signal pending, or until its call is over.
static void until_it_waits(void)
{
    for (;;) {
        if (is_over) return;
        if (!has_pending(first) && sleeps_in_its_call()) return;
        sched_yield();
    }
}

static void *neighbour(void *none)
{
    until_it_waits();
    for (int i = 0; i < IGNORED && !sends_handled; i++) {
        syscall(SYS_tgkill, getpid(), first, ignored[i]);
        until_it_waits();
    }
    if (sends_handled) {
        syscall(SYS_tgkill, getpid(), first, SIGALRM);
        until_it_waits();
    }
    calls[number].end();
    return none;
}

static void on_alarm(int signal) { (void)signal; }

static void wait_in(int which)
{
    pthread_t thread;
    number = which;
    is_over = 0;
    word = 0;
    pthread_create(&thread, NULL, neighbour, NULL);
    long result = calls[which].wait();
    int error = errno;
    is_over = 1;
    pthread_join(thread, NULL);
    SAY("result %s: %s\n", calls[which].name, result >= 0 ? "what it waited for" : strerrorname_np(error));
    // Takes back the events that ended the call, or were meant to.
    uint64_t value;
    struct sembuf take = {0, -1, IPC_NOWAIT};
    struct timespec none = {0, 0};
    if (read(event, &value, sizeof value) < 0) {}
    semop(semaphores, &take, 1);
    sigtimedwait(&usr2, NULL, &none);
}

// Whether the program is stopped with no signal pending; the state is `t` under a tracer.
static int is_stopped(pid_t program)
{
    char state = state_of(program);
    return (state == 'T' || state == 't') && !has_pending(program);
}

static void stopped(void)
{
    pid_t program = getpid();
    number = 0;
    if (fork() == 0) {
        while (!sleeps_in_its_call()) sched_yield();
        kill(program, SIGSTOP);
        while (!is_stopped(program)) sched_yield();
        kill(program, SIGCONT);
        _exit(0);
    }
    long result = in_epoll_wait();
    SAY("result epoll_wait after a stop: %s\n", result >= 0 ? "an event" : strerrorname_np(errno));
    wait(NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "unlimited";
    has_limit = !strcmp(what, "limited");
    first = getpid();
    event = eventfd(0, EFD_NONBLOCK);
    epoll = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted);
    if (!strcmp(what, "stopped")) {
        stopped();
        return 0;
    }
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    semctl(semaphores, 0, SETVAL, 0);
    syscall(SYS_io_setup, 4, &aio);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, NULL);
    signal(SIGUSR1, SIG_IGN);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    int known = has_ring() ? CALLS : CALLS - 1;
    for (int which = 0; which < known; which++) wait_in(which);
    if (has_limit) {
        semctl(semaphores, 0, IPC_RMID);
        return 0;
    }
    SAY("result with a handler:\n");
    sends_handled = 1;
    // The first six calls; SA_RESTART lets the other calls go on.
    for (int which = 0; which < 6; which++) wait_in(which);
    semctl(semaphores, 0, IPC_RMID);
    return 0;
}
