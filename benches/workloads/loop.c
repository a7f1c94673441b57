/* Makes calls of one kind in short batches and says what each batch took. Start-up is in no batch.
 *
 *   loop KIND [--threads T] [--pin CPU] [--batches B] [--batch-us US | --batch-calls N]
 *             [--limit-ms MS] [--sleep-ms MS] [--exec PATH]
 *   loop idle
 *
 * Thread i runs on CPU + i. As `idle` it prints "ready" and the address of __vdso_clock_gettime, and waits for a line or
 * the end of its input.
 * With --sleep-ms it sleeps before its first call. After its batches it prints "calls N": every call of this kind that it made, calibration included.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "batches.h"
#include "calls.h"

static struct {
	const struct kind *kind;
	int threads, first_cpu, batches;
	uint64_t batch_ns, batch_calls, limit_ns, sleep_ms;
} options = { .threads = 1, .first_cpu = -1, .batches = 200, .batch_ns = 200000, .limit_ns = 2000000000 };

struct worker {
	int index, recorded;
	uint64_t total;
	struct batch *batches;
	pthread_t thread;
};

static pthread_barrier_t start;
static atomic_int finished;

static void pin(int index)
{
	cpu_set_t cpus;

	if (options.first_cpu < 0)
		return;
	CPU_ZERO(&cpus);
	CPU_SET((size_t)(options.first_cpu + index), &cpus);
	sched_setaffinity(0, sizeof cpus, &cpus);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	const struct kind *kind = options.kind;
	uint64_t calls = options.batch_calls;
	uint64_t end;

	pin(worker->index);
	pthread_barrier_wait(&start);
	if (calls == 0)
		calls = calibrated_calls(kind->stamp, kind->call, options.batch_ns, &worker->total);
	end = stamp_ns(kind->stamp) + options.limit_ns;
	while (worker->recorded < options.batches && stamp_ns(kind->stamp) < end) {
		worker->batches[worker->recorded++] = bracketed_batch(kind->stamp, kind->call, calls);
		worker->total += calls;
	}
	/* Keep the others company until all are done, so that each of their batches ran beside ours. */
	finished++;
	while (finished < options.threads) {
		kind->call(calls);
		worker->total += calls;
	}
	return NULL;
}

static void run_workers(void)
{
	struct worker *workers = calloc((size_t)options.threads, sizeof *workers);
	uint64_t total = 0;

	pthread_barrier_init(&start, NULL, (unsigned)options.threads);
	for (int i = 0; i < options.threads; i++) {
		workers[i].index = i;
		workers[i].batches = calloc((size_t)options.batches, sizeof(struct batch));
	}
	for (int i = 1; i < options.threads; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	work(&workers[0]);
	for (int i = 1; i < options.threads; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < options.threads; i++) {
		for (int j = 0; j < workers[i].recorded; j++)
			print_batch(i, &workers[i].batches[j]);
		total += workers[i].total;
	}
	printf("calls %llu\n", (unsigned long long)total);
}

static void wait_for_line(void)
{
	char byte;

	find_vdso();
	printf("ready %p\n", (void *)vdso_gettime);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
		;
}

static int usage(void)
{
	fputs("usage: loop KIND [--threads T] [--pin CPU] [--batches B] [--batch-us US | --batch-calls N]\n"
	      "            [--limit-ms MS] [--sleep-ms MS] [--exec PATH]\n",
	      stderr);
	return 2;
}

/* Reads the option at argv[i]; returns how many arguments it took, 0 if it is unknown. */
static int read_option(char **argv, int i, int argc)
{
	const char *name = argv[i];
	char *value = i + 1 < argc ? argv[i + 1] : NULL;

	if (!value)
		return 0;
	if (strcmp(name, "--threads") == 0)
		options.threads = atoi(value);
	else if (strcmp(name, "--pin") == 0)
		options.first_cpu = atoi(value);
	else if (strcmp(name, "--batches") == 0)
		options.batches = atoi(value);
	else if (strcmp(name, "--batch-us") == 0)
		options.batch_ns = strtoull(value, NULL, 10) * 1000;
	else if (strcmp(name, "--batch-calls") == 0)
		options.batch_calls = strtoull(value, NULL, 10);
	else if (strcmp(name, "--limit-ms") == 0)
		options.limit_ns = strtoull(value, NULL, 10) * 1000000;
	else if (strcmp(name, "--sleep-ms") == 0)
		options.sleep_ms = strtoull(value, NULL, 10);
	else if (strcmp(name, "--exec") == 0)
		exec_path = value;
	else
		return 0;
	return 2;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage();
	for (int i = 2, taken; i < argc; i += taken)
		if ((taken = read_option(argv, i, argc)) == 0)
			return usage();
	if (strcmp(argv[1], "idle") == 0) {
		wait_for_line();
		return 0;
	}
	options.kind = kind_named(argv[1]);
	if (!options.kind || options.threads < 1 || options.batches < 1)
		return usage();
	find_vdso();
	usleep((useconds_t)(options.sleep_ms * 1000));
	run_workers();
	return 0;
}
