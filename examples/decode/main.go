// Command decode answers prompts with a language model, on a GPU through Vulkan
// or on the CPU. Without flags it lets the embedded demo model answer two
// questions.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Writing to stdout then fails instead, and the files that were asked for are still written.
	signal.Ignore(syscall.SIGPIPE)
	// Ctrl-C is handled where there is something to finish first: see decode and chat.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
