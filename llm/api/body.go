package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxValues is the maximum number of values in a body. An empty object has two bytes, and
	// a hundred once it is decoded.
	maxValues = 100_000
	// bodiesAtOnce is how many bodies of --max-body bytes there may be in memory.
	bodiesAtOnce = 32
)

// readJSON reads a request's body, which is limited in bytes, time and values.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		// This also prevents forms of other sites from posting here in a browser.
		return &apiError{status: http.StatusUnsupportedMediaType, message: "the Content-Type is not application/json"}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		// A small body could become a very large one.
		return &apiError{status: http.StatusUnsupportedMediaType, message: fmt.Sprintf("the Content-Encoding is %q, and only a body as it is can be read", coding)}
	}
	body := &countedBody{Reader: http.MaxBytesReader(w, r.Body, s.options.MaxBody), all: &s.bodyBytes, most: s.options.MaxBody}
	defer body.release()
	data, err := io.ReadAll(body)
	large := new(http.MaxBytesError)
	switch {
	case err == nil: // else the deadline of ServeHTTP also limits what the rest of the body may take
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return s.decode(r.Context(), data, into)
	case errors.As(err, &large):
		return bodyTooLarge("the body exceeds %d bytes", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &apiError{status: http.StatusRequestTimeout, message: "the body came too slowly"}
	case errors.Is(err, errBusy):
		return errBusy
	}
	return jsonError(err)
}

func bodyTooLarge(format string, args ...any) error {
	return &apiError{status: http.StatusRequestEntityTooLarge, code: "body_too_large", message: fmt.Sprintf(format, args...)}
}

// countedBody counts the bytes that were read among those of all bodies, until they are
// decoded. A client that sends nothing takes no room.
type countedBody struct {
	io.Reader
	all       *atomic.Int64
	own, most int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.own += int64(n)
	if b.all.Add(int64(n))/bodiesAtOnce >= b.most {
		return n, errBusy
	}
	return n, err
}

func (b *countedBody) release() { b.all.Add(-b.own) }

// decode decodes a body. Only a few are decoded at once, because that takes a processor, and
// several times the memory of the body.
func (s *Server) decode(ctx context.Context, body []byte, into any) error {
	select {
	case s.decoding <- struct{}{}:
		defer func() { <-s.decoding }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := checkValues(body); err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return jsonError(err)
	}
	return nil
}

// checkValues refuses a body with too many values. The members of an object count by their
// names, too. Numbers do not count: a prompt may be an array of very many tokens, each of which
// takes a few bytes, and other fields refuse an array of numbers at the first one.
func checkValues(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	for values := 0; values <= maxValues; {
		token, err := d.ReadToken()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return jsonError(err)
		}
		if k := token.Kind(); k != '0' && k != '}' && k != ']' {
			values++
		}
	}
	return bodyTooLarge("the body has more than %d values and names", maxValues)
}
