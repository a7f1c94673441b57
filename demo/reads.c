// Reads CLOCK_MONOTONIC as often as told and prints what one read took.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(const struct timespec *t)
{
	return (double)t->tv_sec + (double)t->tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	long reads = argc > 1 ? atol(argv[1]) : 0;
	struct timespec first, now;

	if (reads < 1) {
		fprintf(stderr, "usage: reads COUNT\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &first);
	for (long i = 0; i < reads; i++)
		clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%ld reads of CLOCK_MONOTONIC, %.1f ns each\n", reads,
	       (seconds(&now) - seconds(&first)) / (double)reads * 1e9);
	return 0;
}
