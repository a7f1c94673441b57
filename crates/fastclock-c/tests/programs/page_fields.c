/* Prints the fields of a clock page, read by the rules of docs/PAGE.md. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fastclock_page.h"

#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

static struct fastclock_page_base base(const struct fastclock_page_base *from)
{
	struct fastclock_page_base to = {LOAD(from->sec), LOAD(from->nsec)};
	return to;
}

static struct fastclock_page_slot snapshot(const struct fastclock_page *page, uint64_t *head)
{
	struct fastclock_page_slot slot = {0};
	do {
		*head = __atomic_load_n(&page->head, __ATOMIC_ACQUIRE);
		const struct fastclock_page_slot *from = &page->slots[*head & 1];
		slot.base = LOAD(from->base);
		slot.span = LOAD(from->span);
		slot.whole = LOAD(from->whole);
		slot.fraction = LOAD(from->fraction);
		slot.mono = base(&from->mono);
		slot.bound = LOAD(from->bound);
		slot.growth = LOAD(from->growth);
		slot.real = base(&from->real);
		slot.boot = base(&from->boot);
		slot.tai = base(&from->tai);
		slot.grace = LOAD(from->grace);
		slot.reason = LOAD(from->reason);
		slot.previous_base = LOAD(from->previous_base);
		slot.previous_whole = LOAD(from->previous_whole);
		slot.previous_fraction = LOAD(from->previous_fraction);
		slot.previous_mono = LOAD(from->previous_mono);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (LOAD(page->head) != *head);
	return slot;
}

static void print(const char *name, struct fastclock_page_base time)
{
	printf("%s %" PRId64 " %" PRIu64 "\n", name, time.sec, time.nsec);
}

int main(int argc, char **argv)
{
	struct stat status;
	int file = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0 || fstat(file, &status) != 0 || status.st_size < FASTCLOCK_PAGE_SIZE)
		return 2;
	const struct fastclock_page *page =
		mmap(NULL, FASTCLOCK_PAGE_SIZE, PROT_READ, MAP_SHARED, file, 0);
	if (page == MAP_FAILED)
		return 2;
	if (__atomic_load_n(&page->magic, __ATOMIC_ACQUIRE) != FASTCLOCK_PAGE_MAGIC ||
	    LOAD(page->version) != FASTCLOCK_PAGE_VERSION || LOAD(page->size) != FASTCLOCK_PAGE_SIZE)
		return 3;
	printf("boot_id %" PRIx64 " %" PRIx64 "\n", LOAD(page->boot_id[0]), LOAD(page->boot_id[1]));
	printf("writer %" PRIu32 " flags %" PRIu32 "\n", LOAD(page->writer), LOAD(page->flags));
	uint64_t head;
	struct fastclock_page_slot slot = snapshot(page, &head);
	printf("head %" PRIx64 "\n", head);
	printf("base %" PRIu64 " span %" PRIu64 " grace %" PRIu64 "\n", slot.base, slot.span, slot.grace);
	printf("whole %" PRIu64 " fraction %" PRIu64 "\n", slot.whole, slot.fraction);
	printf("bound %" PRIu64 " growth %" PRIu64 "\n", slot.bound, slot.growth);
	print("mono", slot.mono);
	print("real", slot.real);
	print("boot", slot.boot);
	print("tai", slot.tai);
	printf("reason %" PRIu64 "\n", slot.reason);
	printf("previous %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 "\n", slot.previous_base,
	       slot.previous_whole, slot.previous_fraction, slot.previous_mono);
	return 0;
}
