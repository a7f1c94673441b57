// Executes itself again and again, each time after reading the clock for 0 to 8 ms. Attaching takes longer than some of
// these pauses and less than others, on a machine of any speed.
#include <time.h>
#include <unistd.h>

static long nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(int count, char **words)
{
    long start = nanoseconds();
    // Knuth's multiplicative hash: its upper bits are pseudo-random.
    long pause = (long)((unsigned long)start * 11400714819323198485u >> 41);
    while (nanoseconds() - start < pause) continue;
    if (count > 0) execv("/proc/self/exe", words);
    return 1;
}
