/* The page that fastclock reads the time from: its layout, for readers in C and other languages.
 *
 * docs/PAGE.md describes the fields and the duties of a reader. To get only the time, call
 * fastclock_now() of fastclock.h. Read every field by one atomic load of its size: another process
 * may write the field at any moment. Only the timekeeper may write a page.
 *
 * Needs C99, or C++11 and later.
 */
#ifndef FASTCLOCK_PAGE_H
#define FASTCLOCK_PAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define FASTCLOCK_PAGE_ASSERT(what) static_assert(what, #what)
extern "C" {
#else
/* _Static_assert is C11 */
#define FASTCLOCK_PAGE_ASSERT(what) extern char fastclock_page_asserted[(what) ? 1 : -1]
#endif

/* The first eight bytes, "fstclock", as a little-endian number. */
#define FASTCLOCK_PAGE_MAGIC UINT64_C(0x6b636f6c63747366)
#define FASTCLOCK_PAGE_VERSION 1u
#define FASTCLOCK_PAGE_SIZE 4096u
/* Bit of head that the kernel sets when the thread that owns the page dies. */
#define FASTCLOCK_PAGE_OWNER_DIED (UINT64_C(1) << 62)

/* The time of a clock at the beginning of a line. */
struct fastclock_page_base {
	int64_t sec;
	uint64_t nsec; /* below 10^9 */
};

/* One of the two copies of the content. */
struct fastclock_page_slot {
	uint64_t base;     /* tick at which the line begins */
	uint64_t span;     /* ticks in which the line holds */
	uint64_t whole;    /* length of a tick: whole nanoseconds */
	uint64_t fraction; /* length of a tick: units of 2^-64 ns */
	struct fastclock_page_base mono;
	uint64_t bound;  /* bound at the base, ns */
	uint64_t growth; /* growth of the bound per tick, 2^-64 ns */
	struct fastclock_page_base real;
	struct fastclock_page_base boot;
	struct fastclock_page_base tai;
	uint64_t grace;  /* ticks after the span in which the line still holds */
	uint64_t reason; /* 0: the page is being renewed */
	uint64_t previous_base;
	uint64_t previous_whole;
	uint64_t previous_fraction;
	int64_t previous_mono; /* ns */
	uint64_t reserved[12];
};

struct fastclock_page {
	uint64_t magic;
	uint32_t version;
	uint32_t size;
	uint64_t boot_id[2];
	uint32_t writer;
	uint32_t flags;
	uint64_t reserved[3];
	uint64_t head; /* low half: count, whose low bit selects the slot; high half: owner */
	uint64_t reserved_2[23];
	struct fastclock_page_slot slots[2];
	uint64_t reserved_3[416];
};

FASTCLOCK_PAGE_ASSERT(sizeof(struct fastclock_page_base) == 16);
FASTCLOCK_PAGE_ASSERT(sizeof(struct fastclock_page_slot) == 256);
FASTCLOCK_PAGE_ASSERT(sizeof(struct fastclock_page) == FASTCLOCK_PAGE_SIZE);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page, version) == 8);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page, size) == 12);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page, boot_id) == 16);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page, writer) == 32);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page, flags) == 36);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page, head) == 64);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page, slots) == 256);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, span) == 8);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, whole) == 16);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, fraction) == 24);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, mono) == 32);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, bound) == 48);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, growth) == 56);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, real) == 64);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, boot) == 80);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, tai) == 96);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, grace) == 112);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, reason) == 120);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, previous_base) == 128);
FASTCLOCK_PAGE_ASSERT(offsetof(struct fastclock_page_slot, previous_mono) == 152);

#ifdef __cplusplus
}
#endif

#undef FASTCLOCK_PAGE_ASSERT

#endif
