package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"github.com/ergochat/readline"

	"github.com/kompute-go/kompute-go/internal/cli"
)

// maxLine is the longest message that chat reads, in bytes.
const maxLine = 16 << 20

// messages is where a chat's messages come from.
type messages interface {
	// next returns a line without its end, and io.EOF when there is none, when the
	// user ends the chat or when ctx is done.
	next(ctx context.Context) (string, error)
	Close() error
}

// newMessages reads stdin, with line editing and history where a person types.
func (a *app) newMessages(stdin io.Reader) (messages, error) {
	if cli.IsTerminal(stdin) && cli.IsTerminal(a.stdout) {
		if !a.quiet {
			fmt.Fprintln(a.stdout, a.style.dim("/help lists the commands."))
		}
		return newTypedMessages(stdin, a.stdout, a.style.bold("> "))
	}
	prompt := "> "
	if a.quiet {
		prompt = ""
	}
	return newLineMessages(stdin, func() error { return a.print(prompt) }), nil
}

// lineMessages are the lines of a file or a pipe. They are read in the
// background, so that cancelling does not wait for one.
type lineMessages struct {
	prompt func() error
	lines  chan string
	failed chan error // the error of the input, once lines is closed
	closed chan struct{}
}

func newLineMessages(in io.Reader, prompt func() error) *lineMessages {
	m := &lineMessages{prompt: prompt, lines: make(chan string), failed: make(chan error, 1), closed: make(chan struct{})}
	go func() {
		defer close(m.lines)
		scan := bufio.NewScanner(in)
		scan.Buffer(nil, maxLine)
		for scan.Scan() {
			select {
			case m.lines <- scan.Text():
			case <-m.closed:
				return
			}
		}
		err := scan.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a message of more than %d bytes", maxLine)
		}
		m.failed <- err
	}()
	return m
}

func (m *lineMessages) next(ctx context.Context) (string, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if err := m.prompt(); err != nil {
		return "", err
	}
	select {
	case <-ctx.Done():
		return "", io.EOF
	case line, open := <-m.lines:
		if open {
			return line, nil
		}
		if err := <-m.failed; err != nil {
			return "", err
		}
		return "", io.EOF
	}
}

func (m *lineMessages) Close() error {
	close(m.closed)
	return nil
}

// typedMessages are typed at a terminal, which is in raw mode only while a line is
// being typed: then Ctrl-C is a key, and otherwise a signal.
type typedMessages struct {
	*readline.Instance
	typed bool // the line is not empty
}

func newTypedMessages(stdin io.Reader, stdout io.Writer, prompt string) (*typedMessages, error) {
	m := &typedMessages{}
	terminal := &knownCursor{in: stdin, out: stdout}
	var err error
	m.Instance, err = readline.NewFromConfig(&readline.Config{
		Prompt: prompt, Stdin: terminal, Stdout: terminal, EOFPrompt: "\n", Undo: true,
		Listener: func(line []rune, _ int, _ rune) ([]rune, int, bool) {
			m.typed = len(line) > 0
			return nil, 0, false
		},
	})
	return m, err
}

// next discards a line at Ctrl-C, and ends the chat if the line is empty.
func (m *typedMessages) next(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = m.Close() }) // ReadLine returns io.EOF
	defer stop()
	for {
		m.typed = false
		line, err := m.ReadLine()
		if ctx.Err() != nil {
			return "", io.EOF
		}
		if !errors.Is(err, readline.ErrInterrupt) {
			return line, err
		}
		if !m.typed {
			return "", io.EOF
		}
	}
}

// knownCursor answers the line editor's question for the cursor position in place of
// the terminal: prompts begin in the first column. Not every terminal answers, for
// example a script's pseudo terminal, and the editor would wait forever.
type knownCursor struct {
	in  io.Reader
	out io.Writer

	mu      sync.Mutex
	answers []byte
}

var (
	cursorQuestion = []byte("\x1b[6n")
	cursorAnswer   = []byte("\x1b[1;1R")
)

// Write passes on everything except the question.
func (k *knownCursor) Write(p []byte) (int, error) {
	rest := bytes.ReplaceAll(p, cursorQuestion, nil)
	if n := (len(p) - len(rest)) / len(cursorQuestion); n > 0 {
		k.mu.Lock()
		k.answers = append(k.answers, bytes.Repeat(cursorAnswer, n)...)
		k.mu.Unlock()
	}
	if len(rest) > 0 {
		if _, err := k.out.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Read returns answers before keys.
func (k *knownCursor) Read(p []byte) (int, error) {
	k.mu.Lock()
	n := copy(p, k.answers)
	k.answers = k.answers[n:]
	k.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	return k.in.Read(p)
}
