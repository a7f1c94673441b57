// `killed_forkers N`: N times, a process that makes children without pause is killed at a random moment. All children
// must end: each holds the writing end of a pipe, which the program reads to its end.
// `killed_forkers N reaper`: the program becomes the parent of the children when their parent is gone.
// `killed_forkers N execute`: the process is not killed, but another of its threads executes a program, which
// kills the thread that makes children, and waits for a word to end.
#define _GNU_SOURCE
#include "say.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void fork_without_pause(void)
{
    signal(SIGCHLD, SIG_IGN);
    for (;;)
        if (fork() == 0) _exit(0);
}

static void *fork_in_a_thread(void *none)
{
    fork_without_pause();
    return none;
}

// Executes this program. Only the reading end of `word` stays open in it, and it ends when the writing end is closed.
static void execute_after(useconds_t time, int *ends, int *word)
{
    char number[16];
    pthread_t thread;
    close(word[1]);
    snprintf(number, sizeof number, "%d", word[0]);
    pthread_create(&thread, NULL, fork_in_a_thread, NULL);
    usleep(time);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    execl("/proc/self/exe", "killed_forkers", "wait", number, NULL);
    _exit(98);
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "wait")) {
        char byte;
        return read(atoi(argv[2]), &byte, 1) != 0;
    }
    int executes = argc > 2 && !strcmp(argv[2], "execute");
    if (argc > 2 && !strcmp(argv[2], "reaper")) prctl(PR_SET_CHILD_SUBREAPER, 1);
    long rounds = argc > 1 ? atol(argv[1]) : 200;
    unsigned long random = 1;
    REPEAT(rounds) {
        int ends[2], word[2];
        char byte;
        if (pipe(ends) != 0 || pipe(word) != 0) return 99;
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        useconds_t time = (useconds_t)(random >> 33) % 3000;
        pid_t forker = fork();
        if (forker == 0) {
            if (executes) execute_after(time, ends, word);
            fork_without_pause();
        }
        if (!executes) {
            usleep(time);
            kill(forker, SIGKILL);
            waitpid(forker, NULL, 0);
        }
        close(ends[1]);
        while (read(ends[0], &byte, 1) > 0) {}
        close(ends[0]);
        close(word[0]);
        close(word[1]);
        if (executes) waitpid(forker, NULL, 0);
    }
    SAY("result all children have ended, %ld times\n", rounds);
    return 0;
}
