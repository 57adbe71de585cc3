// Waits of Go: `waits CASE`, with the output of ready.h. The goroutines are bound to threads; without that, a waiting
// goroutine has no thread at all, and no viewer of threads can see it.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	mutex   sync.Mutex
	channel = make(chan int)
	ends    [2]int
)

type part struct {
	role, function string
	tid            int
}

func sleepForEver() {
	var one [1]byte
	for {
		syscall.Read(ends[0], one[:])
	}
}

//go:noinline
func holdsMutex(ready func()) {
	mutex.Lock()
	ready()
	sleepForEver()
	mutex.Unlock()
}

//go:noinline
func locksMutex(ready func()) {
	ready()
	mutex.Lock()
	mutex.Unlock()
}

//go:noinline
func receives(ready func()) {
	ready()
	<-channel
}

func start(role, function string, run func(ready func())) part {
	tid := make(chan int)
	go func() {
		runtime.LockOSThread()
		run(func() { tid <- syscall.Gettid() })
	}()
	return part{role, function, <-tid}
}

func isAsleep(p part) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", p.tid))
	return err != nil || !strings.HasPrefix(string(text), "running")
}

func main() {
	syscall.Pipe(ends[:])
	go func() { time.Sleep(10 * time.Minute); os.Exit(0) }()
	if len(os.Args) != 2 {
		os.Exit(2)
	}
	var parts []part
	switch os.Args[1] {
	case "go-channel":
		parts = []part{start("waiter", "main.receives", receives)}
	case "go-mutex":
		parts = []part{start("holder", "main.holdsMutex", holdsMutex), start("waiter", "main.locksMutex", locksMutex)}
	default:
		os.Exit(2)
	}
	object := "0x0"
	if os.Args[1] == "go-mutex" {
		object = fmt.Sprintf("%p", &mutex)
	}
	// A thread may also sleep for a moment before its goroutine waits, so it must sleep twice.
	for _, p := range append(parts, parts...) {
		time.Sleep(20 * time.Millisecond)
		for !isAsleep(p) {
			time.Sleep(time.Millisecond)
		}
	}
	threads := []string{}
	for _, p := range parts {
		threads = append(threads, fmt.Sprintf(`{"role": %q, "tid": %d, "pid": %d, "function": %q}`, p.role, p.tid, os.Getpid(), p.function))
	}
	fmt.Printf("{\"case\": %q, \"pid\": %d, \"object\": %q, \"threads\": [%s]}\n", os.Args[1], os.Getpid(), object, strings.Join(threads, ", "))
	sleepForEver()
}
