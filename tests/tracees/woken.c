// A thread waits in `epoll_wait` without limit again and again, and gets a signal whenever it waits. At the end of its
// input the program prints how many waits have ended and how many signals were handled, and exits with status 7 if no
// wait has ended without a signal.
#define _GNU_SOURCE
#include "say.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

static atomic_long handled, ended, wrong;
static atomic_int tid, over;
static int nothing;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static void *wait_always(void *argument)
{
    struct epoll_event event;
    tid = (int)syscall(SYS_gettid);
    for (;;) {
        if (epoll_wait(nothing, &event, 1, -1) == -1 && errno == EINTR) ended++;
        else wrong++;
    }
    return argument;
}

static void *wake_always(void *argument)
{
    struct timespec some = {0, 20000};
    while (!over) {
        long before = ended;
        syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
        // A signal that comes before the wait does not end a wait.
        for (int i = 0; ended == before && !over && i < 500; i++) nanosleep(&some, NULL);
    }
    return argument;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    nothing = epoll_create1(0);
    pthread_t waiter, waker;
    if (pthread_create(&waiter, NULL, wait_always, NULL) != 0) return 3;
    while (tid == 0) usleep(1000);
    if (pthread_create(&waker, NULL, wake_always, NULL) != 0) return 3;
    SAY("ready\n");
    char byte;
    while (read(0, &byte, 1) == 1) {}
    over = 1;
    pthread_join(waker, NULL);
    long waits = ended;
    SAY("waits %ld signals %ld wrong %ld\n", waits, (long)handled, (long)wrong);
    return waits <= handled && waits > 0 && wrong == 0 ? 7 : 1;
}
