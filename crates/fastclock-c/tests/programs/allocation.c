/* Reading neither allocates nor frees memory: this program's malloc counts its calls. */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <stddef.h>

#include "checks.h"

enum { ROUNDS = 300000 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static volatile unsigned long calls;

void *malloc(size_t size) {
    calls = calls + 1;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    calls = calls + 1;
    return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
    calls = calls + 1;
    return __libc_realloc(old, size);
}
int posix_memalign(void **memory, size_t alignment, size_t size) {
    calls = calls + 1;
    *memory = __libc_memalign(alignment, size);
    return *memory == NULL ? 12 : 0;
}
void free(void *memory) {
    calls = calls + 1;
    __libc_free(memory);
}

int main(void) {
    /* Covers the kernel's answers at first, the change to the clock's own, and their renewals. */
    fastclock_t *clock = fastclock_alone();
    CHECK(clock != NULL);
    CHECK(calls > 0);
    unsigned long before = calls;
    int64_t begin = kernel_time(CLOCK_MONOTONIC);
    int64_t bound;
    struct timespec time;
    do {
        for (int i = 0; i < ROUNDS / 100; i++) {
            fastclock_now(clock);
            fastclock_now_fast(clock);
            fastclock_now_bounded(clock, &bound);
            fastclock_realtime(clock);
            fastclock_realtime_fast(clock);
            fastclock_realtime_bounded(clock, &bound);
            fastclock_now_bounded_fast(clock, &bound);
            fastclock_realtime_bounded_fast(clock, &bound);
            fastclock_boottime(clock);
            fastclock_tai(clock);
            fastclock_recent(clock);
            fastclock_refresh_recent(clock);
            fastclock_coarse(clock);
            fastclock_coarse_realtime(clock);
            fastclock_second(clock);
            fastclock_elapsed(clock, begin);
            fastclock_resolution(clock, FASTCLOCK_KIND_PRECISE);
            fastclock_gettime(clock, CLOCK_MONOTONIC, &time);
            fastclock_reason_text(fastclock_status(clock));
        }
    } while (kernel_time(CLOCK_MONOTONIC) - begin < 2500000000);
    CHECK(calls == before);
    fastclock_free(clock);
    puts("reading allocates nothing");
    return 0;
}
