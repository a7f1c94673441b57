// `killed_forkers N`: N times, a process that makes children without pause is killed at any moment. All
// its children must end: each holds the writing end of a pipe, which the program reads to its end.
#define _GNU_SOURCE
#include "say.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static void fork_without_pause(void)
{
    signal(SIGCHLD, SIG_IGN);
    for (;;)
        if (fork() == 0) _exit(0);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 200;
    unsigned long random = 1;
    REPEAT(rounds) {
        int ends[2];
        char byte;
        if (pipe(ends) != 0) return 99;
        pid_t forker = fork();
        if (forker == 0) fork_without_pause();
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        usleep((useconds_t)(random >> 33) % 3000);
        kill(forker, SIGKILL);
        waitpid(forker, NULL, 0);
        close(ends[1]);
        while (read(ends[0], &byte, 1) > 0) {}
        close(ends[0]);
    }
    SAY("result all children have ended, %ld times\n", rounds);
    return 0;
}
