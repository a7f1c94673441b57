// Reads the clock at the end of a chain of functions with known names, once it is told to.
package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

type queue struct{ n int64 }

var sink int64

//go:noinline
func (q *queue) post() int64 {
	q.n++
	return time.Now().UnixNano() + q.n
}

//go:noinline
func serve(q *queue) int64 {
	return q.post() + sink
}

func waitForTheTest() {
	var word [1]byte
	if n, _ := os.Stdin.Read(word[:]); n == 1 {
		syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGSTOP))
	}
}

func goroutine(done chan bool) {
	runtime.LockOSThread()
	waitForTheTest()
	sink = serve(&queue{3})
	done <- true
}

func main() {
	runtime.LockOSThread()
	if len(os.Args) > 1 && os.Args[1] == "goroutine" {
		done := make(chan bool)
		go goroutine(done)
		<-done
		return
	}
	waitForTheTest()
	sink = serve(&queue{2})
}
