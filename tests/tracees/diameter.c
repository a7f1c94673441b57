// A server of threads and queues, with the names of freeDiameter's functions that read clocks: `diameter MESSAGES
// [wait]`. A message is received, goes through the queue of the peer's state machine, the queue of the routing thread
// and the queue of the sender, and is sent. Every queue notes the time at which an entry came and how long it stayed,
// so the queues make most reads.
//
// Prints "path LEAF;...;ROOT FUNCTION CLOCK N" for each path to a function that reads a clock, and the
// sums as `vdso` lines. Exact: each thread counts its own
// reads, and the C library makes none by itself.
#define _GNU_SOURCE
#include "call_sites.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

enum way {
    POST_IN, POST_ROUTE, POST_OUT, POP_PSM, POP_ROUTE, POP_OUT, TIMED_PSM, TIMED_ROUTE, PROCESS, TIMEOUT,
    PSM, SENDV, MSG_SEND, WAYS
};

static const struct { const char *path, *called; } way_names[WAYS] = {
    [POST_IN] = {"+read_clock;fd_fifo_post_internal;fd_cnx_receive;receiver_thr", "clock_gettime CLOCK_REALTIME"},
    [POST_ROUTE] = {"+read_clock;fd_fifo_post_internal;fd_psm_handle;psm_thr", "clock_gettime CLOCK_REALTIME"},
    [POST_OUT] = {"+read_clock;fd_fifo_post_internal;fd_msg_send;process_thr", "clock_gettime CLOCK_REALTIME"},
    [POP_PSM] = {"+read_clock;mq_pop;fd_fifo_timedget;psm_thr", "clock_gettime CLOCK_REALTIME"},
    [POP_ROUTE] = {"+read_clock;mq_pop;fd_fifo_tryget_int;process_thr", "clock_gettime CLOCK_REALTIME"},
    [POP_OUT] = {"+read_clock;mq_pop;fd_fifo_timedget;sender_thr", "clock_gettime CLOCK_REALTIME"},
    [TIMED_PSM] = {"+read_clock;fd_fifo_timedget;psm_thr", "clock_gettime CLOCK_REALTIME"},
    [TIMED_ROUTE] = {"+read_clock;fd_fifo_timedget;sender_thr", "clock_gettime CLOCK_REALTIME"},
    [PROCESS] = {"+read_clock;process_thr", "clock_gettime CLOCK_REALTIME"},
    [TIMEOUT] = {"+read_clock;fd_psm_next_timeout;psm_thr", "clock_gettime CLOCK_REALTIME"},
    [PSM] = {"fd_psm_handle;psm_thr", "clock_gettime CLOCK_MONOTONIC"},
    [SENDV] = {"+read_clock;fd_cnx_s_sendv;sender_thr", "clock_gettime CLOCK_REALTIME"},
    [MSG_SEND] = {"fd_msg_send;process_thr", "gettimeofday -"},
};

static long reads[WAYS]; // each path belongs to one thread

struct message { struct timespec posted; unsigned long number, sum; };

// A queue of a fixed size between two threads.
struct fifo {
    pthread_mutex_t lock;
    pthread_cond_t filled, drained;
    struct message *slot[64];
    unsigned long head, tail;
    long total_ns, blocked_ns;
};

#define FIFO {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0, 0, 0}
static struct fifo in = FIFO, route = FIFO, out = FIFO;
static unsigned long messages, received_sum, sent_sum, sent;

static inline __attribute__((always_inline)) void read_clock(enum way way, struct timespec *now)
{
    clock_gettime(CLOCK_REALTIME, now);
    reads[way]++;
}

static long between(const struct timespec *from, const struct timespec *to)
{
    return (to->tv_sec - from->tv_sec) * 1000000000L + to->tv_nsec - from->tv_nsec;
}

OUT_OF_LINE static void fd_fifo_post_internal(struct fifo *queue, struct message *message, enum way way)
{
    struct timespec before;
    read_clock(way, &before);
    pthread_mutex_lock(&queue->lock);
    while (queue->tail - queue->head == 64) pthread_cond_wait(&queue->drained, &queue->lock);
    read_clock(way, &message->posted);
    queue->blocked_ns += between(&before, &message->posted);
    queue->slot[queue->tail++ % 64] = message;
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
    NOT_LAST;
}

OUT_OF_LINE static struct message *mq_pop(struct fifo *queue, enum way way)
{
    struct timespec now;
    struct message *message = queue->slot[queue->head++ % 64];
    pthread_cond_signal(&queue->drained);
    read_clock(way, &now);
    queue->total_ns += between(&message->posted, &now);
    return message;
}

OUT_OF_LINE static struct message *fd_fifo_tryget_int(struct fifo *queue, enum way pop)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->tail == queue->head) pthread_cond_wait(&queue->filled, &queue->lock);
    struct message *message = mq_pop(queue, pop);
    pthread_mutex_unlock(&queue->lock);
    NOT_LAST;
    return message;
}

OUT_OF_LINE static struct message *fd_fifo_timedget(struct fifo *queue, enum way pop, enum way own)
{
    struct timespec until;
    pthread_mutex_lock(&queue->lock);
    if (queue->tail == queue->head) {
        read_clock(own, &until);
        until.tv_sec += 3600;
        while (queue->tail == queue->head) pthread_cond_timedwait(&queue->filled, &queue->lock, &until);
    }
    struct message *message = mq_pop(queue, pop);
    pthread_mutex_unlock(&queue->lock);
    NOT_LAST;
    return message;
}

OUT_OF_LINE static void fd_psm_next_timeout(struct timespec *timeout)
{
    read_clock(TIMEOUT, timeout);
    timeout->tv_sec += 30;
    NOT_LAST;
}

OUT_OF_LINE static void fd_psm_handle(struct message *message)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    reads[PSM]++;
    message->sum = message->sum * 31 + message->number;
    fd_fifo_post_internal(&route, message, POST_ROUTE);
    NOT_LAST;
}

OUT_OF_LINE static void fd_msg_send(struct message *message)
{
    struct timeval now;
    if (message->number % 8 == 0) {
        gettimeofday(&now, NULL);
        reads[MSG_SEND]++;
    }
    fd_fifo_post_internal(&out, message, POST_OUT);
    NOT_LAST;
}

OUT_OF_LINE static void fd_cnx_receive(struct message *message, unsigned long number)
{
    message->number = number;
    message->sum = number * 17;
    received_sum += message->sum * 31 + number;
    fd_fifo_post_internal(&in, message, POST_IN);
    NOT_LAST;
}

OUT_OF_LINE static void fd_cnx_s_sendv(struct message *message)
{
    struct timespec now;
    if (message->number % 4 == 0) read_clock(SENDV, &now);
    sent_sum += message->sum;
    sent++;
    NOT_LAST;
}

OUT_OF_LINE static void *receiver_thr(void *unused)
{
    for (unsigned long number = 1; number <= messages; number++)
        fd_cnx_receive(calloc(1, sizeof(struct message)), number);
    return unused;
}

OUT_OF_LINE static void *psm_thr(void *unused)
{
    struct timespec timeout;
    for (unsigned long number = 1; number <= messages; number++) {
        if (number % 2 == 0) fd_psm_next_timeout(&timeout);
        fd_psm_handle(fd_fifo_timedget(&in, POP_PSM, TIMED_PSM));
    }
    return unused;
}

OUT_OF_LINE static void *process_thr(void *unused)
{
    struct timespec now;
    for (unsigned long number = 1; number <= messages; number++) {
        struct message *message = fd_fifo_tryget_int(&route, POP_ROUTE);
        read_clock(PROCESS, &now);
        fd_msg_send(message);
    }
    return unused;
}

OUT_OF_LINE static void *sender_thr(void *unused)
{
    for (unsigned long number = 1; number <= messages; number++) {
        struct message *message = fd_fifo_timedget(&out, POP_OUT, TIMED_ROUTE);
        fd_cnx_s_sendv(message);
        free(message);
    }
    return unused;
}

int main(int count, char **arguments)
{
    void *(*const starts[])(void *) = {receiver_thr, psm_thr, process_thr, sender_thr};
    pthread_t thread[4];
    messages = count > 1 ? strtoul(arguments[1], NULL, 10) : 100000;
    if (count > 2) await_word();
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, starts[i], NULL) != 0) return 3;
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    for (int way = 0; way < WAYS; way++) say_path(way_names[way].path, way_names[way].called, reads[way]);
    long realtime = 0;
    for (int way = 0; way < WAYS; way++)
        if (way != PSM && way != MSG_SEND) realtime += reads[way];
    say_vdso("clock_gettime", "CLOCK_REALTIME", realtime);
    say_vdso("clock_gettime", "CLOCK_MONOTONIC", reads[PSM]);
    say_vdso("gettimeofday", "-", reads[MSG_SEND]);
    SAY("result sent %s\n", sent == messages && sent_sum == received_sum ? "all" : "something else");
    return 0;
}
