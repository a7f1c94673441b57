// Reads its clocks as often as each input line says, from C and from Go on a thread made by C each, and prints how
// often. Uses cgo, so the C library makes the threads.
//
// Exact: only time.Now and the end of a garbage collection read CLOCK_REALTIME, and the collector is off. Go never
// reads CLOCK_BOOTTIME.
package main

/*
#include <time.h>

static void read_clock(long calls)
{
	struct timespec now;
	while (calls-- > 0) clock_gettime(CLOCK_BOOTTIME, &now);
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

const threads = 3

func main() {
	debug.SetGCPercent(-1)
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		calls, err := strconv.Atoi(lines.Text())
		if err != nil {
			panic(err)
		}
		var all sync.WaitGroup
		for range threads {
			all.Add(1)
			go func() {
				defer all.Done()
				runtime.LockOSThread()
				C.read_clock(C.long(calls))
				for range calls {
					time.Now()
				}
			}()
		}
		all.Wait()
		fmt.Println("vdso clock_gettime CLOCK_BOOTTIME", threads*calls)
		fmt.Println("vdso clock_gettime CLOCK_REALTIME", threads*calls)
		fmt.Println("done")
	}
}
