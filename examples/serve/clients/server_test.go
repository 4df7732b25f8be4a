// Package clients tests the program serve as its users meet it: with OpenAI's own
// client, and the chat page in a real browser. It is a module of its own, so that
// the service needs none of that.
package clients

import (
	"bufio"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

var program = flag.String("serve", "../../../bin/serve", "the program to test")

const key = "a key of the tests"

var (
	startOnce sync.Once
	running   *exec.Cmd
	base      string
	startErr  error
)

// server returns the URL of one server for all tests.
func server(t *testing.T) string {
	t.Helper()
	startOnce.Do(func() { startErr = startServer() })
	require.NoError(t, startErr)
	return base
}

var serving = regexp.MustCompile(`msg=serving .*address=(\S+)`)

func startServer() error {
	running = exec.Command(*program, "--listen", "127.0.0.1:0", "--device", "cpu", "--api-key", key)
	stderr, err := running.StderrPipe()
	if err != nil {
		return err
	}
	if err := running.Start(); err != nil {
		return err
	}
	ready := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := serving.FindStringSubmatch(lines.Text()); m != nil {
				base = "http://" + m[1]
				close(ready)
			}
		}
		if base == "" {
			close(ready)
		}
	}()
	<-ready
	return nil
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if running != nil {
		_ = running.Process.Signal(syscall.SIGTERM)
		if err := running.Wait(); err != nil && code == 0 {
			println("serve:", err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
