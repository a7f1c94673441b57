/* Four threads read one clock and share the latest time that any of them has read: no thread then
 * reads an earlier time. */

#include <pthread.h>

#include "checks.h"

enum { THREADS = 4, READS = 500000 };

static fastclock_t *the_clock;
static int64_t latest;

static void *read_on(void *unused) {
    (void)unused;
    for (int i = 0; i < READS; i++) {
        int64_t seen = __atomic_load_n(&latest, __ATOMIC_ACQUIRE);
        int64_t time = fastclock_now(the_clock);
        CHECK(time >= seen);
        while (seen < time && !__atomic_compare_exchange_n(&latest, &seen, time, 1, __ATOMIC_RELEASE,
                                                           __ATOMIC_RELAXED))
            ;
    }
    return NULL;
}

int main(void) {
    /* Not calibrated first: the threads also see the change from the kernel's answers to the
     * clock's own. */
    the_clock = fastclock_alone();
    CHECK(the_clock != NULL);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, read_on, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    fastclock_free(the_clock);
    printf("%d threads saw no time run backwards\n", THREADS);
    return 0;
}
