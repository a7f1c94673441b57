// Prints its effective user id: the test makes it setuid root and runs it as the user nobody. With
// arguments it executes them. Not exact: a tracer without the right to trace it counts nothing.
#define _GNU_SOURCE
#include "say.h"
#include <time.h>

int main(int count, char **arguments)
{
    struct timespec now;
    REPEAT(503) clock_gettime(CLOCK_TAI, &now);
    say_vdso("clock_gettime", "CLOCK_TAI", 503);
    SAY("result effective user %u\n", geteuid());
    if (count > 1) execv(arguments[1], arguments + 1);
    return count > 1;
}
