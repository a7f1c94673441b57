// Finds vDSO functions without libc, as rustix, Go and musl do: AT_SYSINFO_EHDR, then the dynamic section, then
// DT_HASH, or DT_GNU_HASH if compiled with -DUSE_GNU_HASH. An image without that table has no functions.
#pragma once
#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

struct image {
    uintptr_t slide; // added to every address in the file
    const Elf64_Sym *symbols;
    const char *strings;
    const uint32_t *hash, *gnu_hash;
};

static inline struct image read_image(uintptr_t base)
{
    struct image image = {0};
    const Elf64_Ehdr *header = (const void *)base;
    const Elf64_Phdr *segment = (const void *)(base + header->e_phoff);
    const Elf64_Dyn *dynamic = 0;
    int loads = 0;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return image;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segment[i].p_type == PT_LOAD && loads++ == 0)
            image.slide = base + segment[i].p_offset - segment[i].p_vaddr;
        if (segment[i].p_type == PT_DYNAMIC) dynamic = (const void *)(base + segment[i].p_offset);
    }
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *address = (const void *)(image.slide + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_SYMTAB) image.symbols = address;
        if (dynamic->d_tag == DT_STRTAB) image.strings = address;
        if (dynamic->d_tag == DT_HASH) image.hash = address;
        if (dynamic->d_tag == DT_GNU_HASH) image.gnu_hash = address;
    }
    return image;
}

static inline void *symbol_if_named(const struct image *image, uint32_t i, const char *name)
{
    const Elf64_Sym *symbol = &image->symbols[i];
    if (symbol->st_shndx == SHN_UNDEF || strcmp(image->strings + symbol->st_name, name) != 0) return 0;
    return (void *)(image->slide + symbol->st_value);
}

#ifdef USE_GNU_HASH
static inline void *find_function(const struct image *image, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++) hash = hash * 33 + (unsigned char)*c;
    const uint32_t *table = image->gnu_hash;
    if (!table) return 0;
    uint32_t buckets = table[0], first = table[1], bloom_words = table[2];
    const uint64_t *bloom = (const uint64_t *)(table + 4);
    uint64_t word = bloom[hash / 64 % bloom_words];
    if (!(word >> (hash % 64) & 1) || !(word >> ((hash >> table[3]) % 64) & 1)) return 0;
    const uint32_t *bucket = (const uint32_t *)(bloom + bloom_words), *chain = bucket + buckets;
    for (uint32_t i = bucket[hash % buckets]; i >= first; i++) {
        void *found = (chain[i - first] | 1) == (hash | 1) ? symbol_if_named(image, i, name) : 0;
        if (found || chain[i - first] & 1) return found;
    }
    return 0;
}
#else
static inline void *find_function(const struct image *image, const char *name)
{
    uint32_t hash = 0;
    if (!image->hash) return 0;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    const uint32_t *bucket = image->hash + 2, *chain = bucket + image->hash[0];
    for (uint32_t i = bucket[hash % image->hash[0]]; i; i = chain[i]) {
        void *found = symbol_if_named(image, i, name);
        if (found) return found;
    }
    return 0;
}
#endif

static inline void *vdso_function(const char *name)
{
    struct image image = read_image(getauxval(AT_SYSINFO_EHDR));
    return find_function(&image, name);
}
