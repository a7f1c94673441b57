/* What a call costs, by two ways that are not clockscope's:
 *
 *   agreement loop     batches of about 200 us in a plain loop; the cheapest batch
 *   agreement count    calls made until a timer's signal sets a flag, 2 ms each time; the most
 *
 * Output, one line a path:  NAME NANOSECONDS_PER_CALL
 */
#include "paths.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

enum { BATCHES = 1000, INTERVALS = 400, INTERVAL_US = 2000 };
static const uint64_t BATCH_NS = 200000;

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void start_timer(void)
{
	struct itimerval once = { .it_value = { .tv_usec = INTERVAL_US } };

	stopped = 0;
	setitimer(ITIMER_REAL, &once, NULL);
}

#define DEFINE(name, call)                                      \
	static void loop_##name(uint64_t calls)                 \
	{                                                       \
		clock_function vdso = by_vdso;                  \
		struct timespec now;                            \
		(void)vdso, (void)now;                          \
		while (calls--)                                 \
			call;                                   \
	}                                                       \
	static uint64_t count_##name(void)                      \
	{                                                       \
		clock_function vdso = by_vdso;                  \
		struct timespec now;                            \
		uint64_t calls = 0;                             \
		(void)vdso, (void)now;                          \
		while (!stopped) {                              \
			call;                                   \
			calls++;                                \
		}                                               \
		return calls;                                   \
	}
PATHS(DEFINE)

static const struct path {
	const char *name;
	void (*loop)(uint64_t calls);
	uint64_t (*count)(void);
} paths[] = {
#define ROW(name, call) { #name, loop_##name, count_##name },
	PATHS(ROW)
};

static uint64_t batch_ns(const struct path *path, uint64_t calls)
{
	uint64_t start = now_ns();

	path->loop(calls);
	return now_ns() - start;
}

static double cheapest_batch(const struct path *path)
{
	uint64_t calls = 1, best = UINT64_MAX;

	while (batch_ns(path, calls) < BATCH_NS)
		calls *= 2;
	for (int i = 0; i < BATCHES; i++) {
		uint64_t ns = batch_ns(path, calls);

		if (ns < best)
			best = ns;
	}
	return (double)best / (double)calls;
}

static double most_calls(const struct path *path)
{
	double best = 1e18;

	for (int i = 0; i < INTERVALS; i++) {
		uint64_t start, calls;
		double each;

		start_timer();
		start = now_ns();
		calls = path->count();
		each = (double)(now_ns() - start) / (double)calls;
		if (each < best)
			best = each;
	}
	return best;
}

int main(int argc, char **argv)
{
	int count = argc == 2 && strcmp(argv[1], "count") == 0;

	if (argc != 2 || (!count && strcmp(argv[1], "loop") != 0)) {
		fprintf(stderr, "usage: agreement loop|count\n");
		return 2;
	}
	by_vdso = vdso_clock_gettime();
	signal(SIGALRM, stop);
	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
		if (strstr(paths[i].name, "vdso") && !by_vdso)
			continue;
		printf("%s %.4f\n", paths[i].name,
		       count ? most_calls(&paths[i]) : cheapest_batch(&paths[i]));
	}
	return 0;
}
