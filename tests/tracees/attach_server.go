// The server of attach_server.c in Go, on goroutines: `attach_server WORKERS`, with the same lines.
//
// Exact: the counted workers call time.Now between begin and end only. It reads CLOCK_REALTIME, which the runtime
// itself reads only when it starts. The other workers read CLOCK_MONOTONIC through time.Since all the time.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	free = iota
	counted
	leaving
)

var (
	phase            atomic.Int32
	backwards, wrong atomic.Int64
	reads, freeReads atomic.Int64
	gate             sync.RWMutex // held for reading during a burst
)

func burst() {
	gate.RLock()
	defer gate.RUnlock()
	if phase.Load() != counted {
		return
	}
	last := time.Now()
	for i := 1; i < 97; i++ {
		now := time.Now()
		if now.Before(last) {
			backwards.Add(1)
		}
		last = now
	}
	reads.Add(97)
}

func countedWorker(done *sync.WaitGroup) {
	defer done.Done()
	for phase.Load() != leaving {
		burst()
	}
}

func freeWorker(start time.Time, done *sync.WaitGroup) {
	defer done.Done()
	var last time.Duration
	for phase.Load() != leaving {
		for i := 0; i < 61; i++ {
			now := time.Since(start)
			if now < last {
				backwards.Add(1)
			}
			last = now
		}
		freeReads.Add(61)
	}
}

func checksum(seed uint64) uint64 {
	mixed := uint64(14695981039346656037)
	for i := uint64(0); i < 1000; i++ {
		mixed = (mixed ^ (seed + i)) * 1099511628211
	}
	return mixed
}

func enter(next int32) {
	gate.Lock()
	phase.Store(next)
	gate.Unlock()
}

func main() {
	debug.SetGCPercent(-1) // each collection reads CLOCK_REALTIME once
	workers, _ := strconv.Atoi(os.Args[1])
	var done sync.WaitGroup
	start := time.Now()
	for i := 0; i < workers; i++ {
		done.Add(1)
		if i%2 == 0 {
			go countedWorker(&done)
		} else {
			go freeWorker(start, &done)
		}
	}
	fmt.Println("ready")
	var before, freeBefore int64
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "begin":
			before, freeBefore = reads.Load(), freeReads.Load()
			enter(counted)
			fmt.Println("begun")
		case line == "end":
			least := freeReads.Load() - freeBefore
			enter(free)
			fmt.Printf("vdso clock_gettime CLOCK_REALTIME %d\n", reads.Load()-before)
			fmt.Printf("at-least clock_gettime CLOCK_MONOTONIC %d\ndone\n", least)
		case strings.HasPrefix(line, "sum "):
			number, _ := strconv.ParseUint(line[4:], 10, 64)
			fmt.Printf("sum %d %d\n", number, checksum(number))
		case line == "health":
			fmt.Printf("health backwards %d wrong %d\n", backwards.Load(), wrong.Load())
		default:
			fmt.Println("what is", line)
		}
	}
	phase.Store(leaving)
	done.Wait()
	fmt.Printf("result ended well backwards %d wrong %d\n", backwards.Load(), wrong.Load())
	os.Exit(7)
}
