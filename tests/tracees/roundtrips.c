// A client that asks 60,000 questions and takes the time before and after each, like a
// database client of 2013 whose system calls were half gettimeofday.
//
// Exact: libc start-up makes none of these calls. `result` tells whether the measured time is
// positive, and not more than the time of the whole loop by the raw clock.
#define _GNU_SOURCE
#include "say.h"
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static void serve(int socket)
{
    char question[64];
    while (recv(socket, question, sizeof question, 0) > 0) send(socket, question, sizeof question, 0);
    _exit(0);
}

static long micros_since(const struct timeval *start)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (now.tv_sec - start->tv_sec) * 1000000 + now.tv_usec - start->tv_usec;
}

int main(int count, char **arguments)
{
    long trips = count > 1 ? atol(arguments[1]) : 60000, total = 0;
    int ends[2];
    char text[64] = "select 1";
    struct timespec first, last;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return 1;
    if (fork() == 0) {
        close(ends[0]);
        serve(ends[1]);
    }
    close(ends[1]);
    clock_gettime(CLOCK_MONOTONIC_RAW, &first);
    REPEAT(trips) {
        struct timeval start;
        gettimeofday(&start, NULL);
        send(ends[0], text, sizeof text, 0);
        if (recv(ends[0], text, sizeof text, 0) != sizeof text) return 1;
        total += micros_since(&start);
    }
    clock_gettime(CLOCK_MONOTONIC_RAW, &last);
    close(ends[0]);
    wait(NULL);
    double loop = (last.tv_sec - first.tv_sec) * 1e6 + (last.tv_nsec - first.tv_nsec) / 1e3;
    say_vdso("gettimeofday", "-", 2 * trips);
    say_vdso("clock_gettime", "CLOCK_MONOTONIC_RAW", 2);
    say_syscall("sendto", 2 * trips);
    say_syscall("recvfrom", 2 * trips + 1);
    SAY("processes 2\nthreads 2\n");
    // A coarse clock stands still within a tick, so a short loop may measure nothing.
    int moved = total > 0 || loop < 20000;
    SAY("result the measured time is %s\n", moved && total < loop * 1.05 + 20000 ? "plausible" : "wrong");
    return 0;
}
