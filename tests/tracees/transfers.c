// Transfers 1 MiB at a time by a system call that waits again and again meanwhile: `transfers CALL`. The other end of the
// pipe or socket is a child, which takes or gives 1/8 of it every 5 ms; to "never" it gives nothing. Says "ready" when it has
// begun; to a line "count" how many transfers have ended and how many of them ended early, then "done". At the end of its input
// it says how it ended, and exits with status 7.
#define _GNU_SOURCE
#include "say.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { WHOLE = 1 << 20, PARTS = 8, PART = WHOLE / PARTS };

static char data[WHOLE];
static const char *name;
static int own, others, file, full[2];
static atomic_long ended, early;
static atomic_int leaving;

static int is(const char *call)
{
    return strcmp(name, call) == 0;
}

static void nap(long milliseconds)
{
    nanosleep(&(struct timespec){0, milliseconds * 1000000}, NULL);
}

static long whole_messages(struct mmsghdr *messages, long count)
{
    long bytes = 0;
    for (long message = 0; message < count; message++) bytes += messages[message].msg_len;
    return bytes;
}

static long transfer(void)
{
    struct iovec parts[PARTS];
    struct mmsghdr messages[PARTS];
    memset(messages, 0, sizeof messages);
    for (int part = 0; part < PARTS; part++) {
        parts[part] = (struct iovec){data + part * PART, PART};
        messages[part].msg_hdr = (struct msghdr){.msg_iov = parts + part, .msg_iovlen = 1};
    }
    struct msghdr all = {.msg_iov = parts, .msg_iovlen = PARTS};
    loff_t begin = 0;
    if (is("write") || is("never")) return write(own, data, WHOLE);
    if (is("writev")) return writev(own, parts, PARTS);
    if (is("pwritev2")) return pwritev2(own, parts, PARTS, -1, 0);
    if (is("sendto")) return send(own, data, WHOLE, 0);
    if (is("sendmsg")) return sendmsg(own, &all, 0);
    if (is("sendmmsg")) return whole_messages(messages, sendmmsg(own, messages, PARTS, 0));
    if (is("sendfile")) return sendfile(own, file, &begin, WHOLE);
    if (is("splice")) {
        if (write(full[1], data, WHOLE) != WHOLE) _exit(3);
        long done = splice(full[0], NULL, own, NULL, WHOLE, 0);
        if (done < WHOLE && read(full[0], data, WHOLE) != WHOLE - done) _exit(3);
        return done;
    }
    if (is("recvfrom")) return recv(own, data, WHOLE, MSG_WAITALL);
    if (is("recvmsg")) return recvmsg(own, &all, MSG_WAITALL);
    if (is("recvmmsg")) return whole_messages(messages, recvmmsg(own, messages, PARTS, MSG_WAITALL, NULL));
    _exit(2);
}

static void *transfers(void *unused)
{
    while (!leaving) {
        early += transfer() != WHOLE;
        ended++;
        nap(20);
    }
    return unused;
}

static void other_end(void)
{
    while (!is("never")) {
        nap(5);
        long left = PART, done = 1;
        for (; left > 0 && done > 0; left -= done)
            done = strncmp(name, "recv", 4) == 0 ? write(others, data, left) : read(others, data, left);
        if (done <= 0) _exit(0);
    }
    for (;;) pause();
}

int main(int count, char **arguments)
{
    if (count != 2) return 2;
    name = arguments[1];
    int ends[2];
    int is_pipe = strstr(name, "write") || is("never");
    if (is_pipe ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 3;
    others = ends[0];
    own = ends[1];
    file = memfd_create("data", 0);
    if (ftruncate(file, WHOLE) != 0 || pipe(full) != 0 || fcntl(full[1], F_SETPIPE_SZ, WHOLE) < WHOLE) return 3;
    pid_t child = fork();
    if (child == 0) {
        close(own);
        other_end();
    }
    pthread_t thread;
    if (child < 0 || pthread_create(&thread, NULL, transfers, NULL) != 0) return 3;
    SAY("ready\n");
    char byte;
    while (read(0, &byte, 1) == 1)
        if (byte == '\n') SAY("result transfers %ld early %ld\ndone\n", (long)ended, (long)early);
    leaving = 1;
    // Its other end is gone then, so that it comes to an end.
    if (is("never")) kill(child, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    close(others);
    if (pthread_join(thread, NULL) != 0) return 3;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    SAY("result ended well backwards 0 wrong 0\n");
    _exit(7);
}
