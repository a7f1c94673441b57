// Layout of a CPU's sample and of the kernel's copy of a program's registers, for sample.bpf.c.

// struct user_pt_regs in arch/arm64/include/uapi/asm/ptrace.h (Linux 6.18)
struct sampled {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
	u64 sample_period;
	u64 address;
};

struct thread_info {
	unsigned long flags;
} KERNEL;

struct pt_regs {
	u64 regs[31];
	u64 pc;
	s32 syscallno;
} KERNEL;

// PSR_MODE_MASK without the bit of 32-bit code: EL0
#define IS_USER(context) (((context)->pstate & 0xf) == 0)
// PSR_MODE32_BIT
#define IS_32_BIT_CODE(context) ((context)->pstate & 0x10)
#define INSTRUCTION(context) ((context)->pc)
#define FIRST_ARGUMENT(context) ((context)->regs[0])
#define CALL_NUMBER(registers) ((registers)->syscallno)
#define CALL_INSTRUCTION(registers) ((registers)->pc)
#define CALL_ARGUMENT(registers) ((registers)->regs[0])
// TIF_32BIT in arch/arm64/include/asm/thread_info.h (Linux 6.18).
#define IS_32_BIT(task) ((task)->thread_info.flags & 1 << 22)
// clock_gettime, gettimeofday
#define READS_CLOCK(number) ((number) == 113 || (number) == 169)
#define TAKES_CLOCK(number) ((number) == 113)
