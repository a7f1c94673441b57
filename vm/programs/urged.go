// `urged` asks for random bytes and the time for two seconds, while one of its threads sends it signals all the time.
// The handler interrupts the vDSO, where the register in which Go keeps its own data may hold another value.
package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"syscall"
	"time"
)

func main() {
	var random [64]byte
	pid := os.Getpid()
	stop := time.Now().Add(2 * time.Second)
	go func() {
		for {
			syscall.Kill(pid, syscall.SIGURG)
		}
	}()
	for time.Now().Before(stop) {
		for i := 0; i < 20; i++ {
			rand.Read(random[:])
		}
	}
	fmt.Println("lives")
}
