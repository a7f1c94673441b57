// Code that a search for system calls may misjudge. `site_shapes labels` continues coroutines at labels whose addresses
// are data (GNU C's labels as values); one label stands between a number and its call. `site_shapes constant` copies a
// constant that looks like code into memory, and executes it. `site_shapes table` jumps by a sum to one of two calls.
// `site_shapes waits` makes calls by a function that is given the number, as glibc since 2.41 makes calls that wait.
// `site_shapes pointer` calls such a function by its address, too, and `site_shapes resumed` jumps to the address of a
// call in another function; instructions hold both addresses. `site_shapes memfd`, `shm` and `pkey` copy the constant
// to memory that is made executable in unusual ways.
//
// Exact: only this program calls getppid.
#define _GNU_SOURCE
#include "say.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#define CALL(result, number) \
    __asm__ volatile("syscall" : "=a"(result) : "0"((long)(number)) : "rcx", "r11", "memory")

struct coroutine {
    void *resumed;
    long calls;
    int number;
};

__attribute__((noinline)) static long step(struct coroutine *it)
{
    long result = 0;
    if (it->resumed) goto *it->resumed;
    it->resumed = &&first;
first:
    CALL(result, it->number);
    if (++it->calls == 500) it->resumed = &&second;
    return result;
second:
    CALL(result, SYS_getppid);
    it->calls++;
    return result;
}

static const struct { unsigned char before[160], code[8], after[160]; } constant = {
    .code = {0xb8, SYS_getppid, 0, 0, 0, 0x0f, 0x05, 0xc3},
};

// The number is loaded in front of the call, and a sum leads to either.
long by_sum(long which);
__asm__(".text\n.globl by_sum\n.type by_sum, @function\nby_sum:\n"
        "  lea 1f(%rip), %rdx\n  lea (%rdx,%rdi,8), %rdx\n  mov $39, %eax\n  jmp *%rdx\n"
        ".p2align 3\n1: mov $110, %eax\n  nop\n  nop\n  nop\n  syscall\n  ret\n"
        ".size by_sum, . - by_sum\n");

// The state, the number and six arguments, two of them on the stack.
typedef long calls(const int *state, long number, long a, long b, long c, long d, long e, long f);
calls given, given_too, called;
#define MAKES_CALLS(name)                                                                                              \
    ".globl " name "\n.hidden " name "\n.type " name ", @function\n" name ":\n  mov (%rdi), %eax\n"                    \
    "  testb $8, (%rdi)\n  jne gone\n  mov %rdi, %r11\n  mov %rsi, %rax\n  mov %rdx, %rdi\n  mov %rcx, %rsi\n"         \
    "  mov %r8, %rdx\n  mov %r9, %r10\n  mov 8(%rsp), %r8\n  mov 16(%rsp), %r9\n  mov %r11, 8(%rsp)\n  syscall\n"      \
    "  ret\n.size " name ", . - " name "\n"
#define GIVES(name, to)                                                                                                \
    "  push 16(%rsp)\n  push 16(%rsp)\n  call " to "\n  add $16, %rsp\n  ret\n.size " name ", . - " name "\n"
__asm__(".text\n.type gone, @function\ngone:\n  ud2\n.size gone, . - gone\n"
        MAKES_CALLS("makes") MAKES_CALLS("called")
        // As a handler of signals does that asks whether a thread is in that function.
        ".globl given\n.type given, @function\ngiven:\n  cmp makes@GOTPCREL(%rip), %rdi\n"
        "  lea makes(%rip), %rax\n  movb $0, -1(%rsp)\n  cmp %rax, %rdi\n" GIVES("given", "makes")
        ".globl given_too\n.type given_too, @function\ngiven_too:\n" GIVES("given_too", "called"));

// `resume` sets the number, and goes on at the call in `leave`, which has left that address.
#ifdef __PIE__
#define LEAVES "  lea 1f(%rip), %rax\n  mov %rax, left(%rip)\n"
#else
#define LEAVES "  movq $1f, left(%rip)\n"
#endif
void *volatile left;
long leave(void), resume(void);
__asm__(".text\n.globl leave\n.type leave, @function\nleave:\n" LEAVES "  mov $110, %eax\n1:\n  syscall\n  ret\n"
        ".size leave, . - leave\n.globl resume\n.type resume, @function\nresume:\n  mov $110, %eax\n  jmp *left(%rip)\n"
        ".size resume, . - resume\n");

// Memory with a copy of the constant, which the program may execute.
static char *executable(const char *how)
{
    const int writable = PROT_READ | PROT_WRITE, executed = PROT_READ | PROT_EXEC;
    char *memory, *written;
    if (strcmp(how, "memfd") == 0) {
        int file = memfd_create("code", 0);
        if (ftruncate(file, 4096) != 0) _exit(99);
        written = mmap(NULL, 4096, writable, MAP_SHARED, file, 0);
        memory = mmap(NULL, 4096, executed, MAP_SHARED, file, 0);
    } else if (strcmp(how, "shm") == 0) {
        int id = shmget(IPC_PRIVATE, 4096, 0700 | IPC_CREAT);
        memory = written = shmat(id, NULL, SHM_EXEC);
        shmctl(id, IPC_RMID, NULL);
    } else {
        int access = strcmp(how, "pkey") == 0 ? writable : writable | PROT_EXEC;
        memory = written = mmap(NULL, 4096, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    const volatile unsigned char *from = constant.code;
    for (int i = 0; i < 8; i++) written[i] = from[i];
    if (strcmp(how, "pkey") == 0 && syscall(SYS_pkey_mprotect, memory, 4096, executed, -1) != 0) _exit(98);
    return memory;
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    long parent = getppid(), right = 0;
    if (strcmp(mode, "labels") == 0) {
        struct coroutine it = {0, 0, SYS_getppid};
        REPEAT(1000) right += step(&it) == parent;
    } else if (strcmp(mode, "waits") == 0) {
        const int state = 0;
        REPEAT(1000) right += given(&state, SYS_getppid, 0, 0, 0, 0, 0, 0) == parent;
    } else if (strcmp(mode, "pointer") == 0) {
        const int state = 0;
        calls *volatile pointer = called;
        REPEAT(500) right += given_too(&state, SYS_getppid, 0, 0, 0, 0, 0, 0) == parent;
        REPEAT(500) right += pointer(&state, SYS_getppid, 0, 0, 0, 0, 0, 0) == parent;
    } else if (strcmp(mode, "resumed") == 0) {
        REPEAT(500) right += (leave() == parent) + (resume() == parent);
    } else if (strcmp(mode, "table") == 0) {
        REPEAT(500) right += (by_sum(0) == parent) + (by_sum(1) == getpid());
    } else {
        char *memory = executable(mode);
        REPEAT(1000) right += ((long (*)(void))memory)() == parent;
    }
    SAY("right %ld\n", right);
    say_syscall("getppid", strcmp(mode, "waits") == 0 ? 1001 : 1);
    return right != 1000;
}
