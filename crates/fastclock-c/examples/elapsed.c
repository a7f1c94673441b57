/* Times a loop and prints the result with its bound. */

#include <inttypes.h>
#include <stdio.h>

#include <fastclock.h>

int main(void) {
    fastclock_t *clock = fastclock_new();
    if (clock == NULL) {
        fputs("elapsed: no clock can be made\n", stderr);
        return 1;
    }
    /* Without this call the kernel answers for the first 200 ms. */
    int status = fastclock_calibrate(clock, 1000000000);

    int64_t bound_before, bound_after;
    int64_t before = fastclock_now_bounded(clock, &bound_before);
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < 10000000; i++)
        sum += i;
    int64_t after = fastclock_now_bounded(clock, &bound_after);

    printf("elapsed %" PRId64 " ns, within %" PRId64 " ns\n", after - before,
           bound_before + bound_after);
    printf("status %d: %s\n", status, fastclock_reason_text(status));
    fastclock_free(clock);
    return 0;
}
