// Go's mutex: the Go scheduler's, which blocks goroutines and not threads.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

func main() {
	each := 250000
	if len(os.Args) > 1 {
		each, _ = strconv.Atoi(os.Args[1])
	}
	var mutex sync.Mutex
	var all sync.WaitGroup
	count := 0
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < each; j++ {
				mutex.Lock()
				count++
				mutex.Unlock()
			}
		}()
	}
	all.Wait()
	fmt.Println(count)
}
