// Call paths in Go that are known by construction: `callers ROUNDS [wait]`. With `wait` it prints "ready" and goes on
// after a line of input.
//
// Exact: each path prints how many reads of CLOCK_REALTIME it made. The runtime itself reads that clock
// once, when it starts; time.Now reads CLOCK_MONOTONIC too, and so does the runtime.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"sync"
	"time"
)

type site interface{ siteMethod(calls int) }

type wall struct{ last time.Time }

//go:noinline
func (w *wall) siteMethod(calls int) {
	for i := 0; i < calls; i++ {
		w.last = time.Now()
	}
}

type byClock []int

func (b *byClock) Len() int      { return len(*b) }
func (b *byClock) Swap(i, j int) { (*b)[i], (*b)[j] = (*b)[j], (*b)[i] }

//go:noinline
func (b *byClock) Less(i, j int) bool {
	sorted++
	now := time.Now()
	return (*b)[i] < (*b)[j] && !now.IsZero()
}

var sorted int

// The frames of the library's sort are in between.
//
//go:noinline
func runSort() {
	numbers := make(byClock, 32)
	for i := range numbers {
		numbers[i] = i * 37 % 32
	}
	sort.Sort(&numbers)
}

func siteInlined() time.Time { return time.Now() }

//go:noinline
func siteOuter(calls int) {
	for i := 0; i < calls; i++ {
		siteInlined()
	}
}

//go:noinline
func siteDeep(calls int) {
	for i := 0; i < calls; i++ {
		time.Now()
	}
}

//go:noinline
func descend(depth, calls int) int {
	if depth == 1 {
		siteDeep(calls)
		return 1
	}
	return descend(depth-1, calls) + 1
}

//go:noinline
func siteGoroutine(calls int) {
	for i := 0; i < calls; i++ {
		time.Now()
	}
}

//go:noinline
func poolGoroutine(rounds int, done *sync.WaitGroup) {
	for i := 0; i < rounds; i++ {
		siteGoroutine(100)
	}
	done.Done()
}

//go:noinline
func runSites(rounds int, s site) {
	for i := 0; i < rounds; i++ {
		s.siteMethod(100)
		siteOuter(100)
		descend(30, 50)
		runSort()
	}
}

func say(path string, calls int) {
	fmt.Printf("path %s clock_gettime CLOCK_REALTIME %d\n", path, calls)
}

func main() {
	debug.SetGCPercent(-1) // each collection reads CLOCK_REALTIME once
	rounds := 1000
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	if len(os.Args) > 2 {
		fmt.Println("ready")
		fmt.Scanln()
	}
	var done sync.WaitGroup
	for i := 0; i < 8; i++ {
		done.Add(1)
		go poolGoroutine(rounds/4, &done)
	}
	runSites(rounds, &wall{})
	done.Wait()
	say("siteMethod;runSites;main", 100*rounds)
	say("+siteInlined;siteOuter;runSites;main", 100*rounds)
	say("siteDeep;descend*30;runSites;main", 50*rounds)
	say("Less;runSort;runSites;main", sorted)
	say("siteGoroutine;poolGoroutine", 8*(rounds/4)*100)
}
