// Beside mutex.go: links the program with the C library, by the dynamic linker.
package main

import _ "runtime/cgo"
