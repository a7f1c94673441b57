// The kernel's copy of a program's registers, for count.bpf.c.

struct thread_info {
	unsigned long flags;
} KERNEL;

struct pt_regs {
	u64 regs[31];
	s32 syscallno;
} KERNEL;

#define SIXTH_ARGUMENT(of) ((of)->regs[5])
#define CALL_NUMBER(of) ((of)->syscallno)
// TIF_32BIT in arch/arm64/include/asm/thread_info.h (Linux 6.18).
#define IS_32_BIT(task) ((task)->thread_info.flags & 1 << 22)
#define NR_GETPPID 173
