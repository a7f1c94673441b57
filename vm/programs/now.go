// `now N` calls time.Now N times, which reads two clocks. What a call took is measured by system
// calls, so that it holds whatever clock the program is given.
//
// CLOCK_REALTIME is exact: only time.Now and the end of a garbage collection read it, and the
// collector is off. CLOCK_MONOTONIC is at least: the runtime's monitor thread reads it too.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const clockMonotonic = 1

func nowNs() float64 {
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return float64(now.Sec)*1e9 + float64(now.Nsec)
}

func main() {
	debug.SetGCPercent(-1)
	calls, _ := strconv.Atoi(os.Args[1])
	last := time.Now()
	backwards := 0
	begin := nowNs()
	for i := 1; i < calls; i++ {
		now := time.Now()
		if now.Before(last) {
			backwards++
		}
		last = now
	}
	end := nowNs()
	fmt.Println("vdso clock_gettime CLOCK_REALTIME", calls)
	fmt.Println("at-least clock_gettime CLOCK_MONOTONIC", calls)
	fmt.Println("result backwards", backwards)
	fmt.Printf("took %.1f ns each\n", (end-begin)/float64(calls-1))
}
