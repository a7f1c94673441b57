// Reads a clock until it is ended, for a debugger to attach to. Prints its process id first; ends by
// itself after 20 seconds, or after the given number.
#include "say.h"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words)
{
    struct timespec now;
    alarm(count > 1 ? atoi(words[1]) : 20);
    SAY("result process %d\n", getpid());
    for (;;) clock_gettime(CLOCK_TAI, &now);
}
