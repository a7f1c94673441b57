// `killer MICROS TOOL...` starts TOOL, kills it with SIGKILL after that many microseconds, waits
// for every process that TOOL leaves behind, and prints on standard error how each one ended:
// `left status N` or `left signal N`, and `tool status N` or `tool signal N` for TOOL.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    int status;
    pid_t ended;
    if (count < 3 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return 2;
    pid_t tool = fork();
    if (tool == 0) {
        execv(arguments[2], arguments + 2);
        _exit(2);
    }
    usleep((useconds_t)atol(arguments[1]));
    kill(tool, SIGKILL);
    while ((ended = wait(&status)) > 0) {
        const char *who = ended == tool ? "tool" : "left";
        if (WIFSIGNALED(status)) fprintf(stderr, "%s signal %d\n", who, WTERMSIG(status));
        else fprintf(stderr, "%s status %d\n", who, WEXITSTATUS(status));
    }
    return 0;
}
