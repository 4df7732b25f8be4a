package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

const chatHelp = `/clear  forget the conversation
/bye    end the program, as Ctrl-D does
/help   print this list
Ctrl-C  end the answer, or the program if it is not answering
`

// conversation is a chat under way.
type conversation struct {
	*app
	messages []chat.Message // so far; the first may be the system message
}

// chat reads messages and answers each, until the input ends, the user ends it
// or ctx is cancelled. A message that cannot be answered is refused and forgotten.
func (a *app) chat(ctx context.Context, stdin io.Reader) (err error) {
	in, err := a.newMessages(stdin)
	if err != nil {
		return err
	}
	defer closeInto(&err, in)
	c := &conversation{app: a}
	c.clear()
	for {
		line, err := in.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return a.print("\n")
		case err != nil:
			return errors.Join(err, a.print("\n"))
		case line == "":
			continue
		}
		if command := commandLine.FindString(line); command != "" {
			if done, err := c.command(command); done || err != nil {
				return err
			}
			continue
		}
		if err := c.answer(ctx, line); err != nil {
			return err
		}
	}
}

// clear forgets the conversation.
func (c *conversation) clear() {
	turn := generate.Turn(c.system, "")
	c.messages = turn[:len(turn)-1] // the system message, if any
}

// commandLine matches lines that are commands: a message, too, may begin with a
// slash, for example with the name of a file.
var commandLine = regexp.MustCompile(`^/[a-z]*$`)

// command runs a line with a slash. done: the program ends.
func (c *conversation) command(line string) (done bool, err error) {
	switch line {
	case "/bye":
		return true, nil
	case "/clear":
		c.clear()
		_, err = fmt.Fprintln(c.stderr, "The conversation is forgotten.")
	case "/help":
		_, err = io.WriteString(c.stderr, chatHelp)
	default:
		_, err = fmt.Fprintf(c.stderr, "decode: unknown command %s; the commands are:\n%s", line, chatHelp)
	}
	return false, err
}

// answer answers a message; message and answer become part of the conversation.
// Ctrl-C ends the answer, and what was generated so far is kept, with an end for its
// thoughts, so that templates do not take them for the answer; if the message was not
// even read by then, it is forgotten. A second Ctrl-C ends the program at once.
func (c *conversation) answer(outer context.Context, text string) error {
	ctx, stop := signal.NotifyContext(outer, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop)
	messages := append(c.messages[:len(c.messages):len(c.messages)], chat.Message{Role: "user", Content: text})
	ids, err := c.folder.EncodeChatWith(ctx, messages, c.template())
	var r *generate.Result
	if err == nil {
		r, err = c.generateText(ctx, ids)
	}
	switch {
	case errors.Is(err, context.Canceled) && outer.Err() == nil: // the answer was ended, not the program
		_, err = fmt.Fprintln(c.stderr, "The message is forgotten.")
		return err
	case errors.Is(err, generate.ErrPrompt) || errors.Is(err, tokenizer.ErrEncoding) || errors.Is(err, chat.ErrTemplate) && outer.Err() == nil:
		_, err = fmt.Fprintf(c.stderr, "decode: %s%s\n", oneLine(err), c.remedy())
		return err
	case err != nil:
		return err
	}
	if r.Text != "" {
		content := closeThoughts(r.Text, c.endsInThoughts(ids))
		c.messages = append(messages, chat.Message{Role: "assistant", Content: content})
	}
	return c.finish(len(ids), r)
}

// remedy is advice for a message that cannot be answered.
func (c *conversation) remedy() string {
	if len(c.messages) < 2 {
		return ""
	}
	return " (/clear forgets the conversation so far)"
}
