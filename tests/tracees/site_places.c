// Threads that wait in system calls, each called by its own function: `in_read` and so on. `site_places core` then
// aborts with a core file. `site_places left FIFO` leaves a daemon that waits in the same way. It prints its process
// id. Once another process opens the other end of FIFO, it maps, loads and executes files, and prints how often it got
// the signal with which the counting code announces mappings. `site_places leak FIFO` leaves a daemon that has lost
// memory at its end. `site_places cancel` cancels threads at any place, and prints how many of them have cleaned up.
//
// Its results are findings, not exact counts.
#define _GNU_SOURCE
#include "say.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { WAITING = 6, CANCELLED = 200 };

static int empty[2];
static _Atomic pid_t waiting[WAITING];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// The code behind the call keeps the call from becoming a jump.
#define WAITS(name, call)                                                                                              \
    __attribute__((noinline)) static long in_##name(void)                                                             \
    {                                                                                                                  \
        long result = (call);                                                                                          \
        __asm__ volatile("" : "+r"(result));                                                                           \
        return result;                                                                                                 \
    }

static char byte;
static struct epoll_event event;
WAITS(read, read(empty[0], &byte, 1))
WAITS(poll, poll(&(struct pollfd){.fd = empty[0], .events = POLLIN}, 1, -1))
WAITS(nanosleep, nanosleep(&(struct timespec){.tv_sec = 100000}, NULL))
WAITS(futex, pthread_mutex_lock(&mutex))
WAITS(epoll, epoll_wait(epoll_create1(0), &event, 1, -1))
WAITS(syscall, syscall(SYS_read, empty[0], &byte, 1L))

static long (*const functions[WAITING])(void) = {in_read, in_poll, in_nanosleep, in_futex, in_epoll, in_syscall};

static void *wait_in(void *index)
{
    waiting[(long)index] = gettid();
    return (void *)functions[(long)index]();
}

static int is_asleep(pid_t thread)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    int file = open(path, O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    return strrchr(text, ')')[2] == 'S';
}

static void start_threads(void)
{
    if (pipe(empty) != 0) _exit(90);
    pthread_mutex_lock(&mutex);
    for (long i = 0; i < WAITING; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, wait_in, (void *)i) != 0) _exit(91);
    }
    for (int i = 0; i < WAITING; i++)
        while (waiting[i] == 0 || !is_asleep(waiting[i])) sched_yield();
}

static volatile sig_atomic_t noticed;

static void notice(int signal)
{
    (void)signal;
    noticed++;
}

static void do_what_programs_do(void)
{
    for (int i = 0; i < 100; i++) {
        int file = open("/proc/self/exe", O_RDONLY);
        void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        if (at == MAP_FAILED || munmap(at, 4096) != 0 || close(file) != 0) _exit(92);
        syscall(SYS_getppid);
    }
    if (dlopen("libresolv.so.2", RTLD_NOW) == NULL) _exit(93);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(94);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) _exit(95);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, wait_in, (void *)0) != 0) _exit(96);
        pthread_cancel(thread), pthread_join(thread, NULL);
    }
}

// Leaves a daemon in which threads wait. The parent ends when they wait, and the daemon goes on alone.
static void leave(const char *fifo, void (*last)(void))
{
    int alive[2], begun[2];
    if (pipe(alive) != 0 || pipe(begun) != 0) _exit(88);
    if (fork() == 0) {
        setsid();
        close(alive[1]), close(begun[0]);
        signal(SIGURG, notice);
        start_threads();
        SAY("result daemon %d\n", getpid());
        close(begun[1]);
        if (read(alive[0], &byte, 1) != 0) _exit(1);
        close(open(fifo, O_RDONLY));
        last();
        SAY("result noticed %d\n", (int)noticed);
        exit(0);
    }
    close(begun[1]);
    _exit(read(begun[0], &byte, 1) == 0 ? 3 : 1);
}

// The only pointer to `kept` is in the frame of a thread that waits.
static void *keep(void *nothing)
{
    char *volatile kept = malloc(2003);
    waiting[0] = gettid();
    in_read();
    free(kept);
    return nothing;
}

static void lose(void)
{
    pthread_t thread;
    waiting[0] = 0;
    if (pthread_create(&thread, NULL, keep, NULL) != 0) _exit(97);
    while (waiting[0] == 0 || !is_asleep(waiting[0])) sched_yield();
    char *volatile lost = malloc(1009);
    if (lost == NULL) _exit(98);
    lost = NULL;
}

static _Atomic long begun, cleaned;

static void clean(void *nothing)
{
    (void)nothing;
    cleaned++;
}

static void *call(void *nothing)
{
    pthread_cleanup_push(clean, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    begun++;
    for (;;) syscall(SYS_getppid);
    pthread_cleanup_pop(0);
    return nothing;
}

// The C library unwinds from the thread's address, which may be anywhere.
static void cancel_anywhere(void)
{
    for (long i = 0; i < CANCELLED; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, call, NULL) != 0) _exit(89);
        while (begun <= i) sched_yield();
        pthread_cancel(thread), pthread_join(thread, NULL);
    }
    SAY("result cleaned %ld of %d\n", cleaned, CANCELLED);
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    if (strcmp(mode, "core") == 0) start_threads(), abort();
    if (strcmp(mode, "cancel") == 0) return cancel_anywhere(), 0;
    if (strcmp(mode, "left") == 0 && count == 3) leave(words[2], do_what_programs_do);
    if (strcmp(mode, "leak") == 0 && count == 3) leave(words[2], lose);
    return 2;
}
