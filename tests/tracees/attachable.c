/* attachable [THREADS]: reads lines from standard input and answers each when it is done.
   "calls N": every thread makes N calls of clock_gettime(CLOCK_MONOTONIC) and of gettimeofday, then one
   of clock_gettime(CLOCK_REALTIME), clock_getres and getppid. "fork N": a child does that, alone.
   "exec PROGRAM": a child executes it. "end": ends with status 7. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t begin, end;
static long calls;
static volatile long sink;

static void make_calls(long n)
{
	struct timespec time;
	struct timeval day;

	for (long i = 0; i < n; i++) {
		clock_gettime(CLOCK_MONOTONIC, &time);
		sink += time.tv_nsec;
		gettimeofday(&day, NULL);
		sink += day.tv_usec;
		if (time.tv_sec == 0 && time.tv_nsec == 0)
			abort();
	}
	clock_gettime(CLOCK_REALTIME, &time);
	clock_getres(CLOCK_MONOTONIC, &time);
	if (time.tv_sec != 0 || time.tv_nsec < 1)
		abort();
	sink += getppid();
}

static void *work(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_barrier_wait(&begin);
		if (calls < 0)
			return NULL;
		make_calls(calls);
		pthread_barrier_wait(&end);
	}
}

static void all_call(long n)
{
	calls = n;
	pthread_barrier_wait(&begin);
	if (n < 0)
		return;
	make_calls(n);
	pthread_barrier_wait(&end);
}

static void child_calls(long n)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		make_calls(n);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		abort();
}

static void executes(const char *program)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	char line[4096];

	pthread_barrier_init(&begin, NULL, threads);
	pthread_barrier_init(&end, NULL, threads);
	for (int i = 1; i < threads; i++) {
		pthread_t thread;
		pthread_attr_t small;

		pthread_attr_init(&small);
		pthread_attr_setstacksize(&small, 64 << 10);
		if (pthread_create(&thread, &small, work, NULL))
			abort();
	}
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "calls ", 6))
			all_call(atol(line + 6));
		else if (!strncmp(line, "fork ", 5))
			child_calls(atol(line + 5));
		else if (!strncmp(line, "exec ", 5))
			executes(line + 5);
		else
			break;
		printf("done %s\n", line);
		fflush(stdout);
	}
	all_call(-1);
	return 7;
}
