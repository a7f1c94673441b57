/* Threads that wait and read the clock, for somebody to attach to.
 *
 *   attached THREADS [idle]
 *
 * All but one thread wake every 5 ms and read the clock 100 times. One looks at the counter of the CPU
 * without pause and notes the largest gap between two looks. "ready" is printed when all run; at each
 * line of input the largest gap since the line before is printed, in microseconds; at the end of
 * the input all leave. With "idle" all threads wait for ever instead.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int running;
static atomic_int leaving;
static atomic_ullong largest;

/* The CPU's counter. */
static inline unsigned long long ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	unsigned long long now;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
	return now;
#endif
}

static void *read_and_wait(void *unused)
{
	struct timespec now, pause = { 0, 5000000 };

	atomic_fetch_add(&running, 1);
	while (!atomic_load(&leaving)) {
		for (int i = 0; i < 100; i++)
			clock_gettime(CLOCK_MONOTONIC, &now);
		nanosleep(&pause, NULL);
	}
	return unused;
}

static void *wait_for_ever(void *unused)
{
	atomic_fetch_add(&running, 1);
	for (;;)
		pause();
	return unused;
}

static void *look_for_gaps(void *unused)
{
	unsigned long long last = ticks();

	atomic_fetch_add(&running, 1);
	while (!atomic_load(&leaving)) {
		unsigned long long now = ticks();

		if (now - last > atomic_load(&largest))
			atomic_store(&largest, now - last);
		last = now;
	}
	return unused;
}

/* Ticks in a microsecond, over 20 ms. */
static double rate(void)
{
	struct timespec start, now;
	unsigned long long first, last;
	double us;

	clock_gettime(CLOCK_MONOTONIC_RAW, &start);
	first = ticks();
	do {
		clock_gettime(CLOCK_MONOTONIC_RAW, &now);
		last = ticks();
		us = (now.tv_sec - start.tv_sec) * 1e6 + (now.tv_nsec - start.tv_nsec) / 1e3;
	} while (us < 20000);
	return (last - first) / us;
}

int main(int argc, char **argv)
{
	int is_idle = argc == 3 && strcmp(argv[2], "idle") == 0;
	int threads = argc == 2 || is_idle ? atoi(argv[1]) : 0;
	double in_us = rate();
	pthread_attr_t small;
	pthread_t thread;
	int byte;

	if (threads < 2)
		return 2;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	/* The first thread is one of them: it waits for input. */
	for (int i = 1; i < threads; i++) {
		void *(*work)(void *) = i == 1 ? look_for_gaps : read_and_wait;

		if (pthread_create(&thread, &small, is_idle ? wait_for_ever : work, NULL))
			return 3;
	}
	while (atomic_load(&running) < threads - 1)
		;
	puts("ready");
	fflush(stdout);
	while ((byte = getchar()) != EOF) {
		if (byte != '\n')
			continue;
		printf("gap %.1f us\n", atomic_exchange(&largest, 0) / in_us);
		fflush(stdout);
	}
	atomic_store(&leaving, 1);
	return 0;
}
