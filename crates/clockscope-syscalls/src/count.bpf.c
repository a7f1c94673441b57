// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// Counts the system calls of followed threads, in the kernel.
//
// A followed thread has a `struct thread`, found by its number. Threads that it starts are followed from before their
// first instruction. For all other threads a probe ends after one failed comparison. Counts are added up in maps and
// not sent to user space, so no call is lost on the way.
//
// Each probe exists twice, and the loader attaches one of them. `tp_btf`, the cheaper one, is attached to the
// tracepoint itself. From Linux 7.0 on, a thread may be preempted inside it, and the kernel skips a probe that is
// already running on a CPU: calls of other threads there would not be counted. On these kernels the loader attaches the
// perf event's probe.
//
// The attached probes run with preemption off and are never nested on a CPU, so rows of one CPU need no atomic
// operations. Rows shared by CPUs (of a breakdown) do.
//
// The loader sets the constants below `options`; the kernel then removes the code that they disable.

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// Map declarations, as BTF: a number is the length of an array type.
#define NUMBER(name, value) int (*name)[value]
#define TYPE(name, type) type *name

// include/uapi/linux/bpf.h, enum bpf_map_type, BPF_F_*, BPF_ANY...
#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP_PERCPU_HASH 5
#define ONLY_NEW 1
#define MAPPABLE 1024

// The part of the kernel's types that the probes read. Offsets come from the running kernel's BTF.
#define KERNEL __attribute__((preserve_access_index))

struct upid {
	int nr;
	void *ns;
} KERNEL;

struct pid {
	unsigned int level;
	struct upid numbers[1];
} KERNEL;

#include "registers.bpf.h" // of the architecture

struct task_struct {
	struct thread_info thread_info;
	int pid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
} KERNEL;

struct bpf_iter__task {
	struct task_struct *task;
} KERNEL;

// Arguments of the perf events' probes.
struct trace_event_raw_sys_enter {
	long id;
	unsigned long args[6];
} KERNEL;

struct trace_event_raw_sys_exit {
	long ret;
} KERNEL;

struct trace_event_raw_sched_process_fork {
	int child_pid;
} KERNEL;

struct trace_event_raw_sched_process_exec {
	int pid;
	int old_pid;
} KERNEL;

// include/uapi/linux/bpf.h, FN(...)
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) =
	(void *)2;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u32 (*const this_cpu)(void) = (void *)8;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static struct task_struct *(*const current_task)(void) = (void *)158;
static struct pt_regs *(*const task_registers)(struct task_struct *task) = (void *)175;

// Options; the loader sets them.
const volatile u8 timed = 0;	 // sys_exit is attached: time and errors
const volatile u8 latency = 0;	 // keep a distribution
const volatile u8 breakdown = 0; // 0 one table, 1 by process, 2 by thread
const volatile u8 filtered = 0;	 // count only the calls in `wanted`
const volatile u64 mark = 0;	 // sixth argument of calls that clockscope makes inside the program
const volatile u64 wanted[16];	 // bitmap by slot
const volatile u32 thread_mask = 0; // the bits of a thread's number that index `threads`

// The table of a call number; `abi` of a row.
#define ABI_NATIVE 0
#define ABI_IA32 1
#define ABI_CALIBRATION 2 // calls of getppid by which clockscope measures the probe

// Slots of `totals`: 512 numbers of each ABI, then these:
#define NUMBERS 512
#define SLOT_CALIBRATION 1024
#define SLOT_OVERFLOW 1025 // + abi: numbers outside the table for which `rows` was full
#define SLOTS 1027
#define SLOT_ODD 0xfffffff0u	 // a number outside the table: kept in `rows`
#define SLOT_NONE 0xffffffffu	 // no call in progress
#define SLOT_FRESH 0xfffffffeu	 // followed during a call, which is not counted
#define SLOT_IGNORED 0xfffffffdu // the call in progress is not to be counted; calls with lower slots are

struct thread {
	u64 start_ns; // start of the call in progress
	u32 pid;      // thread number in the first pid namespace; 0 for none
	u32 slot;     // of the call in progress, or why there is none
	u32 number;
	u32 tgid;	// in the tracer's pid namespace; 0 without a breakdown
	u32 tid;	// the same
	u8 abi;		// of the call in progress
	u8 named;	// tgid and tid are valid
	u8 calibrating; // this thread is the tracer's own
	u8 pad;
};

struct row_key {
	u32 tgid;
	u32 tid;
	u32 number;
	u32 abi;
};

struct bucket_key {
	struct row_key row;
	u32 bucket;
};

struct counts {
	u64 calls;
	u64 returns;
	u64 errors;
	u64 time_ns;
	u64 max_ns;
	u64 pad[3]; // a cache line
};

// Followed threads, by the low bits of their number. Two followed threads with the same low bits are rare: the second
// one is kept in `spilled_threads`, which the probes skip while it is empty.
struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1); // the loader sets thread_mask + 1
	TYPE(key, u32);
	TYPE(value, struct thread);
} threads SEC(".maps");

struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, struct thread);
} spilled_threads SEC(".maps");

u64 spilled = 0; // length of spilled_threads

// SLOTS for each CPU, in memory that the reader maps. If the reader used bpf(2) instead and were preempted in it, the
// kernel would skip the perf events' probes on that CPU.
struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, SLOTS); // the loader sets the number for all CPUs
	NUMBER(map_flags, MAPPABLE);
	TYPE(key, u32);
	TYPE(value, struct counts);
} totals SEC(".maps");

// The loader sets max_entries of the next two.
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 1);
	TYPE(key, struct row_key);
	TYPE(value, struct counts);
} rows SEC(".maps");

struct {
	NUMBER(type, MAP_PERCPU_HASH);
	NUMBER(max_entries, 1);
	TYPE(key, struct bucket_key);
	TYPE(value, u64);
} buckets SEC(".maps");

#define NOTE_LEVEL 0	 // depth of the tracer's pid namespace
#define NOTE_NAMESPACE 1 // its address, which identifies it
#define NOTE_WANTED 2	 // process that `follow_process` follows, in that namespace
#define NOTE_FOUND 3	 // threads found in that process
#define NOTE_THREADS 4	 // threads that could not be followed
#define NOTE_BUCKETS 5	 // calls that are missing in the distributions
#define NOTE_ROWS 6	 // calls that are missing in the breakdown (they are in `totals`)
#define NOTES 7

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, NOTES);
	TYPE(key, u32);
	TYPE(value, u64);
} notes SEC(".maps");

const struct counts no_counts = {};
const u64 no_calls = 0;

// Reads a field through a pointer that is followed once or rarely. A direct access to a structure costs a millisecond
// at load, because the verifier looks for the names among all of the kernel's types.
#define FIELD(from, member)                                                                        \
	({                                                                                         \
		__typeof__((from)->member) value = 0;                                              \
		probe_read_kernel(&value, sizeof(value), &(from)->member);                         \
		value;                                                                             \
	})

INLINE void note(u32 which)
{
	u64 *value = map_lookup(&notes, &which);

	if (value)
		__sync_fetch_and_add(value, 1);
}

INLINE void set_note(u32 which, u64 value)
{
	map_update(&notes, &which, &value, 0);
}

INLINE u64 noted(u32 which)
{
	u64 *value = map_lookup(&notes, &which);

	return value ? *value : 0;
}

// The state of thread `pid` if it is followed. For other threads a probe does no more than this lookup.
INLINE struct thread *find(u32 pid)
{
	u32 at = pid & thread_mask;
	struct thread *thread = map_lookup(&threads, &at);

	if (LIKELY(thread && thread->pid == pid))
		return thread;
	if (LIKELY(!spilled))
		return 0;
	return map_lookup(&spilled_threads, &pid);
}

INLINE struct thread *follow(u32 pid)
{
	u32 at = pid & thread_mask;
	struct thread *thread = map_lookup(&threads, &at);
	struct thread fresh = {.pid = pid, .slot = SLOT_FRESH};
	u32 old_pid;

	if (!thread)
		return 0;
	old_pid = __sync_val_compare_and_swap(&thread->pid, 0, pid);
	if (!old_pid || old_pid == pid) {
		*thread = fresh;
		return thread;
	}
	if (map_update(&spilled_threads, &pid, &fresh, 0)) {
		note(NOTE_THREADS);
		return 0;
	}
	__sync_fetch_and_add(&spilled, 1);
	return map_lookup(&spilled_threads, &pid);
}

INLINE void leave(struct thread *thread, u32 pid)
{
	u32 at = pid & thread_mask;

	if (thread == map_lookup(&threads, &at))
		thread->pid = 0;
	else if (!map_delete(&spilled_threads, &pid))
		__sync_fetch_and_add(&spilled, (u64)-1);
}

// The number of a task in the tracer's pid namespace; 0 if it has none there.
INLINE u32 number_in_namespace(struct task_struct *task)
{
	struct pid *pid = FIELD(task, thread_pid);
	u32 level = noted(NOTE_LEVEL);
	struct {
		int nr;
		u64 ns;
	} upid = {};

	if (!pid || FIELD(pid, level) < level)
		return 0;
	probe_read_kernel(&upid, sizeof(upid), (char *)&pid->numbers[0] + level * sizeof(upid));
	return upid.ns == noted(NOTE_NAMESPACE) ? upid.nr : 0;
}

INLINE void name(struct thread *thread, struct task_struct *task)
{
	thread->tgid = number_in_namespace(FIELD(task, group_leader));
	if (breakdown == 2)
		thread->tid = number_in_namespace(task);
	thread->named = 1;
}

INLINE struct counts *shared_row(struct thread *thread)
{
	struct row_key key = {
		.tgid = thread->tgid,
		.tid = thread->tid,
		.number = thread->number,
		.abi = thread->abi,
	};
	struct counts *row = map_lookup(&rows, &key);

	if (LIKELY(row))
		return row;
	map_update(&rows, &key, &no_counts, ONLY_NEW);
	return map_lookup(&rows, &key);
}

INLINE struct counts *total(struct thread *thread)
{
	u32 slot = LIKELY(thread->slot < SLOTS) ? thread->slot : SLOT_OVERFLOW + (thread->abi & 1);
	u32 at = this_cpu() * SLOTS + slot;

	return map_lookup(&totals, &at);
}

INLINE void count_call(struct thread *thread)
{
	struct counts *row;

	if (breakdown || UNLIKELY(thread->slot == SLOT_ODD)) {
		row = shared_row(thread);
		if (LIKELY(row)) {
			__sync_fetch_and_add(&row->calls, 1);
			return;
		}
		note(NOTE_ROWS);
	}
	row = total(thread);
	if (LIKELY(row))
		row->calls += 1;
}

INLINE void raise_max(u64 *max_ns, u64 ns)
{
	u64 seen = *max_ns;

#pragma unroll
	for (int i = 0; i < 8; i++) {
		if (ns <= seen)
			return;
		u64 old = __sync_val_compare_and_swap(max_ns, seen, ns);
		if (old == seen)
			return;
		seen = old;
	}
}

INLINE void count_return(struct thread *thread, u64 ns, u8 has_time, u8 failed)
{
	struct counts *row;

	if (breakdown || UNLIKELY(thread->slot == SLOT_ODD)) {
		row = shared_row(thread);
		if (LIKELY(row)) {
			if (failed)
				__sync_fetch_and_add(&row->errors, 1);
			if (!has_time)
				return;
			__sync_fetch_and_add(&row->returns, 1);
			__sync_fetch_and_add(&row->time_ns, ns);
			if (latency)
				raise_max(&row->max_ns, ns);
			return;
		}
	}
	row = total(thread);
	if (UNLIKELY(!row))
		return;
	if (failed)
		row->errors += 1;
	if (!has_time)
		return;
	row->returns += 1;
	row->time_ns += ns;
	if (latency && ns > row->max_ns)
		row->max_ns = ns;
}

// Log-linear: 16 buckets for each power of two; clockscope-stats/src/histogram.rs has the inverse.
INLINE u32 bucket_of(u64 ns)
{
	u64 v = ns;
	u32 log2 = 0;

	if (ns < 16)
		return ns;
	if (v >> 32) {
		v >>= 32;
		log2 += 32;
	}
	if (v >> 16) {
		v >>= 16;
		log2 += 16;
	}
	if (v >> 8) {
		v >>= 8;
		log2 += 8;
	}
	if (v >> 4) {
		v >>= 4;
		log2 += 4;
	}
	if (v >> 2) {
		v >>= 2;
		log2 += 2;
	}
	log2 += v >> 1;
	return (log2 - 3) * 16 + ((ns >> (log2 - 4)) & 15);
}

INLINE void count_bucket(struct thread *thread, u64 ns)
{
	struct bucket_key key = {
		.row = {
			.tgid = thread->tgid,
			.tid = thread->tid,
			.number = thread->number,
			.abi = thread->abi,
		},
		.bucket = bucket_of(ns),
	};
	u64 *calls = map_lookup(&buckets, &key);

	if (UNLIKELY(!calls)) {
		map_update(&buckets, &key, &no_calls, ONLY_NEW); // another CPU may be first
		calls = map_lookup(&buckets, &key);
	}
	if (LIKELY(calls))
		*calls += 1;
	else
		note(NOTE_BUCKETS);
}

// Stores the call that begins. Returns whether it is to be counted.
INLINE u8 begin(struct thread *thread, struct task_struct *task, u32 number, u64 sixth_argument)
{
	u32 abi = IS_32_BIT(task) ? ABI_IA32 : ABI_NATIVE;
	u32 slot = SLOT_ODD;

	if (UNLIKELY(sixth_argument == mark))
		goto ignored;
	if (LIKELY(number < NUMBERS))
		slot = abi * NUMBERS + number;
	if (UNLIKELY(thread->calibrating)) {
		if (number != NR_GETPPID)
			goto ignored;
		abi = ABI_CALIBRATION;
		slot = SLOT_CALIBRATION;
	} else if (filtered) {
		if (slot == SLOT_ODD || !(wanted[(slot >> 6) & 15] >> (slot & 63) & 1))
			goto ignored;
	}
	if (breakdown && UNLIKELY(!thread->named))
		name(thread, task);
	thread->slot = slot;
	thread->number = number;
	thread->abi = abi;
	return 1;
ignored:
	thread->slot = SLOT_IGNORED;
	return 0;
}

INLINE void enters(struct thread *thread, struct task_struct *task, u32 number, u64 sixth_argument)
{
	if (!begin(thread, task, number, sixth_argument))
		return;
	count_call(thread);
	if (timed)
		thread->start_ns = ktime_get_ns();
}

// `from_event` is a constant: programs on tracepoints must not call task_registers(), which is new in Linux 5.15.
INLINE void exits(struct thread *thread, struct task_struct *task, u64 *ctx, u8 from_event, u64 result)
{
	u64 now_ns = ktime_get_ns();
	u8 failed = result >= (u64)-4095;
	u32 slot = thread->slot;

	if (LIKELY(slot < SLOT_IGNORED)) {
		u64 ns = now_ns - thread->start_ns;

		count_return(thread, ns, 1, failed);
		if (latency)
			count_bucket(thread, ns);
	} else if (slot == SLOT_NONE) {
		// Refused before sys_enter, by a seccomp filter or a tracer: counted without a time.
		struct pt_regs *regs = from_event ? task_registers(task) : (struct pt_regs *)ctx[0];

		if (begin(thread, task, CALL_NUMBER(regs), SIXTH_ARGUMENT(regs))) {
			count_call(thread);
			count_return(thread, 0, 0, failed);
		}
	}
	thread->slot = SLOT_NONE;
}

INLINE void born(u32 pid)
{
	struct thread *parent = find(current_task()->pid);

	if (UNLIKELY(parent) && !parent->calibrating)
		follow(pid);
}

INLINE void ends(void)
{
	u32 pid = current_task()->pid;
	struct thread *thread = find(pid);

	if (UNLIKELY(thread))
		leave(thread, pid);
}

// A thread that executes a program takes the number of its process, whose first thread has ended.
INLINE void executes(u32 pid, u32 old_pid)
{
	struct thread *thread, *old;

	if (LIKELY(pid == old_pid))
		return;
	old = find(old_pid);
	if (!old)
		return;
	thread = follow(pid);
	if (thread) {
		*thread = *old;
		thread->pid = pid;
		thread->named = 0;
	}
	leave(old, old_pid);
}

SEC("tp_btf/sys_enter")
int sys_enter(u64 *ctx)
{
	struct task_struct *task = current_task();
	struct thread *thread = find(task->pid);

	if (UNLIKELY(thread))
		enters(thread, task, ctx[1], SIXTH_ARGUMENT((struct pt_regs *)ctx[0]));
	return 0;
}

SEC("tracepoint/raw_syscalls/sys_enter")
int on_sys_enter(struct trace_event_raw_sys_enter *event)
{
	struct task_struct *task = current_task();
	struct thread *thread = find(task->pid);

	if (UNLIKELY(thread))
		enters(thread, task, event->id, event->args[5]);
	return 0;
}

SEC("tp_btf/sys_exit")
int sys_exit(u64 *ctx)
{
	struct task_struct *task = current_task();
	struct thread *thread = find(task->pid);

	if (UNLIKELY(thread))
		exits(thread, task, ctx, 0, ctx[1]);
	return 0;
}

SEC("tracepoint/raw_syscalls/sys_exit")
int on_sys_exit(struct trace_event_raw_sys_exit *event)
{
	struct task_struct *task = current_task();
	struct thread *thread = find(task->pid);

	if (UNLIKELY(thread))
		exits(thread, task, 0, 1, event->ret);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int sched_process_fork(u64 *ctx)
{
	born(((struct task_struct *)ctx[1])->pid);
	return 0;
}

SEC("tracepoint/sched/sched_process_fork")
int on_sched_process_fork(struct trace_event_raw_sched_process_fork *event)
{
	born(event->child_pid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int sched_process_exec(u64 *ctx)
{
	executes(((struct task_struct *)ctx[0])->pid, ctx[1]);
	return 0;
}

SEC("tracepoint/sched/sched_process_exec")
int on_sched_process_exec(struct trace_event_raw_sched_process_exec *event)
{
	executes(event->pid, event->old_pid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int sched_process_exit(void)
{
	ends();
	return 0;
}

SEC("tracepoint/sched/sched_process_exit")
int on_sched_process_exit(void)
{
	ends();
	return 0;
}

// Iterator that the loader runs: follows every thread of the process in NOTE_WANTED.
SEC("iter/task")
int follow_process(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task)
		return 0;
	if (number_in_namespace(FIELD(task, group_leader)) != noted(NOTE_WANTED))
		return 0;
	if (find(task->pid) || follow(task->pid))
		note(NOTE_FOUND);
	return 0;
}

// Never attached: the loader runs it in its own thread. 1 follows that thread for calibration, 0 stops following it.
SEC("raw_tp/sys_enter")
int follow_self(u64 *ctx)
{
	struct task_struct *task = current_task();
	struct pid *pid = FIELD(task, thread_pid);
	struct thread *thread;
	u64 level, namespace = 0;

	if (!pid)
		return -1;
	level = FIELD(pid, level);
	probe_read_kernel(&namespace, sizeof(namespace),
			  (char *)&pid->numbers[0].ns + level * sizeof(struct upid));
	set_note(NOTE_LEVEL, level);
	set_note(NOTE_NAMESPACE, namespace);
	if (ctx[0] == 0) {
		thread = find(task->pid);
		if (thread)
			leave(thread, task->pid);
		return 0;
	}
	thread = follow(task->pid);
	if (!thread)
		return -1;
	thread->calibrating = 1;
	return 0;
}

const char license_text[] SEC("license") = "Dual MIT/GPL";
