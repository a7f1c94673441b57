// Executes itself with SIGURG in a certain state, and prints the state that the new program finds:
//
//   blocked, pending   SIGURG is blocked; one is pending
//   ignored, handled   SIGURG is ignored; it has a handler, which an executed program does not inherit
//   sent               a neighbour sends one after the other, while it executes itself ten times
//   maps               a neighbour sends one after the other, while it maps a file 2000 times to be executed
//   filtered COMMAND   executes a command under a filter that kills a process for sending a signal to a thread
//
// Exact: only this program calls getppid, and each time it is executed.
#define _GNU_SOURCE
#include "say.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define CALLS 30

static void on_signal(int signal) { (void)signal; }

static void execute(const char *path, const char *how, int times)
{
    char left[16];
    snprintf(left, sizeof left, "%d", times);
    execl(path, path, how, left, (char *)NULL);
    _exit(97);
}

static void prepare(const char *how)
{
    sigset_t urgent;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    if (!strcmp(how, "blocked") || !strcmp(how, "pending")) sigprocmask(SIG_BLOCK, &urgent, NULL);
    if (!strcmp(how, "pending")) kill(getpid(), SIGURG);
    if (!strcmp(how, "ignored")) signal(SIGURG, SIG_IGN);
    if (!strcmp(how, "handled")) signal(SIGURG, on_signal);
}

// Prints the state of SIGURG at the beginning.
static void look(const char *how)
{
    sigset_t blocked, pending;
    struct sigaction action;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&pending);
    sigaction(SIGURG, NULL, &action);
    int is_default = action.sa_handler == SIG_DFL, is_ignored = action.sa_handler == SIG_IGN;
    SAY("result %s: %s, %s, %s\n", how, sigismember(&blocked, SIGURG) ? "blocked" : "not blocked",
        sigismember(&pending, SIGURG) ? "pending" : "not pending",
        is_default ? "default" : is_ignored ? "ignored" : "handled");
}

static void neighbour(pid_t program)
{
    while (kill(program, SIGURG) == 0) {}
    _exit(0);
}

static void map(void)
{
    int file = open("/proc/self/exe", O_RDONLY);
    REPEAT(2000) {
        void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        if (at == MAP_FAILED || munmap(at, 4096) != 0) _exit(82);
    }
}

static int filtered(char **command)
{
    struct sock_filter calls[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {sizeof calls / sizeof *calls, calls};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 84;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 83;
    execvp(command[0], command);
    return 97;
}

int main(int count, char **words)
{
    if (count < 2) return 2;
    const char *how = words[1];
    if (!strcmp(how, "filtered")) return filtered(words + 2);
    int is_sent = !strcmp(how, "sent"), maps = !strcmp(how, "maps");
    if (count == 2) {
        pid_t program = getpid();
        if ((is_sent || maps) && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            neighbour(program);
        }
        prepare(how);
        if (maps) return map(), 0;
        execute(words[0], how, is_sent ? 10 : 1);
    }
    REPEAT(CALLS) syscall(SYS_getppid);
    say_syscall("getppid", CALLS);
    int left = atoi(words[2]) - 1;
    if (left > 0) execute(words[0], how, left);
    if (!is_sent) look(how);
    return 0;
}
