// Programs in states that make attaching hard: `attach_states STATE`. Each prints "ready" in its
// state, leaves it at the end of its input, prints how it ended, and exits with status 7. On a line
// "count" it reads CLOCK_TAI 101 times, prints that, then "done".
//   waits         the state of an ordinary program
//   vfork         in vfork, and the child waits
//   vfork-thread  another thread is in vfork
//                 (in every state with one thread, "vfork" makes the thread wait in vfork from then on; the child,
//                 on the same memory, goes on with the input)
//   vfork-loop    two threads make children by vfork all the time
//   vfork-sleep   makes children by vfork all the time; each child executes a program that stays
//   shares        another process, no thread of it, runs on its memory and reads the clock all the time
//   first-ends    the first thread has ended, another one answers; "clean": prints the mapped System V
//                 shared memory, then "done"
//   first-ends-later  the same, after a line "end-first"
//   traced        traced by its own child
//   unmapped      without a vDSO
//   kill-all      under a seccomp filter that kills for all calls except the program's own
//   kill-some     under a filter that kills for one call, which is never made
//   refuse-shmat  under a filter that answers shmat with an error
//   no-tsc        must not read the counter; reads CLOCK_MONOTONIC_COARSE
//   asleep        threads in many system calls that wait; prints the calls that were seen to be interrupted
#define _GNU_SOURCE
#include "say.h"
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static volatile long wrong;
static volatile int leaving;
static clockid_t counted = CLOCK_TAI;

static pthread_t first;
static atomic_int first_may_end;

// Prints the lines of its System V shared memory mappings.
static void say_shared_memory(void)
{
    char line[512];
    FILE *maps = fopen("/proc/thread-self/maps", "r");
    if (!maps) SAY("cannot read its mappings\n");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "SYSV")) SAY("%s", line);
    if (maps) fclose(maps);
    SAY("done\n");
}

static void end_first(void)
{
    first_may_end = 1;
    if (pthread_join(first, NULL) != 0) wrong++;
}

static void in_vfork(const char *said);

static void until_the_end_of_input(void)
{
    static char line[64];
    size_t length = 0;
    struct timespec now;
    for (char byte; read(0, &byte, 1) == 1;) {
        if (byte != '\n') {
            if (length < sizeof line - 1) line[length++] = byte;
            continue;
        }
        line[length] = 0;
        length = 0;
        if (strcmp(line, "clean") == 0) say_shared_memory();
        if (strcmp(line, "vfork") == 0) {
            in_vfork("done\n");
            continue; // the child has read other lines into the same memory
        }
        if (strcmp(line, "end-first") == 0) {
            end_first();
            SAY("done\n");
        }
        if (strcmp(line, "count") != 0) continue;
        REPEAT(101) if (clock_gettime(counted, &now) != 0) wrong++;
        say_vdso("clock_gettime", counted == CLOCK_TAI ? "CLOCK_TAI" : "CLOCK_MONOTONIC_COARSE", 101);
        SAY("done\n");
    }
}

// Runs with its parent's thread pointer, and touches nothing there.
static int reads_all_the_time(void *unused)
{
    struct timespec now;
    (void)unused;
    while (!leaving) clock_gettime(CLOCK_MONOTONIC, &now);
    syscall(SYS_exit, 0);
    __builtin_unreachable();
}

static void shares(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    pid_t child = clone(reads_all_the_time, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    SAY("ready\n");
    until_the_end_of_input();
    leaving = 1;
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) wrong++;
}

static void in_vfork(const char *said)
{
    pid_t child = vfork();
    if (child == 0) {
        SAY("%s", said);
        until_the_end_of_input();
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) wrong++;
}

static void *in_vfork_thread(void *unused)
{
    in_vfork("ready\n");
    return unused;
}

static void vfork_beside_work(void)
{
    pthread_t thread;
    struct timespec now;
    if (pthread_create(&thread, NULL, in_vfork_thread, NULL) != 0) _exit(3);
    do clock_gettime(CLOCK_MONOTONIC, &now); // until the other thread has ended
    while (pthread_tryjoin_np(thread, NULL) == EBUSY);
}

static void *in_vfork_again_and_again(void *unused)
{
    struct timespec now;
    while (!leaving) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) wrong++;
        REPEAT(1000) clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return unused;
}

static void vfork_loop(void)
{
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, in_vfork_again_and_again, NULL) != 0) _exit(3);
    SAY("ready\n");
    until_the_end_of_input();
    leaving = 1;
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
}

static void *makes_sleepers(void *unused)
{
    static pid_t children[1000];
    int count = 0;
    struct timespec now;
    while (!leaving) {
        if (count < 1000) {
            children[count] = vfork();
            if (children[count] == 0) {
                execl("/bin/sleep", "sleep", "1000", (char *)NULL);
                _exit(1);
            }
            if (children[count++] < 0) _exit(3);
        }
        for (int reads = 0; reads < 20000 && !leaving; reads++) clock_gettime(CLOCK_MONOTONIC, &now);
    }
    while (count-- > 0)
        if (kill(children[count], SIGKILL) != 0 || waitpid(children[count], NULL, 0) < 0) wrong++;
    return unused;
}

static void vfork_sleep(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, makes_sleepers, NULL) != 0) _exit(3);
    SAY("ready\n");
    until_the_end_of_input();
    leaving = 1;
    pthread_join(thread, NULL);
}

static void *second(void *ends_at_once)
{
    if (ends_at_once) end_first();
    SAY("ready\n");
    until_the_end_of_input();
    SAY("result ended well backwards 0 wrong %ld\n", wrong);
    _exit(7);
}

static void first_ends(int at_once)
{
    pthread_t thread;
    first = pthread_self();
    if (pthread_create(&thread, NULL, second, at_once ? &first : NULL) != 0) _exit(3);
    while (!first_may_end) usleep(1000);
    pthread_exit(NULL);
}

static void traced(void)
{
    int gate[2];
    char byte;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (pipe(gate) != 0) _exit(3);
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_SEIZE, getppid(), 0, 0) != 0) _exit(1);
        SAY("ready\n");
        close(gate[1]);
        if (read(gate[0], &byte, 1) < 0) _exit(1);
        _exit(0); // detaches by ending
    }
    close(gate[0]);
    until_the_end_of_input();
    close(gate[1]);
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) wrong++;
}

static void unmap(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &start, &end) == 2 &&
            munmap((void *)start, end - start) != 0)
            wrong++;
    }
    if (maps) fclose(maps);
    SAY("ready\n");
    char byte; // from here on no clock is read
    while (read(0, &byte, 1) == 1)
        ;
}

// Installs a filter: the named calls get `for_these`, all other calls `for_others`.
static void filter(const int *calls, size_t count, unsigned for_these, unsigned for_others)
{
    struct sock_filter code[64];
    size_t n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, for_these);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, for_others);
    struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(3);
}

static void under_filter(const char *which)
{
    const int own[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group};
    const int some[] = {SYS_personality, SYS_acct};
    const int shmat_call[] = {
#ifdef SYS_shmat
        SYS_shmat,
#endif
    };
    if (strcmp(which, "kill-all") == 0)
        filter(own, 4, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
    else if (strcmp(which, "kill-some") == 0)
        filter(some, 2, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    else
        filter(shmat_call, sizeof shmat_call / sizeof(int), SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
    SAY("ready\n");
    until_the_end_of_input();
}

static int wake[2];
static unsigned never;

static int sleep_in(int kind)
{
    struct timespec hour = {3600, 0};
    struct pollfd poll_of = {.fd = wake[0], .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN};
    struct timeval long_time = {3600, 0};
    sigset_t none;
    fd_set set;
    char byte;
    int epoll;
    switch (kind) {
    case 0: return poll(&poll_of, 1, -1);
    case 1: FD_ZERO(&set); FD_SET(wake[0], &set); return select(wake[0] + 1, &set, NULL, NULL, &long_time);
    case 2: return (int)read(wake[0], &byte, 1);
    case 3: return (int)syscall(SYS_futex, &never, FUTEX_WAIT, 0, NULL, NULL, 0);
    case 4: return (int)syscall(SYS_futex, &never, FUTEX_WAIT, 0, &hour, NULL, 0);
    case 5: return nanosleep(&hour, NULL);
    case 6: return clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL) ? (errno = EINTR, -1) : 0;
    case 7: return ppoll(&poll_of, 1, &hour, NULL);
    case 8: sigemptyset(&none); return sigtimedwait(&none, NULL, &hour);
    default:
        epoll = epoll_create1(0);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, wake[0], &event) != 0) return -1;
        return epoll_wait(epoll, &event, 1, -1);
    }
}

static const char *const kinds[] = {"poll", "select", "read", "futex", "timed futex", "nanosleep",
                                    "clock_nanosleep", "ppoll", "sigtimedwait", "epoll_wait"};

static void *sleeper(void *kind)
{
    int returned = sleep_in((int)(long)kind);
    if (!leaving) SAY("result %s returned %d %s\n", kinds[(long)kind], returned, strerror(errno));
    return NULL;
}

// The number of threads that the kernel reports as asleep.
static int asleep_now(void)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], text[512];
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        FILE *file = fopen(path, "r");
        found += file && fgets(text, sizeof text, file) && strstr(text, ") S ");
        if (file) fclose(file);
    }
    if (tasks) closedir(tasks);
    return found;
}

static void asleep(void)
{
    pthread_t thread;
    if (pipe(wake) != 0) _exit(3);
    for (long kind = 0; kind < 10; kind++)
        if (pthread_create(&thread, NULL, sleeper, (void *)kind) != 0) _exit(3);
    while (asleep_now() != 10)
        ;
    SAY("ready\n");
    until_the_end_of_input();
    leaving = 1;
}

int main(int count, char **arguments)
{
    const char *state = count == 2 ? arguments[1] : "waits";
    if (strcmp(state, "vfork") == 0) in_vfork("ready\n");
    else if (strcmp(state, "shares") == 0) shares();
    else if (strcmp(state, "vfork-thread") == 0) vfork_beside_work();
    else if (strcmp(state, "vfork-loop") == 0) vfork_loop();
    else if (strcmp(state, "vfork-sleep") == 0) vfork_sleep();
    else if (strncmp(state, "first-ends", 10) == 0) first_ends(state[10] == 0);
    else if (strcmp(state, "unmapped") == 0) unmap();
    else if (strcmp(state, "asleep") == 0) asleep();
    else if (strcmp(state, "traced") == 0) traced();
    else if (strncmp(state, "kill-", 5) == 0 || strcmp(state, "refuse-shmat") == 0) under_filter(state);
    else {
        if (strcmp(state, "no-tsc") == 0) {
            counted = CLOCK_MONOTONIC_COARSE;
            if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0) return 3;
        }
        SAY("ready\n");
        until_the_end_of_input();
    }
    SAY("result ended well backwards 0 wrong %ld\n", wrong);
    _exit(7);
}
