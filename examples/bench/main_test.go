package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops/optest"
)

// measure runs the program with --json and returns what it printed.
func measure(t *testing.T, args ...string) results {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), append(args, "--json"), &out, io.Discard))
	var r results
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	return r
}

func TestTinyModelIsMeasured(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		backend := d.Info().Backend
		r := measure(t, "--shape", "tiny", "--out", dir, "--device", backend, "-p", "8", "-n", "4", "-d", "0,5", "-r", "1", "--profile", "2")
		require.Equal(t, backend, r.Backend)
		var names []string
		for _, row := range r.Tests {
			names = append(names, row.Name+" "+row.Mode)
			require.Positive(t, row.Median, row.Name)
			require.LessOrEqual(t, row.Low, row.Median)
			require.GreaterOrEqual(t, row.High, row.Median)
			require.Positive(t, row.Work.Dispatches)
			require.Equal(t, row.Mode == modePrompt, row.Work.Per == "prompt")
			require.Equal(t, row.Mode == modePrompt, row.Work.EnqueueNanos == 0)
		}
		require.Equal(t, []string{
			"pp8 prompt", "tg4 region", "tg4 eager", "pp8 @ d5 prompt", "tg4 @ d5 region", "tg4 @ d5 eager",
		}, names)
		m := r.Memory
		require.Positive(t, m.Weights)
		require.Positive(t, m.Cache)
		require.Positive(t, m.Transient)
		require.Greater(t, m.TransientUnplanned, m.Transient)
		require.Greater(t, m.Peak, m.Weights+m.Cache)
		require.Len(t, r.Profiles, 2)
		for _, p := range r.Profiles {
			checkProfile(t, p, r.Tests[1].Work, false)
		}
	})
}

func TestActivationsOf16Bits(t *testing.T) {
	args := []string{"--shape", "tiny", "--device", "cpu", "-p", "8", "-n", "4", "-r", "1", "--profile", "0", "--region"}
	whole, half := measure(t, args...), measure(t, append(args, "--dtype", "bfloat16")...)
	require.Len(t, half.Tests, len(whole.Tests))
	require.Equal(t, whole.Memory.Cache, 2*half.Memory.Cache, "the cache has their type")
	require.ErrorContains(t, run(t.Context(), []string{"--dtype", "int8"}, io.Discard, io.Discard), "--dtype")
}

// With --threads each test is run with each number of threads of the CPU.
func TestThreadsAreCompared(t *testing.T) {
	threads := []string{"2", "1"}[max(2-runtime.NumCPU(), 0):]
	r := measure(t, "--shape", "tiny", "--device", "cpu", "--threads", strings.Join(threads, ","), "-p", "8", "-n", "4", "-r", "1", "--profile", "2", "--region")
	require.Empty(t, r.Tests)
	require.Len(t, r.Scaling, len(threads))
	for i, s := range r.Scaling {
		require.Equal(t, len(threads)-i, s.Threads)
		require.Positive(t, s.MemoryRate)
		require.Len(t, s.Tests, 2)
		prompt, region := s.Tests[0], s.Tests[1]
		require.Zero(t, prompt.MemoryShare)
		require.InEpsilon(t, region.Median*float64(r.Memory.Weights)/s.MemoryRate, region.MemoryShare, 1e-6)
		require.InEpsilon(t, region.Median/r.Scaling[0].Tests[1].Median, region.Speedup, 1e-6)
		require.GreaterOrEqual(t, region.Waiting, 0.0)
		require.Less(t, region.Waiting, 1.0)
	}
	require.EqualValues(t, 1, r.Scaling[0].Tests[1].Speedup)
	// The profile is that of the last number, which is 1: of more threads, fewer may work while
	// other programs want the processors.
	require.Equal(t, 1, r.Profiles[0].Workers)
	for _, args := range [][]string{{"--threads", "0"}, {"--threads", "1000000"}, {"--threads", "x"}, {"--threads", "1", "--device", "auto"}} {
		require.Error(t, run(t.Context(), append([]string{"--shape", "tiny", "--device", "cpu"}, args...), io.Discard, io.Discard), args)
	}
}

func TestTables(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"--shape", "demo", "--device", "cpu", "-p", "4", "-n", "2", "-r", "1", "--profile", "1"}, &out, io.Discard))
	for _, want := range []string{"mote-4bit on ", "pp4", "the prompt pp4 by op", "the prompt's last piece as a region of 4 rows, after 0 tokens", "tg2", "region", "eager", "share", "quantized_matmul", "gaps with a barrier", "unplanned"} {
		require.Contains(t, out.String(), want)
	}
}

func TestOneModeAlone(t *testing.T) {
	for flag, mode := range map[string]string{"--eager": modeEager, "--region": modeRegion} {
		r := measure(t, "--shape", "demo", "--device", "cpu", "-p", "0", "-n", "2", "-r", "1", "--profile", "1", flag)
		require.Len(t, r.Tests, 1)
		require.Equal(t, mode, r.Tests[0].Mode)
		require.Equal(t, mode == modeRegion, len(r.Profiles[0].Kernels) > 0)
		require.Equal(t, mode == modeEager, len(r.Profiles[0].EagerOps) > 0)
	}
	r := measure(t, "--shape", "demo", "--device", "cpu", "-p", "2", "-n", "0", "-r", "1")
	require.Empty(t, r.Profiles)
	require.Len(t, r.Tests, 1)
}

func TestSameSeedMakesTheSameFolder(t *testing.T) {
	s, err := findShape("tiny", defaultPacking)
	require.NoError(t, err)
	files := func(seed uint64) []byte {
		dir := t.TempDir()
		require.NoError(t, makeFolder(t.Context(), dir, s, seed, io.Discard))
		data, err := os.ReadFile(filepath.Join(dir, "model-00001.safetensors"))
		require.NoError(t, err)
		return data
	}
	one := files(1)
	require.True(t, bytes.Equal(one, files(1)))
	require.False(t, bytes.Equal(one, files(2)))
	require.False(t, bytes.Equal(one, files(1<<40+1)), "all bits of a seed count")
}

// A folder is reused only for the same shape and seed.
func TestAFolderIsNotTakenForAnother(t *testing.T) {
	s, err := findShape("tiny", defaultPacking)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "tiny")
	require.NoError(t, makeFolder(t.Context(), dir, s, 1, io.Discard))
	require.NoError(t, makeFolder(t.Context(), dir, s, 1, io.Discard))
	require.ErrorContains(t, makeFolder(t.Context(), dir, s, 2, io.Discard), "seed 2")
	require.NoError(t, os.Remove(filepath.Join(dir, recipeFile)))
	require.Error(t, makeFolder(t.Context(), dir, s, 1, io.Discard), "it was not finished, or made by something else")
}

func TestShapesAreThePublishedSizes(t *testing.T) {
	weights := map[string]float64{"qwen3-0.6b": 0.596e9, "qwen3-1.7b": 1.72e9, "qwen3-4b": 4.02e9, "qwen3-8b": 8.19e9}
	for name, want := range weights {
		s, err := findShape(name, defaultPacking)
		require.NoError(t, err)
		n := 0.0
		for _, m := range s.modules() {
			n += float64(m.out) * float64(m.in)
		}
		require.InEpsilon(t, want, n, 0.01, name)
	}
}

// Every test and profile is announced on stderr, and nothing else goes there.
func TestProgress(t *testing.T) {
	var out, shown bytes.Buffer
	args := []string{"--shape", "demo", "--device", "cpu", "--n-prompt", "2", "--n-gen", "2", "--n-depth", "0,3", "--repetitions", "1", "--profile", "1", "--region"}
	require.NoError(t, run(t.Context(), args, &out, &shown))
	require.Equal(t, `bench: test 1 of 4: pp2, prompt
bench: test 2 of 4: tg2, region
bench: test 3 of 4: pp2 @ d3, prompt
bench: test 4 of 4: tg2 @ d3, region
bench: profile of pp2
bench: profile of pp2 @ d3
bench: profile at depth 0
bench: profile at depth 3
`, shown.String())
}

func TestKeysAreSnakeCase(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"--shape", "demo", "--device", "cpu", "-p", "2", "-n", "2", "-r", "1", "--profile", "1", "--json"}, &out, io.Discard))
	keys := regexp.MustCompile(`"([^"]*)": `).FindAllStringSubmatch(out.String(), -1)
	require.Greater(t, len(keys), 20)
	for _, key := range keys {
		require.Regexp(t, `^[a-z][a-z_]*$`, key[1])
	}
}

// asProgram makes the tests' binary run as the program.
const asProgram = "BENCH_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	blockBytes = 1 << 24
	os.Exit(m.Run())
}

// Whichever signal ends the program, it leaves no temporary folder, and no
// unfinished one where --out named a new one.
func TestSignalsCleanUp(t *testing.T) {
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // otherwise the tests run under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	for _, s := range signals {
		for _, kept := range []bool{false, true} {
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0], "--device=cpu", "--shape=qwen3-0.6b")
			if kept {
				cmd.Args = append(cmd.Args, "--out", filepath.Join(dir, "model"))
			}
			cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+dir)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			require.NoError(t, cmd.Start())
			require.Eventually(t, func() bool {
				files, err := filepath.Glob(filepath.Join(dir, "*", "config.json"))
				return err == nil && len(files) > 0
			}, time.Minute, time.Millisecond)
			require.NoError(t, cmd.Process.Signal(s))
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Wait(), &exit)
			require.Equal(t, cli.ExitInterrupted, exit.ExitCode())
			require.Contains(t, stderr.String(), "bench: interrupted\n")
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
		}
	}
}

// Neither does it if nobody reads what it prints.
func TestABrokenPipeCleansUp(t *testing.T) {
	dir := t.TempDir()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.Close())
	cmd := exec.Command(os.Args[0], "--device=cpu", "--shape=tiny", "-p=2", "-n=2", "-r=1", "--profile=0")
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+dir)
	cmd.Stdout = write
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	require.NoError(t, write.Close())
	require.Equal(t, 1, exit.ExitCode())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A cancelled measurement gives no rates.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.ErrorIs(t, run(ctx, []string{"--shape", "demo", "--device", "cpu", "-p", "2", "-n", "2"}, &out, io.Discard), context.Canceled)
	require.Zero(t, out.Len())
}

// --plot hands the results to the program found on PATH, and reports its error.
func TestPlotIsHandedOver(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	args := []string{"--shape", "demo", "--device", "cpu", "-p", "2", "-n", "0", "-r", "1", "--plot", filepath.Join(dir, "a.svg")}
	require.ErrorContains(t, run(t.Context(), args, io.Discard, io.Discard), "benchplot")
	script := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, plotter), []byte("#!/bin/sh\n"+text), 0o755))
	}
	script(`cat >"$1"`)
	require.NoError(t, run(t.Context(), args, io.Discard, io.Discard))
	text, err := os.ReadFile(filepath.Join(dir, "a.svg"))
	require.NoError(t, err)
	var r results
	require.NoError(t, json.Unmarshal(text, &r))
	require.Len(t, r.Tests, 1)
	t.Chdir(dir)
	script(`case "$1" in -*) exit 1; esac; cat >"$1"`)
	args[len(args)-1] = "-x.svg"
	require.NoError(t, run(t.Context(), args, io.Discard, io.Discard))
	require.FileExists(t, filepath.Join(dir, "-x.svg"))
	args[len(args)-1] = filepath.Join(dir, "a.svg")
	script(`echo no ink; exit 1`)
	require.ErrorContains(t, run(t.Context(), args, io.Discard, io.Discard), "no ink")
	var shown bytes.Buffer
	args[len(args)-1] = filepath.Join(dir, "no", "such.svg")
	require.ErrorContains(t, run(t.Context(), args, io.Discard, &shown), "--plot: ")
	require.Zero(t, shown.Len(), "nothing was measured")
}

func TestRatesOfArithmetic(t *testing.T) {
	for rate, want := range map[float64]string{12e9: "0.012", 0.5e12: "0.50", 1e12: "1.0", 5.25e12: "5.2", 55e12: "55", 554e12: "554"} {
		require.Equal(t, want, tera(rate))
	}
}

// Every op of the table is measured, by its suite's own case, on each device.
func TestOpsAreMeasured(t *testing.T) {
	names := optest.Ops()
	for _, op := range opdef.Ops {
		require.Contains(t, names, op.Name, "an op without a suite is not measured")
	}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		var out bytes.Buffer
		args := []string{"--ops", "copy,quantize,quantized_matmul,scatter", "--sizes", "4096", "--rows", "1,2", "--device", d.Info().Backend, "--json"}
		require.NoError(t, run(t.Context(), args, &out, io.Discard))
		var r roofline
		require.NoError(t, json.Unmarshal(out.Bytes(), &r))
		require.Positive(t, r.StreamRate)
		seen := make(map[string]bool)
		for _, m := range r.Ops {
			seen[m.Op] = true
			require.Positive(t, m.Time, m.Shapes)
			require.Positive(t, m.Share)
			require.NotEmpty(t, m.Kernels)
			if m.Op == "quantized_matmul" {
				require.Contains(t, []int{1, 2}, m.Rows)
				require.Equal(t, 2*float64(m.Rows)*1024*4, m.FLOP)
			}
		}
		require.Len(t, seen, 4, r.Skipped)
		require.Equal(t, r.Backend == "cpu", len(r.Calls) == 0)
	})
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"--device", "cpu", "--ops", "softmax", "--sizes", "1000,4096"}, &out, io.Discard))
	require.Contains(t, out.String(), "not measured: softmax: it has nothing to do at 1000 elements")
	require.Regexp(t, `probes: memory \d+ GB/s read and written\n`, out.String(), "the CPU backend has no probe of arithmetic")
	require.ErrorContains(t, run(t.Context(), []string{"--device", "cpu", "--ops", "softmax,sdpa", "--sizes", "1000"}, io.Discard, io.Discard),
		"--sizes: 1000 elements are too few for softmax,sdpa")
	require.ErrorContains(t, run(t.Context(), []string{"--ops", "sofmax"}, io.Discard, io.Discard), "softmax")
	require.ErrorContains(t, run(t.Context(), []string{"--ops", "copy", "--rows", "0"}, io.Discard, io.Discard), "--rows")
}
