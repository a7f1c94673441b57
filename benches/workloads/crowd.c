/* Executes N copies of a program at once and keeps them until its input ends.
 *
 *   crowd N PROGRAM
 *
 * PROGRAM gets a pipe as descriptor 3 and writes one byte to it when it runs; when all N have written,
 * "ready" is printed. When the input ends, descriptor 4 of each ends too, and all leave.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void execute_member(const char *program, const int started[2], const int alive[2])
{
	dup2(started[1], 3);
	dup2(alive[0], 4);
	close(alive[1]);
	execl(program, program, (char *)NULL);
	_exit(127);
}

/* Moves both ends to descriptors that the members' 3 and 4 do not overwrite. */
static void open_pipe(int ends[2])
{
	if (pipe(ends) != 0)
		exit(3);
	for (int i = 0; i < 2; i++) {
		int moved = fcntl(ends[i], F_DUPFD, 10);

		close(ends[i]);
		ends[i] = moved;
	}
}

int main(int argc, char **argv)
{
	int started[2], alive[2], members;
	char byte;

	if (argc != 3 || (members = atoi(argv[1])) < 1)
		return 2;
	open_pipe(started);
	open_pipe(alive);
	for (int i = 0; i < members; i++) {
		pid_t member = fork();

		if (member < 0)
			return 3;
		if (member == 0)
			execute_member(argv[2], started, alive);
	}
	close(alive[0]);
	for (int i = 0; i < members; i++)
		if (read(started[0], &byte, 1) != 1)
			return 3;
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) == 1)
		;
	close(alive[1]);
	for (int i = 0; i < members; i++)
		wait(NULL);
	return 0;
}
