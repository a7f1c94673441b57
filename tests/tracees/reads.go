// Go, static, without cgo: `reads N GOROUTINES`; each goroutine calls time.Now N times, which
// reads two clocks, and time.Since N times, which reads one.
//
// CLOCK_REALTIME is exact: only time.Now and the end of a garbage collection read it, and the
// collector is off. CLOCK_MONOTONIC is at least: the runtime's monitor thread reads it too.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	debug.SetGCPercent(-1)
	calls, _ := strconv.Atoi(os.Args[1])
	goroutines, _ := strconv.Atoi(os.Args[2])
	var all sync.WaitGroup
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			var start time.Time
			for i := 0; i < calls; i++ {
				start = time.Now()
			}
			for i := 0; i < calls; i++ {
				time.Since(start)
			}
		}()
	}
	all.Wait()
	for i := 0; i < 223; i++ {
		syscall.Getppid()
	}
	fmt.Println("vdso clock_gettime CLOCK_REALTIME", calls*goroutines)
	fmt.Println("at-least clock_gettime CLOCK_MONOTONIC", 2*calls*goroutines)
	fmt.Println("syscall getppid 223")
}
