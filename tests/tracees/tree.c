// Trees of processes: `tree fork|crowd|exec|vfork|spawn|thread-exec|prefork`, `tree daemon FIFO`. The other modes
// execute the mode `leaf CALLS`.
//
// Exact: every process prints its own lines, so the sums over all lines are the true counts. A process counts on its
// parent's copied page until its own page is ready, if ever: these counts must not be lost.
#define _GNU_SOURCE
#include "say.h"
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static void read_and_say(long calls)
{
    struct timespec now;
    REPEAT(calls) clock_gettime(CLOCK_TAI, &now);
    syscall(SYS_getppid);
    say_vdso("clock_gettime", "CLOCK_TAI", calls);
    say_syscall("getppid", 1);
}

static int wait_for_all(void)
{
    int status, failed = 0;
    while (wait(&status) > 0) failed |= status;
    return failed != 0;
}

static int fork_trees(void)
{
    for (int child = 0; child < 7; child++) {
        if (fork() != 0) continue;
        for (int grandchild = 0; grandchild < 3; grandchild++)
            if (fork() == 0) {
                read_and_say(101);
                _exit(0);
            }
        read_and_say(211);
        _exit(wait_for_all());
    }
    read_and_say(307);
    return wait_for_all();
}

static int fork_tree(void)
{
    int failed = fork_trees();
    SAY("processes 29\nthreads 29\n");
    return failed;
}

// So many processes at once that they are preempted at any place.
static int crowd(void)
{
    for (int tree = 0; tree < 24; tree++)
        if (fork() == 0) _exit(fork_trees());
    SAY("processes 697\nthreads 697\n");
    return wait_for_all();
}

static void become_leaf(const char *calls)
{
    execl("/proc/self/exe", "tree", "leaf", calls, (char *)NULL);
    _exit(1);
}

static int exec_tree(void)
{
    for (int child = 0; child < 5; child++)
        if (fork() == 0) {
            read_and_say(13);
            become_leaf("503");
        }
    read_and_say(17);
    SAY("processes 6\n");
    return wait_for_all();
}

// The vfork child reads on its parent's memory and with its parent's thread pointer.
__attribute__((noinline)) static void vfork_leaf(void)
{
    struct timespec now;
    if (vfork() == 0) {
        REPEAT(19) clock_gettime(CLOCK_TAI, &now);
        become_leaf("401");
    }
}

static int vfork_tree(void)
{
    REPEAT(5) vfork_leaf();
    say_vdso("clock_gettime", "CLOCK_TAI", 5 * 19);
    read_and_say(17);
    SAY("processes 6\n");
    return wait_for_all();
}

static int spawn_tree(void)
{
    char *arguments[] = {"tree", "leaf", "307", NULL};
    for (int child = 0; child < 11; child++)
        if (posix_spawn(NULL, "/proc/self/exe", NULL, NULL, arguments, environ) != 0) return 1;
    read_and_say(17);
    SAY("processes 12\n");
    return wait_for_all();
}

static void *exec_from_thread(void *unused)
{
    become_leaf("601"); // the thread gets the pid as its id, and the first thread vanishes
    return unused;
}

static int thread_exec(void)
{
    pthread_t thread;
    read_and_say(23);
    pthread_create(&thread, NULL, exec_from_thread, NULL);
    pthread_join(thread, NULL);
    return 1;
}

static int prefork(void)
{
    int gate[2];
    char byte;
    if (pipe(gate) != 0) return 1;
    for (int child = 0; child < 16; child++)
        if (fork() == 0) {
            close(gate[1]);
            if (read(gate[0], &byte, 1) != 0) _exit(1); // continues when the parent closes its end
            read_and_say(20011);
            _exit(0);
        }
    close(gate[1]);
    read_and_say(20021);
    SAY("processes 17\nthreads 17\n");
    return wait_for_all();
}

// Makes a daemon that outlives its grandparent: the pipe ends with the grandparent. The daemon stays until
// another process opens the other end of FIFO.
static int make_daemon(const char *fifo)
{
    int alive[2];
    char byte;
    if (pipe(alive) != 0) return 1;
    if (fork() == 0) {
        setsid();
        close(alive[1]);
        if (fork() == 0) {
            read_and_say(503);
            if (read(alive[0], &byte, 1) != 0) _exit(1);
            close(open(fifo, O_RDONLY));
            read_and_say(1009);
            SAY("result the daemon is done\n");
        }
        _exit(0);
    }
    if (wait_for_all() != 0) return 1;
    read_and_say(211);
    return 3;
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "";
    if (strcmp(mode, "fork") == 0) return fork_tree();
    if (strcmp(mode, "crowd") == 0) return crowd();
    if (strcmp(mode, "exec") == 0) return exec_tree();
    if (strcmp(mode, "vfork") == 0) return vfork_tree();
    if (strcmp(mode, "spawn") == 0) return spawn_tree();
    if (strcmp(mode, "thread-exec") == 0) return thread_exec();
    if (strcmp(mode, "prefork") == 0) return prefork();
    if (strcmp(mode, "daemon") == 0 && count == 3) return make_daemon(arguments[2]);
    if (strcmp(mode, "leaf") == 0 && count == 3) return read_and_say(atol(arguments[2])), 0;
    return 2;
}
