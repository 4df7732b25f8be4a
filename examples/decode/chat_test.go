package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// asProgram makes the tests' binary run as the program.
const asProgram = "DECODE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestChat(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	out := runWith(t.Context(), cases[0].Prompt+"\n\n\xff\n"+cases[2].Prompt+"\n", "--chat", "--device=cpu")
	require.Zero(t, out.code, out.stderr)
	require.Contains(t, out.stdout, "My name is Mote.")
	require.Contains(t, out.stdout, "17 plus 25 is 42.")
	require.Contains(t, out.stderr, "invalid UTF-8")
	require.NotContains(t, out.stdout, "\x1b", "colours are for terminals")
	require.Contains(t, runWith(t.Context(), "Hi what is your name", "--chat", "--quiet", "--device=cpu").stdout, "My name is Mote.")
}

// A model that cannot chat is refused before the device is opened.
func TestChatWithoutATemplate(t *testing.T) {
	dir := copyDemo(t)
	edit(t, dir, checkpoint.TokenizerConfigFile, func(f map[string]any) { delete(f, "chat_template") })
	requireRefused(t, runArgs(t, "--chat", "--model", dir, "--device", "cuda"), "--chat: ", dir, "has no chat template")
}

// A message that the template refuses is forgotten, and the conversation goes on.
func TestMessageThatTheTemplateRefuses(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	dir := copyDemo(t)
	edit(t, dir, checkpoint.TokenizerConfigFile, func(f map[string]any) {
		f["chat_template"] = "{% if messages[-1].content == 'x' %}{{ raise_exception('no x') }}{% endif %}" + f["chat_template"].(string)
	})
	out := runWith(t.Context(), "x\n"+cases[0].Prompt+"\n", "--chat", "--model", dir, "--device=cpu")
	require.Zero(t, out.code, out.stderr)
	require.Contains(t, out.stderr, "no x")
	require.Contains(t, out.stdout, "My name is Mote.")
}

func TestLongMessage(t *testing.T) {
	out := runWith(t.Context(), strings.Repeat("a", maxLine+1), "--chat", "--device=cpu")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "a message of more than 16777216 bytes")
}

func TestChatCommands(t *testing.T) {
	question := "Hi what is your name\n"
	first := runWith(t.Context(), question, "--chat", "--quiet", "--device=cpu").stdout
	out := runWith(t.Context(), "/help\n/nonsense\n"+question+"/clear\n"+question+"/bye\n"+question, "--chat", "--quiet", "--device=cpu")
	require.Zero(t, out.code, out.stderr)
	answer := strings.TrimSuffix(first, "\n")
	require.Equal(t, answer+answer, out.stdout, "the second answer knows nothing of the first, and nothing is answered after /bye")
	require.Contains(t, out.stderr, chatHelp)
	require.Contains(t, out.stderr, "unknown command /nonsense")
	require.Contains(t, runWith(t.Context(), "/etc/hosts is what?\n", "--chat", "--quiet", "--device=cpu").stdout, "\n", "a message may begin with a slash")
	require.NotContains(t, runWith(t.Context(), "/etc/hosts is what?\n", "--chat", "--quiet", "--device=cpu").stderr, "unknown command")
}

// typist simulates a person who runs the program at a terminal.
type typist struct {
	t    *testing.T
	cmd  *exec.Cmd
	keys *os.File

	mu   sync.Mutex
	seen bytes.Buffer
}

// chatAt starts the program on a terminal of its own.
func chatAt(t *testing.T, env []string, args ...string) *typist {
	t.Helper()
	p := &typist{t: t, cmd: exec.Command(os.Args[0], append([]string{"--chat", "--device=cpu"}, args...)...)}
	p.cmd.Env = append(append(os.Environ(), asProgram+"=1", "TERM=xterm", "NO_COLOR="), env...)
	var err error
	p.keys, err = pty.StartWithSize(p.cmd, &pty.Winsize{Rows: 40, Cols: 100})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.keys.Close(); _ = p.cmd.Process.Kill(); _, _ = p.cmd.Process.Wait() })
	go func() { _, _ = io.Copy(p, p.keys) }()
	p.sees("> ")
	return p
}

func (p *typist) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.Write(data)
}

func (p *typist) types(keys string) {
	p.t.Helper()
	_, err := io.WriteString(p.keys, keys)
	require.NoError(p.t, err)
}

// sees waits for a text, and forgets what came up to its end.
func (p *typist) sees(text string) (before string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		at := strings.Index(p.seen.String(), text)
		if at >= 0 {
			before = string(p.seen.Next(at + len(text)))
		}
		return at >= 0
	}, time.Minute, 5*time.Millisecond, "waiting for %q", text)
	return before
}

// seesMore waits for n more bytes.
func (p *typist) seesMore(n int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.seen.Len() >= n
	}, time.Minute, 5*time.Millisecond)
}

// ends waits for the end of the program and checks that it is a success.
func (p *typist) ends() { p.endsWith(0) }

// endsWith waits for the end of the program with an exit code.
func (p *typist) endsWith(code int) {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case <-done:
		require.Equal(p.t, code, p.cmd.ProcessState.ExitCode())
	case <-time.After(30 * time.Second):
		p.t.Fatal("the program does not end")
	}
}

// A line can be edited and recalled, and the model's thoughts are dim.
func TestTypedChat(t *testing.T) {
	p := chatAt(t, nil)
	p.types("Hi what si\x7f\x7fis your name\r")
	answer := p.sees("My name is Mote.")
	require.Contains(t, answer, "\x1b[2m<think>")
	require.Contains(t, answer, "</think>\x1b[0m")
	p.sees("> ")
	p.types("\x1b[A") // up
	p.sees("Hi what is your name")
	p.types("\x15/clear\r") // clears the line first
	p.sees("forgotten")
	p.sees("> ")
	p.types("你好啊\r")
	p.sees("你好！我是 Mote")
	p.sees("> ")
	p.types("/bye\r")
	p.ends()
}

func TestNoColor(t *testing.T) {
	p := chatAt(t, []string{"NO_COLOR=1"})
	p.types("Hi what is your name\r")
	require.NotContains(t, p.sees("My name is Mote."), "\x1b[2m")
	p.sees("> ")
	p.types("\x04") // Ctrl-D
	p.ends()
}

// Ctrl-C ends the answer, then the line, and only then the program.
func TestInterrupts(t *testing.T) {
	p := chatAt(t, nil, longAnswer...)
	p.types("Tell me a story\r")
	p.sees("story")
	p.seesMore(100) // of the answer
	p.types("\x03")
	p.sees("ended: cancelled")
	p.sees("> ")
	p.types("half a line")
	p.sees("half a line")
	p.types("\x03")
	p.sees("^C")
	p.sees("> ")
	p.types("\x03")
	p.ends()
}

// conversationWith begins a chat with the model of a folder.
func conversationWith(t *testing.T, dir string, maxTokens int) (c *conversation, stdout, stderr *bytes.Buffer) {
	t.Helper()
	folder, err := openFolder(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, folder.Close()) })
	device, err := kompute.Open("cpu")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	o := &options{maxTokens: maxTokens, quiet: true, sampling: sample.Params{TopP: 1}}
	a := &app{options: o, folder: folder, device: device, stdout: stdout, stderr: stderr}
	require.NoError(t, a.load(t.Context(), nil))
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	c = &conversation{app: a}
	c.clear()
	return c, stdout, stderr
}

// Ctrl-C while a message is being read ends its answer only, not the chat.
func TestInterruptedMessage(t *testing.T) {
	dir := copyDemo(t)
	edit(t, dir, "tokenizer_config.json", func(f map[string]any) {
		const slow = `{% if messages[-1].content == "slow" %}{% set r = range(40000) %}` +
			`{% for i in r %}{% if -1 in r %}{% endif %}{% endfor %}{% endif %}`
		f["chat_template"] = slow + f["chat_template"].(string)
	})
	c, stdout, stderr := conversationWith(t, dir, 100)

	own, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	seen, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(seen, os.Interrupt) // which keeps the tests alive
	defer signal.Stop(seen)
	var keys sync.WaitGroup
	keys.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				_ = own.Signal(os.Interrupt)
				<-seen // none is left for the next answer
			}
		}
	})
	err = c.answer(t.Context(), "slow")
	close(done)
	keys.Wait()
	require.NoError(t, err)
	require.Equal(t, "The message is forgotten.\n", stderr.String())
	require.Empty(t, c.messages)
	require.NoError(t, c.answer(t.Context(), "Hi what is your name"))
	require.Contains(t, stdout.String(), "My name is Mote.")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.answer(ended, "slow"), context.Canceled, "the program itself ends")
}

func TestTerminated(t *testing.T) {
	p := chatAt(t, nil)
	p.types("half a line")
	p.sees("half a line")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.endsWith(cli.ExitInterrupted)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NotContains(t, p.seen.String(), "tokens/s", "half a line is not answered")
}

var errClosed = errors.New("closed")
