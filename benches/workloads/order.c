/* Whether threads see the vDSO's clock run backwards.
 *
 *   order THREADS READS SLEEP_MS
 *
 * The threads are pinned in turn to the CPUs there are. Each loads the latest time that any of them
 * published, reads CLOCK_MONOTONIC by the address of the vDSO's function, counts a reading below it, and
 * publishes the larger by compare-and-swap. READS are those of all threads together.
 * Output:  order READS BACKWARDS WORST_NS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vdso.h"

struct watcher {
	pthread_t thread;
	int cpu;
	uint64_t reads, backwards, worst;
};

static _Alignas(64) _Atomic uint64_t latest;

static uint64_t now_ns(void)
{
	struct timespec now;

	vdso_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *watch(void *argument)
{
	struct watcher *watcher = argument;
	uint64_t backwards = 0, worst = 0;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((size_t)watcher->cpu, &cpus);
	sched_setaffinity(0, sizeof cpus, &cpus);
	for (uint64_t i = 0; i < watcher->reads; i++) {
		uint64_t seen = atomic_load_explicit(&latest, memory_order_acquire);
		uint64_t now = now_ns();

		if (now < seen) {
			backwards++;
			if (seen - now > worst)
				worst = seen - now;
		}
		while (seen < now && !atomic_compare_exchange_weak(&latest, &seen, now))
			;
	}
	watcher->backwards = backwards;
	watcher->worst = worst;
	return NULL;
}

/* The i-th of the CPUs that this process may use, in turn. */
static int cpu_for(int i)
{
	cpu_set_t allowed;
	int skip;

	sched_getaffinity(0, sizeof allowed, &allowed);
	skip = i % CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((size_t)cpu, &allowed) && skip-- == 0)
			return cpu;
	return 0;
}

int main(int argc, char **argv)
{
	int threads = argc > 3 ? atoi(argv[1]) : 0;
	uint64_t reads = 0, backwards = 0, worst = 0;
	struct watcher *watchers;

	find_vdso();
	if (threads < 1 || !vdso_gettime) {
		fputs(threads < 1 ? "usage: order THREADS READS SLEEP_MS\n" : "order: no vDSO\n", stderr);
		return 2;
	}
	watchers = calloc((size_t)threads, sizeof *watchers);
	usleep((useconds_t)(strtoull(argv[3], NULL, 10) * 1000));
	for (int i = 0; i < threads; i++) {
		watchers[i].cpu = cpu_for(i);
		watchers[i].reads = strtoull(argv[2], NULL, 10) / (uint64_t)threads;
		pthread_create(&watchers[i].thread, NULL, watch, &watchers[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(watchers[i].thread, NULL);
		reads += watchers[i].reads;
		backwards += watchers[i].backwards;
		if (watchers[i].worst > worst)
			worst = watchers[i].worst;
	}
	printf("order %llu %llu %llu\n", (unsigned long long)reads, (unsigned long long)backwards,
	       (unsigned long long)worst);
	return 0;
}
