// Executes itself again and again, after some clock reads.
#include <time.h>
#include <unistd.h>

int main(int count, char **words)
{
    struct timespec now;
    for (int i = 0; i < 1000; i++) clock_gettime(CLOCK_MONOTONIC, &now);
    if (count > 0) execv("/proc/self/exe", words);
    return 1;
}
