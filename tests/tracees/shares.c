// Four functions that read one clock, in shares of 60, 25, 10 and 5 %: `shares ROUNDS`, a hundred reads a round.
//
// Prints "path LEAF;main FUNCTION CLOCK N" for each function.
#include "call_sites.h"
#include <stdlib.h>
#include <time.h>

static struct timespec now;

// A count of its own for each, because compilers merge functions with equal code.
#define SITE(name)                                                       \
    static long in_##name;                                               \
    OUT_OF_LINE static void name(long calls)                             \
    {                                                                    \
        REPEAT(calls) clock_gettime(CLOCK_MONOTONIC, &now);              \
        in_##name += calls;                                              \
        NOT_LAST;                                                        \
    }

SITE(site_most)
SITE(site_more)
SITE(site_few)
SITE(site_fewest)

int main(int count, char **words)
{
    long rounds = count > 1 ? atol(words[1]) : 1000;
    for (long round = 0; round < rounds; round++) {
        site_most(60);
        site_more(25);
        site_few(10);
        site_fewest(5);
    }
    say_path("site_most;main", "clock_gettime CLOCK_MONOTONIC", in_site_most);
    say_path("site_more;main", "clock_gettime CLOCK_MONOTONIC", in_site_more);
    say_path("site_few;main", "clock_gettime CLOCK_MONOTONIC", in_site_few);
    say_path("site_fewest;main", "clock_gettime CLOCK_MONOTONIC", in_site_fewest);
}
