/* Batches of calls, timed and bracketed by a control loop.
 *
 * A batch is N calls between two time stamps, with a control loop of pure user code just before and just
 * after it. A batch whose control loops ran slow was disturbed; the reader of the output drops it.
 *
 * Output, one line a batch:  batch THREAD CALLS NS CONTROL_BEFORE_NS CONTROL_AFTER_NS
 */
#ifndef BATCHES_H
#define BATCHES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct batch {
	uint64_t calls, ns, control_before_ns, control_after_ns;
};

/* Makes `calls` calls. */
typedef void (*calls_function)(uint64_t calls);

/* Time stamps must not be of the kind that is measured: loops of vDSO calls take them by system call,
 * loops of system calls through the vDSO. */
struct stamp {
	int by_syscall;
};

static uint64_t stamp_ns(struct stamp how)
{
	struct timespec now;

	if (how.by_syscall)
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	else
		clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Time of a fixed chain of multiplications: the same on an undisturbed CPU, always. */
static uint64_t control_ns(struct stamp how)
{
	static _Thread_local volatile uint64_t sink;
	uint64_t value = sink + 1;
	uint64_t start;

	/* The calls before may have emptied the caches: the first stamp is not counted. */
	stamp_ns(how);
	start = stamp_ns(how);
	for (int i = 0; i < 10000; i++)
		value = value * 6364136223846793005u + 1442695040888963407u;
	sink = value;
	return stamp_ns(how) - start;
}

static uint64_t timed_calls(struct stamp how, calls_function call, uint64_t calls)
{
	uint64_t start = stamp_ns(how);

	call(calls);
	return stamp_ns(how) - start;
}

static struct batch bracketed_batch(struct stamp how, calls_function call, uint64_t calls)
{
	struct batch batch = { .calls = calls };

	batch.control_before_ns = control_ns(how);
	batch.ns = timed_calls(how, call, calls);
	batch.control_after_ns = control_ns(how);
	return batch;
}

/* Doubles the number of calls until a batch takes `batch_ns`; adds the calls made to `*total`. */
static uint64_t calibrated_calls(struct stamp how, calls_function call, uint64_t batch_ns, uint64_t *total)
{
	uint64_t calls = 1;

	for (;;) {
		uint64_t ns = timed_calls(how, call, calls);

		*total += calls;
		if (ns >= batch_ns)
			return calls;
		calls *= 2;
	}
}

static void print_batch(int thread, const struct batch *batch)
{
	printf("batch %d %llu %llu %llu %llu\n", thread, (unsigned long long)batch->calls,
	       (unsigned long long)batch->ns, (unsigned long long)batch->control_before_ns,
	       (unsigned long long)batch->control_after_ns);
}

#endif
