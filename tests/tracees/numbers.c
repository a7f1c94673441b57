// Makes system calls with numbers outside of every table. Each must return ENOSYS and leave the memory unchanged.
#define _GNU_SOURCE
#include "say.h"
#include <errno.h>
#include <sys/syscall.h>

#define CALL(number) __asm__ volatile("mov %1, %%eax\n syscall" : "=a"(result) : "i"(number) : "rcx", "r11", "memory")
#define MAKE(number) do { long result; for (int i = 0; i < 3; i++) { CALL(number); if (result != -ENOSYS) wrong++; } } while (0)

static int wrong;

int main(void)
{
    MAKE(-1);
    MAKE(-500);
    MAKE(0x40000000);
    MAKE(0x400001f4);
    MAKE(0x80000000);
    MAKE(0x10000);
    MAKE(0x2000);
    MAKE(600);
    MAKE(512);
    MAKE(503);
    MAKE(500);
    say_syscall("getppid", 3);
    for (int i = 0; i < 3; i++) syscall(SYS_getppid);
    return wrong == 0 ? 7 : 1;
}
