// A library for LD_PRELOAD: forbids its process the time-stamp counter before `main`. The dynamic linker
// reads the counter itself, so a dynamic program could not be executed under the ban.
#include <sys/prctl.h>

__attribute__((constructor)) static void before_main(void)
{
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
}
