// Command serve answers the APIs of OpenAI and Anthropic with a language model, for many clients at
// once, on a GPU through Vulkan or on the CPU. It is a module of its own that uses
// kompute-go as any other program would: copy the folder to begin a service.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kompute-go/kompute-go/llm/api"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // the service outlives whatever reads its log
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// run is the program: it serves until ctx is cancelled, and then until the accepted
// requests are answered or the time for that is over.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseFlags(args, stdout)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	if o.logJSON {
		log = slog.New(slog.NewJSONHandler(stderr, nil))
	}
	m := newMetrics()
	o.api.Log, o.api.Metrics = log, m
	s := api.New(o.api)
	s.Handle("GET /metrics", m.handler())
	s.Handle("GET /{$}", http.HandlerFunc(page))
	s.Handle("GET /page/{file}", http.HandlerFunc(page))
	secure, err := o.tls()
	if err != nil {
		return err
	}
	listener, err := o.listener()
	if err != nil {
		return err
	}
	working, abandon := context.WithCancelCause(context.Background())
	defer abandon(nil)
	h := &http.Server{
		Handler: allowOrigins(o.origins, o.ownHosts(listener.Addr(), s)), TLSConfig: secure, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return working },
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	new(silent).closeWhenShutDown(h)
	served := make(chan error, 1)
	go func() { served <- o.serve(h, listener) }()
	open, err := openModel(ctx, o, log)
	if err != nil {
		return errors.Join(ignoreCancel(err), h.Close())
	}
	if err := s.SetModel(ctx, open.folder, open.engine); err != nil {
		return errors.Join(ignoreCancel(err), h.Close(), open.Close())
	}
	m.model.Store(open)
	log.Info("serving", "model", open.folder.Name(), "device", open.names(), "address", listener.Addr().String(), "tls", o.tlsCert != "")
	select {
	case err = <-served: // only if accepting connections fails
	case <-ctx.Done():
		s.Drain()
		err = o.drainServer(h, abandon)
	}
	return errors.Join(err, open.Close())
}

// ignoreCancel returns nil for the error of a signal during loading.
func ignoreCancel(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// listener opens the address before anything that takes long.
func (o *options) listener() (net.Listener, error) {
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return l, nil
}

// serve serves until the server is shut down.
func (o *options) serve(h *http.Server, l net.Listener) error {
	if h.TLSConfig == nil {
		return h.Serve(l)
	}
	return h.ServeTLS(l, "", "")
}

// tls reads the certificate; without one the configuration is nil.
func (o *options) tls() (*tls.Config, error) {
	if o.tlsCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}, nil
}

// abandonTime is how long requests that drain has cancelled have to report that.
const abandonTime = 2 * time.Second

// drainServer lets new requests be refused with an answer for --drain-delay, and then no longer
// listens. It waits for those that were accepted as long as --drain allows, and then ends them
// with an error.
func (o *options) drainServer(h *http.Server, abandon context.CancelCauseFunc) error {
	o.api.Log.Info("draining", "delay", o.drainDelay, "time", o.drain)
	time.Sleep(o.drainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), o.drain)
	defer cancel()
	err := h.Shutdown(ctx)
	if err == nil {
		o.api.Log.Info("drained")
		return nil
	}
	o.api.Log.Warn("requests are cut off: --drain is over")
	abandon(api.ErrShutdown)
	ctx, cancel = context.WithTimeout(context.Background(), abandonTime)
	defer cancel()
	if h.Shutdown(ctx) != nil {
		return h.Close()
	}
	return nil
}
