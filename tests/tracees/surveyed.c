/* surveyed KIND: reads a clock without a pause, and answers each line of standard input with the number of its reads
   so far and the nanoseconds since its start. KIND: monotonic, realtime, day (gettimeofday), coarse, cpu, syscall.
   The clock of the answers is read by a system call of its own, 1 in 4,096 reads. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long now(void)
{
	struct timespec time;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int read_clock(const char *kind, long calls)
{
	struct timespec time;
	struct timeval day;

	if (!strcmp(kind, "day"))
		for (long i = 0; i < calls; i++)
			gettimeofday(&day, NULL);
	else if (!strcmp(kind, "syscall"))
		for (long i = 0; i < calls; i++)
			syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
	else if (!strcmp(kind, "monotonic"))
		for (long i = 0; i < calls; i++)
			clock_gettime(CLOCK_MONOTONIC, &time);
	else if (!strcmp(kind, "realtime"))
		for (long i = 0; i < calls; i++)
			clock_gettime(CLOCK_REALTIME, &time);
	else if (!strcmp(kind, "coarse"))
		for (long i = 0; i < calls; i++)
			clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
	else if (!strcmp(kind, "cpu"))
		for (long i = 0; i < calls; i++)
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	else
		return 0;
	return 1;
}

int main(int count, char **words)
{
	long calls = 0, start = now();
	char line[64];

	if (count != 2)
		return 2;
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct pollfd input = {.fd = 0, .events = POLLIN};

		if (!read_clock(words[1], 4096))
			return 2;
		calls += 4096;
		if (poll(&input, 1, 0) != 1)
			continue;
		if (read(0, line, sizeof line) <= 0)
			return 0;
		printf("%ld %ld\n", calls, now() - start);
		fflush(stdout);
	}
}
