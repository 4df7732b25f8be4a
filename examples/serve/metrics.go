package main

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kompute-go/kompute-go/llm/engine"
)

// metrics are the metrics of /metrics, and implement api.Metrics. The engine's counters are read on each request.
type metrics struct {
	model                 atomic.Pointer[loaded] // nil while it is loaded
	registry              *prometheus.Registry
	requests              *prometheus.CounterVec
	duration              *prometheus.HistogramVec
	firstToken, tokenTime prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kompute_requests_total", Help: "HTTP requests that have ended, by route and status.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kompute_request_duration_seconds", Help: "Time from a request to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 18),
		}, []string{"route"}),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kompute_time_to_first_token_seconds", Help: "Time from a request to the first token of each of its choices.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 15),
		}),
		tokenTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kompute_time_per_output_token_seconds", Help: "Time per token after the first, of each choice, however slowly it is read.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 15),
		}),
	}
	m.registry.MustRegister(m.requests, m.duration, m.firstToken, m.tokenTime,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &engineCollector{&m.model})
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Request implements api.Metrics.
func (m *metrics) Request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
}

// FirstToken implements api.Metrics.
func (m *metrics) FirstToken(d time.Duration) { m.firstToken.Observe(d.Seconds()) }

// TokenTime implements api.Metrics.
func (m *metrics) TokenTime(d time.Duration) { m.tokenTime.Observe(d.Seconds()) }

// engineCollector reads the counters of engine and device.
type engineCollector struct{ model *atomic.Pointer[loaded] }

// The engine's counters by name.
var engineMetrics = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(engine.Stats) float64
}{
	gauge("requests_running", "Requests that are in the batch.", func(s engine.Stats) float64 { return float64(s.Running) }),
	gauge("requests_waiting", "Requests in the queue.", func(s engine.Stats) float64 { return float64(s.Waiting) }),
	gauge("pages", "Pages of keys and values.", func(s engine.Stats) float64 { return float64(s.Pages) }),
	gauge("pages_free", "Pages that no request uses.", func(s engine.Stats) float64 { return float64(s.FreePages) }),
	counter("steps_total", "Steps of the engine; generated tokens by steps is the mean batch.", func(s engine.Stats) float64 { return float64(s.Steps) }),
	counter("host_seconds_total", "The host's own time on steps.", func(s engine.Stats) float64 { return s.HostTime.Seconds() }),
	counter("prompt_tokens_total", "Tokens of prompts that were computed, and tokens of answers that were computed again.", func(s engine.Stats) float64 { return float64(s.PromptTokens) }),
	counter("shared_tokens_total", "Tokens of prompts that were in the cache already.", func(s engine.Stats) float64 { return float64(s.SharedTokens) }),
	counter("generated_tokens_total", "Tokens that were generated.", func(s engine.Stats) float64 { return float64(s.GeneratedTokens) }),
	gauge("devices", "Devices that can run steps.", func(s engine.Stats) float64 { return float64(s.Devices) }),
	counter("restarted_total", "Times that steps failed on a device that was not lost, and their requests were computed again.", func(s engine.Stats) float64 { return float64(s.Restarted) }),
	counter("replaced_total", "Times that a device was lost and replaced.", func(s engine.Stats) float64 { return float64(s.Replaced) }),
	counter("drafted_tokens_total", "Tokens that were guessed ahead.", func(s engine.Stats) float64 { return float64(s.DraftedTokens) }),
	counter("accepted_tokens_total", "Tokens that were guessed right.", func(s engine.Stats) float64 { return float64(s.AcceptedTokens) }),
	counter("preempted_total", "Times that a request gave its pages up, to be computed again.", func(s engine.Stats) float64 { return float64(s.Preempted) }),
}

type engineMetric = struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(engine.Stats) float64
}

func gauge(name, help string, value func(engine.Stats) float64) engineMetric {
	return engineMetric{prometheus.NewDesc("kompute_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(engine.Stats) float64) engineMetric {
	return engineMetric{prometheus.NewDesc("kompute_"+name, help, nil, nil), prometheus.CounterValue, value}
}

var (
	memoryDesc   = prometheus.NewDesc("kompute_device_memory_bytes", "Memory of weights, caches and other tensors on a device, without what the steps of the engine keep for results in between.", []string{"device"}, nil)
	fallbackDesc = prometheus.NewDesc("kompute_fallbacks_total", "Ops that a GPU left to the CPU, by device, op and reason.", []string{"device", "op", "reason"}, nil)
)

// Describe implements prometheus.Collector.
func (c *engineCollector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range engineMetrics {
		to <- m.desc
	}
	to <- memoryDesc
	to <- fallbackDesc
}

// Collect implements prometheus.Collector. Before the model is loaded there are no metrics of
// the engine.
func (c *engineCollector) Collect(to chan<- prometheus.Metric) {
	m := c.model.Load()
	if m == nil {
		return
	}
	stats := m.engine.Stats()
	for _, e := range engineMetrics {
		to <- prometheus.MustNewConstMetric(e.desc, e.kind, e.value(stats))
	}
	for i, d := range m.devices() {
		device, index := d.Stats(), strconv.Itoa(i)
		to <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, float64(device.LiveBytes), index)
		for op, reasons := range device.Fallbacks {
			for reason, n := range reasons {
				to <- prometheus.MustNewConstMetric(fallbackDesc, prometheus.CounterValue, float64(n), index, op, reason)
			}
		}
	}
}
