/* What a reading costs in C: the counter, the C library, and libfastclock.so.
 *
 *   fastclock ROUNDS CHUNKS
 *
 * All readings take turns; a round's figure is the best of CHUNKS chunks of about 1 ms of the thread's
 * CPU time. Output, one line a round and reading:  round NAME NS
 */
#define _GNU_SOURCE
#include <fastclock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef __x86_64__
#include <x86intrin.h>

#define COUNTER() __rdtsc()
#define FENCE() _mm_lfence()
#else
static inline uint64_t COUNTER(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

#define FENCE() __asm__ volatile("isb" : : : "memory")
#endif

static fastclock_t *fast;

/* Keeps a value alive without a trip through memory. */
static inline void use(uint64_t value)
{
	__asm__ volatile("" : : "r"(value) : "memory");
}

static void rdtsc(uint64_t calls)
{
	while (calls--)
		use(COUNTER());
}

static void lfence_rdtsc(uint64_t calls)
{
	while (calls--) {
		FENCE();
		use(COUNTER());
	}
}

static void libc_gettime(uint64_t calls)
{
	struct timespec now;

	while (calls--)
		clock_gettime(CLOCK_MONOTONIC, &now);
}

static void now_fast(uint64_t calls)
{
	while (calls--)
		use((uint64_t)fastclock_now_fast(fast));
}

static void now(uint64_t calls)
{
	while (calls--)
		use((uint64_t)fastclock_now(fast));
}

static void gettime(uint64_t calls)
{
	struct timespec at;

	while (calls--)
		fastclock_gettime(fast, CLOCK_MONOTONIC, &at);
}

static void recent(uint64_t calls)
{
	while (calls--)
		use((uint64_t)fastclock_recent(fast));
}

static struct reading {
	const char *name;
	void (*call)(uint64_t calls);
	uint64_t calls;
	double best;
} readings[] = {
	{ .name = "rdtsc", .call = rdtsc },
	{ .name = "lfence;rdtsc", .call = lfence_rdtsc },
	{ .name = "clock_gettime", .call = libc_gettime },
	{ .name = "fastclock_now_fast", .call = now_fast },
	{ .name = "fastclock_now", .call = now },
	{ .name = "fastclock_gettime", .call = gettime },
	{ .name = "fastclock_recent", .call = recent },
};

enum { READINGS = sizeof readings / sizeof readings[0], CHUNK_NS = 1000000 };

static uint64_t cpu_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t chunk_ns(const struct reading *one, uint64_t calls)
{
	uint64_t start;

	one->call(calls / 16 + 1);
	start = cpu_time();
	one->call(calls);
	return cpu_time() - start;
}

static uint64_t calls_for(const struct reading *one)
{
	for (uint64_t calls = 64;; calls *= 2) {
		uint64_t ns = chunk_ns(one, calls);

		if (ns >= CHUNK_NS / 4)
			return calls * CHUNK_NS / ns + 1;
	}
}

static void one_round(int round, int chunks)
{
	for (int i = 0; i < READINGS; i++)
		readings[i].best = 1e18;
	for (int chunk = 0; chunk < chunks; chunk++) {
		for (int place = 0; place < READINGS; place++) {
			struct reading *one = &readings[(place + chunk + round) % READINGS];
			double ns = (double)chunk_ns(one, one->calls) / (double)one->calls;

			if (ns < one->best)
				one->best = ns;
		}
	}
	for (int i = 0; i < READINGS; i++)
		printf("round %s %.4f\n", readings[i].name, readings[i].best);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5;
	int chunks = argc > 2 ? atoi(argv[2]) : 5;

	fast = fastclock_alone();
	if (!fast)
		return 1;
	fastclock_calibrate(fast, 1000000000);
	fastclock_refresh_recent(fast);
	for (int i = 0; i < READINGS; i++)
		readings[i].calls = calls_for(&readings[i]);
	for (int round = 0; round < rounds; round++)
		one_round(round, chunks);
	printf("status %s\n", fastclock_reason_text(fastclock_status(fast)));
	fastclock_free(fast);
	return 0;
}
