// Command load puts a running service under load, and checks what it answers: many
// clients ask at once, plain and streamed, some disconnect in the middle, and every
// answer must be the one that the same request gets alone. At the end nothing may be
// left in the engine, and the service's memory must have stayed the same.
//
//	bin/serve --device cpu &
//	go run ./load -clients 64 -time 2m
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

// load is a run against one service.
type load struct {
	url, key  string
	clients   int
	time      time.Duration
	cancelled float64 // share of requests
	faults    bool    // the service's device is made to fail
	http      *http.Client
	cases     []testCase
	counts    counts
}

func main() {
	l := &load{}
	flag.StringVar(&l.url, "url", "http://127.0.0.1:8080", "the service")
	flag.StringVar(&l.key, "key", "", "its API key")
	flag.IntVar(&l.clients, "clients", 64, "how many ask at once")
	flag.DurationVar(&l.time, "time", 2*time.Minute, "how long")
	flag.Float64Var(&l.cancelled, "cancel", 0.25, "share of requests whose client goes away")
	flag.BoolVar(&l.faults, "faults", false, "the service runs on a device that is made to fail: it may refuse requests with an error, but must answer none wrongly")
	requests := flag.Int("requests", 64, "how many different requests there are")
	flag.Parse()
	l.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.clients}}
	l.cases = makeCases(*requests)
	if err := l.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func (l *load) run(ctx context.Context) error {
	start := time.Now()
	for i := range l.cases {
		if err := l.alone(ctx, &l.cases[i]); err != nil {
			return fmt.Errorf("request %d alone: %w", i, err)
		}
	}
	fmt.Printf("%d requests alone: %.1f s\n", len(l.cases), time.Since(start).Seconds())
	before, err := l.metrics(ctx)
	if err != nil {
		return err
	}
	limited, stop := context.WithTimeout(ctx, l.time)
	defer stop()
	var wg sync.WaitGroup
	start = time.Now()
	for i := range l.clients {
		wg.Go(func() { l.client(limited, uint64(i)) })
	}
	memory := l.watchMemory(limited)
	wg.Wait()
	took := time.Since(start)
	after, err := l.settled(ctx)
	if err != nil {
		return err
	}
	l.counts.print()
	if l.faults {
		fmt.Printf("devices replaced %.0f times, steps begun again %.0f times\n", after["kompute_replaced_total"], after["kompute_restarted_total"])
	}
	tokens := after["kompute_generated_tokens_total"] - before["kompute_generated_tokens_total"]
	steps := after["kompute_steps_total"] - before["kompute_steps_total"]
	fmt.Printf("%d clients, %.0f s: %.0f tokens, %.0f tokens/s, %.1f tokens a step, %.0f prompt tokens shared, %.0f evicted\n", l.clients, took.Seconds(),
		tokens, tokens/took.Seconds(), tokens/steps, after["kompute_shared_tokens_total"]-before["kompute_shared_tokens_total"],
		after["kompute_preempted_total"]-before["kompute_preempted_total"])
	if err := l.counts.check(l.faults); err != nil {
		return err
	}
	return memory.check()
}

// settled waits until the engine has nothing left to do, and all pages are free.
func (l *load) settled(ctx context.Context) (map[string]float64, error) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		m, err := l.metrics(ctx)
		if err != nil {
			return nil, err
		}
		if m["kompute_requests_running"]+m["kompute_requests_waiting"] == 0 && m["kompute_pages"] == m["kompute_pages_free"] {
			return m, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("something is left in the engine: running %v, waiting %v, pages %v, of which free %v",
				m["kompute_requests_running"], m["kompute_requests_waiting"], m["kompute_pages"], m["kompute_pages_free"])
		}
	}
}
