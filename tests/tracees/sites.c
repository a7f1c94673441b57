// System calls where it matters where the program stands: `sites signals` makes calls in five threads while a timer
// interrupts them, and says how often a handler came from outside of the program's own files; `sites cancel` ends
// threads that are in the middle of calls.
//
// Exact: only this program calls getppid. Handlers count theirs by an atomic.
#define _GNU_SOURCE
#include "say.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>

enum { CALLS = 100000, THREADS = 4, CANCELLED = 200 };

static _Atomic long handled, outside, cleaned;

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ucontext_t *from = context;
    Dl_info found;
    void *at = (void *)from->uc_mcontext.gregs[REG_RIP];
    // The shim and its areas belong to no file; the vDSO is known to the loader.
    if (!dladdr(at, &found)) outside++;
    syscall(SYS_getppid);
    handled++;
}

static void *call(void *nothing)
{
    REPEAT(CALLS) syscall(SYS_getppid);
    return nothing;
}

static void with_signals(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, call, NULL);
    call(NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    SAY("handled %ld outside %ld\n", handled, outside);
    say_syscall("getppid", (THREADS + 1) * (long)CALLS + handled);
}

static int ends[2];

static void clean(void *nothing)
{
    (void)nothing;
    cleaned++;
}

static void *read_all(void *nothing)
{
    char byte;
    pthread_cleanup_push(clean, NULL);
    for (;;) if (read(ends[0], &byte, 1) < 0) _exit(98);
    pthread_cleanup_pop(0);
    return nothing;
}

static void *write_all(void *nothing)
{
    char byte = 0;
    pthread_cleanup_push(clean, NULL);
    for (;;) if (write(ends[1], &byte, 1) < 0) _exit(97);
    pthread_cleanup_pop(0);
    return nothing;
}

static void with_cancellation(void)
{
    if (pipe(ends) != 0) _exit(96);
    for (int i = 0; i < CANCELLED; i++) {
        pthread_t reader, writer;
        pthread_create(&reader, NULL, read_all, NULL);
        pthread_create(&writer, NULL, write_all, NULL);
        usleep(i * 37 % 500);
        pthread_cancel(reader), pthread_join(reader, NULL);
        pthread_cancel(writer), pthread_join(writer, NULL);
    }
    SAY("cleaned %ld\n", cleaned);
}

int main(int count, char **words)
{
    if (count != 2) return 2;
    strcmp(words[1], "signals") == 0 ? with_signals() : with_cancellation();
    return 0;
}
