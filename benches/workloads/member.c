/* One of crowd's programs; built static. Says on descriptor 3 that it runs, stays until 4 ends. */
#include <unistd.h>

int main(void)
{
	char byte = 0;

	if (write(3, &byte, 1) != 1)
		return 3;
	while (read(4, &byte, 1) > 0)
		;
	return 0;
}
