package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// maxLine is the longest message that chat reads, in bytes.
const maxLine = 16 << 20

// chat reads a message a line and answers each, until stdin ends or ctx is
// cancelled. A message that cannot be answered is refused and forgotten.
func (a *app) chat(ctx context.Context, stdin io.Reader) error {
	history := generate.Turn(a.system, "")
	history = history[:len(history)-1] // the system message, if any
	lines, failed := readLines(ctx, stdin)
	for {
		if !a.quiet {
			fmt.Fprint(a.stdout, "> ")
		}
		var line string
		var open bool
		select {
		case <-ctx.Done():
			return a.print("\n")
		case line, open = <-lines:
		}
		switch {
		case !open:
			return errors.Join(<-failed, a.print("\n"))
		case line == "":
			continue
		}
		answered, err := a.turn(ctx, append(history, chat.Message{Role: "user", Content: line}))
		switch {
		case errors.Is(err, generate.ErrPrompt) || errors.Is(err, tokenizer.ErrEncoding):
			fmt.Fprintln(a.stderr, "decode:", oneLine(err))
		case err != nil:
			return err
		default:
			history = answered
		}
	}
}

// turn answers the last message and returns the conversation with the answer.
func (a *app) turn(ctx context.Context, history []chat.Message) ([]chat.Message, error) {
	ids, err := a.folder.EncodeChat(history)
	if err != nil {
		return nil, err
	}
	r, err := a.generate(ctx, ids, a.print)
	if err != nil {
		return nil, err
	}
	return append(history, chat.Message{Role: "assistant", Content: r.Text}), a.finish(len(ids), r)
}

// readLines reads in the background, so that cancelling does not wait for a
// line. lines is closed at the end of the input; then failed gives its error.
func readLines(ctx context.Context, in io.Reader) (lines chan string, failed chan error) {
	lines, failed = make(chan string), make(chan error, 1)
	go func() {
		scan := bufio.NewScanner(in)
		scan.Buffer(nil, maxLine)
		for scan.Scan() {
			select {
			case lines <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
		failed <- scan.Err()
		close(lines)
	}()
	return lines, failed
}
