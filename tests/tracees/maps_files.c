// Maps the executable segments of an ELF file, as translators of code do, and compares memory and file: `maps_files
// FILE`. Prints how many segments it has mapped and how many bytes differ from the file, and exits with status 7.
#define _GNU_SOURCE
#include "say.h"
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    int file = count == 2 ? open(arguments[1], O_RDONLY | O_CLOEXEC) : -1;
    Elf64_Ehdr header;
    if (file < 0 || pread(file, &header, sizeof header, 0) != sizeof header) return 3;
    long segments = 0, others = 0;
    for (int index = 0; index < header.e_phnum; index++) {
        Elf64_Phdr segment;
        if (pread(file, &segment, sizeof segment, header.e_phoff + index * sizeof segment) != sizeof segment) return 3;
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
        off_t begin = segment.p_offset & ~4095L;
        long size = segment.p_offset + segment.p_filesz - begin;
        char *mapped = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, begin), byte;
        if (mapped == MAP_FAILED) return 3;
        segments++;
        for (long at = 0; at < size; at++) others += pread(file, &byte, 1, begin + at) != 1 || byte != mapped[at];
    }
    SAY("result segments %ld others %ld\n", segments, others);
    return 7;
}
