// Prints "ready", waits for a line or for signals, and prints which came: for tests of pipes,
// terminals and job control. Handlers of SIGTERM and SIGINT end it with status 33 and 34.
//
// Exact: no other code reads CLOCK_TAI, calls poll, or close after the start.
#define _GNU_SOURCE
#include "say.h"
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void read_clock(long calls)
{
    struct timespec now;
    REPEAT(calls) clock_gettime(CLOCK_TAI, &now);
    say_vdso("clock_gettime", "CLOCK_TAI", calls);
}

static void on_signal(int signal)
{
    read_clock(101);
    SAY("result caught %s\n", signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "SIGCONT");
    if (signal != SIGCONT) _exit(signal == SIGTERM ? 33 : 34);
}

int main(void)
{
    char line[256];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask); // so no handler ends the process between another handler's reads and its line
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
    SAY("ready\n");
    while (fgets(line, sizeof line, stdin)) {
        read_clock(503);
        REPEAT(37) poll(NULL, 0, 0);
        REPEAT(11) close(-1);
        say_syscall("poll", 37);
        say_syscall("close", 11);
        SAY("result line %s", line);
    }
    read_clock(211);
    SAY("result end of input\n");
    return 0;
}
