//go:build cgo && !nogpu

package faulttest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

var (
	errWrong = errors.New("wrong numbers")
	control  *Control
	seen     = make(table) // the outcomes of the faults so far
	// everything runs every pair of function and call, with every result.
	everything = os.Getenv("KOMPUTE_GO_FAULTS") == "all"
	// only lists the functions that are made to fail, separated by commas; empty: all.
	only = os.Getenv("KOMPUTE_GO_FAULTS_FUNCTION")
	// part, as "2/14", picks the second of 14 parts of the cases, for that many processes side by side.
	part = os.Getenv("KOMPUTE_GO_FAULTS_PART")
	// verbose prints each case before it runs, and how it ended.
	verbose = os.Getenv("KOMPUTE_GO_FAULTS_VERBOSE") != ""
)

// deadline limits one case, which normally takes milliseconds.
const deadline = 60 * time.Second

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	loader := os.Getenv("KOMPUTE_GO_FAULT_LOADER") // ./build.sh sets it
	if loader != "" {
		if _, err := os.Stat(loader); err != nil {
			fmt.Println("FAIL: KOMPUTE_GO_FAULT_LOADER:", err)
			return 1
		}
	} else {
		loader, _ = filepath.Abs("../../build/csrc/tests/faults/libfault_loader.so")
		if _, err := os.Stat(loader); err != nil {
			fmt.Println("no tests: there is no fault loader; ./build.sh test makes it")
			flag.Parse()
			if err := flag.Set("test.run", "^$"); err != nil { // go test then says that there were no tests to run
				panic(err)
			}
			return m.Run()
		}
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "control")
	for name, value := range map[string]string{
		"KOMPUTE_GO_VULKAN_LIBRARY": loader, "KOMPUTE_GO_FAULT_CONTROL": file,
		"KOMPUTE_GO_VALIDATION":  "", // it would report the injected faults
		"KOMPUTE_GO_FAULT_START": fmt.Sprint("vkCreateInstance ", initializationFailed),
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	if err := start(file); err != nil {
		fmt.Println("FAIL:", err)
		return 1
	}
	return m.Run()
}

// start makes calls fail that happen once in a process, before it lets them
// succeed. It is not a test of its own, because it must run before all others.
func start(file string) error {
	list := []fault{{"vkCreateInstance", 1, 1, initializationFailed}}
	for _, function := range []string{"vkCreateInstance", "vkEnumerateInstanceVersion"} {
		for _, result := range Results(function) {
			list = append(list, fault{function, 1, 1, result})
		}
	}
	for i, f := range list {
		if i > 0 {
			control.Fail(f.function, f.from, f.times, f.result)
		}
		_, err := kompute.Devices()
		if i == 0 { // which loaded the fault loader
			var broken error
			if control, broken = OpenControl(file); broken != nil {
				return broken
			}
		}
		name, unknown := outcome(err)
		if unknown != nil || err == nil || control.Failed() != 1 {
			return fmt.Errorf("%v, %d calls: %v", f, control.Failed(), err)
		}
		seen.add(f.function, name)
	}
	control.Disarm()
	_, err := kompute.Devices()
	return err
}

// fault is one case: calls of function from number from on return result.
type fault struct {
	function string
	from     uint64
	times    uint64
	result   int32
}

func (f fault) String() string {
	return fmt.Sprintf("%s call %d (%d times) returns %d", f.function, f.from, f.times, f.result)
}

// faults lists the cases for calls that were counted: a share of them, or all.
func (w workload) faults(calls map[string]uint64) []fault {
	var list []fault
	for _, function := range slices.Sorted(maps.Keys(calls)) {
		n := calls[function]
		if only != "" && !slices.Contains(strings.Split(only, ","), function) || !everything && len(w.mostly) > 0 && !slices.Contains(w.mostly, function) {
			continue
		}
		kinds := Results(function)
		for k := uint64(1); k <= n; k++ {
			if !everything && k > 1 && k < n { // a shorter run makes the first fail and the last
				continue
			}
			results := kinds
			if w.long && k > 1 && k < n { // of a call between, one result after the other
				results = kinds[k%uint64(len(kinds)):][:1]
			}
			for _, result := range results {
				if !everything && !w.chosen(function, k) {
					break
				}
				list = append(list, fault{function, k, 1, result})
				if everything && result < 0 {
					list = append(list, fault{function, k, ^uint64(0), result}) // and never works again
				}
				if !everything {
					break
				}
			}
		}
	}
	return list
}

// partOf picks the cases that this process runs.
func partOf(t *testing.T, list []fault) (mine []fault) {
	i, n := 1, 1
	if part != "" {
		_, err := fmt.Sscanf(part, "%d/%d", &i, &n)
		require.NoError(t, err, part)
		require.True(t, 1 <= i && i <= n, part)
	}
	for at, f := range list {
		if at%n == i-1 {
			mine = append(mine, f)
		}
	}
	return mine
}

// Normal runs try one of share cases.
const share = 5

// chosen picks the cases of normal runs, which are always the same.
func (w workload) chosen(function string, k uint64) bool {
	if len(w.mostly) > 0 {
		return true
	}
	h := fnv.New32a()
	fmt.Fprint(h, w.name, function, k == 1)
	return h.Sum32()%share == 0
}

// inTime ends the process if f does not return: a call that hangs holds locks.
func inTime(what fmt.Stringer, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(deadline):
		debug.SetTraceback("all")
		panic(what.String() + ": it hangs")
	}
}

func TestFaults(t *testing.T) {
	openDemo(t)
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) {
			calls := make(map[string]uint64)
			inTime(fault{}, func() {
				control.Reset()
				require.NoError(t, w.attempt(func() { control.Reset() }, func() { calls = control.Calls() }, false).err)
			})
			require.NotEmpty(t, calls)
			for _, f := range partOf(t, w.faults(calls)) {
				inTime(f, func() { check(t, w, f) })
			}
		})
	}
	report(t)
}

// check runs one case.
func check(t *testing.T, w workload, f fault) {
	if verbose {
		fmt.Fprintf(os.Stderr, "%s %v: ", w.name, f)
	}
	got := w.attempt(func() { control.Fail(f.function, f.from, f.times, f.result) }, control.Disarm, f.result == deviceLost)
	name, err := outcome(got.err)
	if err == nil {
		err = got.after
	}
	if err != nil {
		name = "WRONG"
		t.Errorf("%v: %v (the workload: %v)", f, err, got.err)
	}
	seen.add(f.function, name)
	if verbose {
		fmt.Fprintln(os.Stderr, name)
	}
}

// attempted is the outcome of a case.
type attempted struct {
	err   error // of the workload
	after error // why the state afterwards was not right
}

// attempt runs the workload on a fresh device, between arm and disarm, and checks
// the tensors that it leaves. If the device may be lost, these may be lost as
// well.
func (w workload) attempt(arm, disarm func(), lost bool) (out attempted) {
	d, err := kompute.Open("vulkan")
	if err != nil {
		return attempted{err: fmt.Errorf("%w: %w", errWrong, err)} // nothing has been made to fail yet
	}
	j := &job{ctx: context.Background(), d: d}
	arm()
	out.err = w.run(j)
	disarm()
	out.after = j.check(out.err, lost || errors.Is(out.err, kompute.ErrDeviceLost))
	_ = d.Close() // the error of a poisoned stream
	return out
}

// check examines the tensors left by a workload that ended with cause, and
// whether the device still works. A lost device reports that it is lost.
func (j *job) check(cause error, lost bool) error {
	for _, l := range j.left {
		if err := j.checkLeft(l, lost, cause != nil); err != nil {
			return err
		}
	}
	s, err := j.d.NewStream()
	if err != nil {
		return allow(err, lost)
	}
	for _, l := range j.left {
		if !l.input {
			continue
		}
		want := make([]float32, size)
		for i, v := range l.allowed[0] {
			want[i] = 2 * v
		}
		got, err := ops.Add(s, l.tensor, l.tensor).Read(j.ctx)
		if err != nil {
			return allow(fmt.Errorf("%s on a fresh stream: %w", l.name, err), lost)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s+%s on a fresh stream: %w: %v…", l.name, l.name, errWrong, got[:4])
		}
	}
	return allow(s.Close(), lost)
}

// checkLeft reads one tensor.
func (j *job) checkLeft(l left, lost, failed bool) error {
	if l.tensor == nil {
		return nil
	}
	got, err := l.tensor.Read(j.ctx)
	if err != nil {
		if !failed && !lost {
			return fmt.Errorf("%s cannot be read although nothing failed: %w", l.name, err)
		}
		if l.input {
			return allow(fmt.Errorf("%s: %w", l.name, err), lost)
		}
		if errors.Is(err, kompute.ErrCapture) || errors.Is(err, kompute.ErrInvalid) {
			return nil // its region was not made or replayed
		}
		_, err = outcome(err)
		return err
	}
	for _, want := range l.allowed {
		if slices.Equal(got, want) {
			return nil
		}
	}
	return fmt.Errorf("%s: %w: %v…, not %v…", l.name, errWrong, got[:4], l.allowed[0][:4])
}

// allow accepts an error if the device is lost.
func allow(err error, lost bool) error {
	if lost && errors.Is(err, kompute.ErrDeviceLost) {
		return nil
	}
	return err
}
