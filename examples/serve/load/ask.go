package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var errBusy = errors.New("the service is busy")

// answer is the part of an answer that is compared.
type answer struct {
	Content, Reasoning, Finish string
	Tokens                     int
}

// begins reports whether all begins with a.
func (a answer) begins(all answer) bool {
	return strings.HasPrefix(all.Content, a.Content) && strings.HasPrefix(all.Reasoning, a.Reasoning)
}

// chunk is an answer of the API, whole or a piece.
type chunk struct {
	Choices []struct {
		Message, Delta struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
		}
		Finish string `json:"finish_reason"`
	}
	Usage *struct {
		Completion int `json:"completion_tokens"`
	}
	Error *struct{ Message string }
}

// ask sends a request; of a stream it reads that many events, or all if events is
// negative.
func (l *load) ask(ctx context.Context, request map[string]any, stream bool, events int) (a answer, err error) {
	request = maps.Clone(request)
	if stream {
		request["stream"], request["stream_options"] = true, map[string]any{"include_usage": true}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	response, err := l.do(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	if stream {
		err = a.readEvents(response.Body, events)
		return a, err
	}
	var c chunk
	if err := json.NewDecoder(response.Body).Decode(&c); err != nil {
		return a, err
	}
	err = a.add(c)
	return a, err
}

func (a *answer) readEvents(body io.Reader, events int) error {
	for lines := bufio.NewScanner(body); ; {
		if events == 0 {
			return nil
		}
		if !lines.Scan() {
			return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if data == "[DONE]" {
			return nil
		}
		if !ok {
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return err
		}
		if err := a.add(c); err != nil {
			return err
		}
		events--
	}
}

func (a *answer) add(c chunk) error {
	if c.Error != nil {
		return errors.New(c.Error.Message)
	}
	if c.Usage != nil {
		a.Tokens = c.Usage.Completion
	}
	for _, choice := range c.Choices {
		a.Content += choice.Message.Content + choice.Delta.Content
		a.Reasoning += choice.Message.Reasoning + choice.Delta.Reasoning
		a.Finish += choice.Finish
	}
	return nil
}

func (l *load) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if l.key != "" {
		r.Header.Set("Authorization", "Bearer "+l.key)
	}
	response, err := l.http.Do(r)
	if err != nil || response.StatusCode == http.StatusOK {
		return response, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusTooManyRequests {
		return nil, errBusy
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // the reason, as far as it can be read
	return nil, fmt.Errorf("%s: %s", response.Status, text)
}

// metrics reads the service's metrics that have no labels.
func (l *load) metrics(ctx context.Context) (map[string]float64, error) {
	response, err := l.do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	out := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				out[name] = v
			}
		}
	}
	return out, lines.Err()
}

// memory is the service's resident memory, every second.
type memory []float64

// watchMemory returns when ctx ends.
func (l *load) watchMemory(ctx context.Context) (m memory) {
	for tick := time.Tick(time.Second); ; {
		select {
		case <-ctx.Done():
			return m
		case <-tick:
			if now, err := l.metrics(ctx); err == nil {
				m = append(m, now["process_resident_memory_bytes"])
			}
		}
	}
}

// growth is how much more memory the last quarter of the run may use than the second.
const growth = 1.1

// check compares the last quarter with the second; in the first, caches fill.
func (m memory) check() error {
	n := len(m) / 4
	if n == 0 {
		return errors.New("the run was too short to watch the memory")
	}
	early, late := mean(m[n:2*n]), mean(m[3*n:])
	fmt.Printf("memory: %.1f MB at first, %.1f MB in the second quarter, %.1f MB in the last\n", m[0]/1e6, early/1e6, late/1e6)
	if late > early*growth {
		return errors.New("the memory grows")
	}
	return nil
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
