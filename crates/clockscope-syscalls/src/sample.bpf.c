// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// Counts the locations of all CPUs at the ticks of a timer on each: inside the vDSO of the process, inside a system
// call that reads a clock, or elsewhere.
//
// One sample is one run of this program. Samples are added up in maps, by process and place, and not sent to user
// space. No process is stopped or changed.

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))

// Map declarations, as BTF: a number is the length of an array type.
#define NUMBER(name, value) int (*name)[value]
#define TYPE(name, type) type *name

// include/uapi/linux/bpf.h, enum bpf_map_type, BPF_F_*, BPF_ANY...
#define MAP_HASH 1
#define MAP_PERCPU_HASH 5
#define MAP_PERCPU_ARRAY 6
#define ONLY_NEW 1

// The part of the kernel's types that the program reads. Offsets come from the running kernel's BTF.
#define KERNEL __attribute__((preserve_access_index))

typedef struct {
	void *vdso;
} KERNEL mm_context_t;

struct mm_struct {
	mm_context_t context;
} KERNEL;

#include "sampled.bpf.h" // of the architecture

struct task_struct {
	struct thread_info thread_info;
	struct mm_struct *mm;
	struct task_struct *group_leader;
	char comm[16];
} KERNEL;

// include/uapi/linux/bpf.h, FN(...)
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) =
	(void *)2;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static u64 (*const current_cgroup_id)(void) = (void *)80;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static struct task_struct *(*const current_task)(void) = (void *)158;
static long (*const task_pt_regs)(struct task_struct *task) = (void *)175;

// Options; the loader sets them.
const volatile u32 own_process = 0; // its threads are counted apart: they measure the cost of a read
const volatile u32 image_bytes = 0; // of the vDSO

// Same values as in `sampling.rs`.
#define IN_VDSO 0	  // `at` is the offset
#define IN_VDSO_32 1	  // the same in the image of 32-bit processes
#define CALL_FROM_VDSO 2  // `at` is the number of the system call
#define CALL_DIRECTLY 3
#define USER 4
#define IN_KERNEL 5
#define NO_CLOCK 255

struct place {
	u32 process;
	u32 at;
	u32 where; // and in the second byte the clock's id, or NO_CLOCK
};

struct samples {
	u64 number;
	u64 time_ns; // sum of the timer periods
};

struct {
	NUMBER(type, MAP_PERCPU_HASH);
	NUMBER(max_entries, 65536); // the loader sets fewer if there are many CPUs
	TYPE(key, struct place);
	TYPE(value, struct samples);
} places SEC(".maps");

struct who {
	char comm[16];
	u64 cgroup;
};

// A process at its last sample.
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, struct who);
} processes SEC(".maps");

#define NOTE_SAMPLES 0
#define NOTE_LOST 1
struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, 2);
	TYPE(key, u32);
	TYPE(value, u64);
} notes SEC(".maps");

static inline __attribute__((always_inline)) void note(u32 which)
{
	u64 *value = map_lookup(&notes, &which);
	if (value)
		(*value)++;
}

static inline __attribute__((always_inline)) u32 clock_of(u64 id)
{
	return (id < NO_CLOCK ? (u32)id : NO_CLOCK) << 8;
}

static inline __attribute__((always_inline)) void find(struct place *place, struct sampled *context,
						       struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	u64 vdso = mm ? (u64)mm->context.vdso : 0;
	if (!vdso) {
		place->where = IN_KERNEL;
	} else if (IS_USER(context)) {
		u64 at = INSTRUCTION(context) - vdso;
		if (at >= image_bytes) {
			place->where = USER;
			return;
		}
		place->at = (u32)at;
		place->where = IS_32_BIT_CODE(context)
				       ? IN_VDSO_32 | NO_CLOCK << 8
				       : IN_VDSO | clock_of(FIRST_ARGUMENT(context));
	} else {
		struct pt_regs *user = (struct pt_regs *)task_pt_regs(task);
		long number = CALL_NUMBER(user);
		place->where = IN_KERNEL;
		if (IS_32_BIT(task) || !READS_CLOCK(number))
			return;
		u64 at = CALL_INSTRUCTION(user) - vdso;
		place->at = (u32)number;
		place->where = (at < image_bytes ? CALL_FROM_VDSO : CALL_DIRECTLY) |
			       (TAKES_CLOCK(number) ? clock_of(CALL_ARGUMENT(user))
						    : NO_CLOCK << 8);
	}
}

SEC("perf_event")
int sample(struct sampled *context)
{
	u64 ids = current_pid_tgid();
	u32 process = ids >> 32;
	struct place place = {.process = process == own_process ? (u32)ids : process};
	struct task_struct *task = current_task();
	struct samples *samples, first = {1, 0};
	u64 time_ns = context->sample_period;

	note(NOTE_SAMPLES);
	if (!process)
		return 0; // the idle task, if the kernel does not exclude it
	find(&place, context, task);
	samples = map_lookup(&places, &place);
	if (samples) {
		samples->number++;
		samples->time_ns += time_ns;
	} else {
		first.time_ns = time_ns;
		if (map_update(&places, &place, &first, ONLY_NEW))
			note(NOTE_LOST);
	}
	struct task_struct *leader = task->group_leader;
	struct who *who = map_lookup(&processes, &place.process), unknown = {};
	if (!who) {
		map_update(&processes, &place.process, &unknown, ONLY_NEW);
		who = map_lookup(&processes, &place.process);
	}
	if (who) {
		probe_read_kernel(who->comm, sizeof(who->comm), &leader->comm);
		who->cgroup = current_cgroup_id();
	}
	return 0;
}

const char license_text[] SEC("license") = "Dual MIT/GPL";
