// A library whose constructor makes calls by an instruction of its own.
//
// Exact: only this library calls getppid.
#include "say.h"

long library_getppid(void);
__asm__(".text\n.globl library_getppid\n.type library_getppid, @function\nlibrary_getppid:\n"
        "  mov $110, %eax\n  syscall\n  ret\n"
        ".size library_getppid, . - library_getppid\n");

__attribute__((constructor)) static void calls(void)
{
    REPEAT(30) library_getppid();
    say_syscall("getppid", 30);
}
