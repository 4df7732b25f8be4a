package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
)

func testFlags() (*Flags, *int) {
	f := NewFlags("prog", "Does things.")
	f.String("some-file", "", "write to `file`")
	n := f.Int("count", 3, "how many")
	f.Letter("c", "count")
	return f, n
}

func TestHelpGoesToStdout(t *testing.T) {
	for _, arg := range []string{"--help", "-h", "-help"} {
		f, _ := testFlags()
		var out bytes.Buffer
		require.ErrorIs(t, f.Parse([]string{arg}, &out), flag.ErrHelp)
		require.Equal(t, `usage: prog [flags]

Does things.

  -c, --count int
        how many (default 3)
  --some-file file
        write to file
  --version
        print the version and exit
  --help
        print this help and exit
`, out.String())
	}
}

func TestVersionGoesToStdout(t *testing.T) {
	f, _ := testFlags()
	var out bytes.Buffer
	require.ErrorIs(t, f.Parse([]string{"--version"}, &out), flag.ErrHelp)
	require.Regexp(t, `^prog \(kompute-go\) .+, go1\.\S+ \w+/\w+\n$`, out.String())
	info := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}
	require.Contains(t, versionLine("prog", info), "prog (kompute-go) "+kompute.Version+", go")
	info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}}
	require.Contains(t, versionLine("prog", info), "prog (kompute-go) "+kompute.Version+", commit 0123456789ab, go")
}

func TestLettersAndNames(t *testing.T) {
	for _, args := range [][]string{{"-c", "5"}, {"--count", "5"}, {"--count=5"}} {
		f, n := testFlags()
		require.NoError(t, f.Parse(args, nil))
		require.Equal(t, 5, *n)
	}
	require.Panics(t, func() { NewFlags("prog", "").Letter("x", "nothing") })
}

// Messages name flags as the help does.
func TestBadFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--wrong; see --help": {"--wrong"},
		"for --version":       {"--version=maybe"},
		"flag --count":        {"--count", "x"},
		"flag -c":             {"-c", "x"},
		"--some-file":         {"--some-file"},
	} {
		f, _ := testFlags()
		err := f.Parse(args, nil)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), " -count")
	}
	f, _ := testFlags()
	require.NoError(t, f.Parse([]string{"rest"}, nil))
	require.EqualError(t, f.NoArguments("it goes elsewhere"), `unexpected argument "rest" (it goes elsewhere)`)
	require.NoError(t, f.Parse(nil, nil))
	require.NoError(t, f.NoArguments(""))
}

func TestHelpThatCannotBePrinted(t *testing.T) {
	f, _ := testFlags()
	err := f.Parse([]string{"--help"}, full{})
	require.ErrorIs(t, err, errFull)
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestCheckOutput(t *testing.T) {
	dir := t.TempDir()
	fresh, old := filepath.Join(dir, "fresh"), filepath.Join(dir, "old")
	require.NoError(t, os.WriteFile(old, []byte("text"), 0o600))
	require.NoError(t, CheckOutput("trace", ""))
	require.NoError(t, CheckOutput("trace", "/dev/null"))
	require.NoError(t, CheckOutput("trace", fresh))
	require.NoFileExists(t, fresh)
	require.NoError(t, CheckOutput("trace", old))
	text, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	for _, bad := range []string{dir, filepath.Join(dir, "no", "such"), filepath.Join(old, "below")} {
		require.ErrorContains(t, CheckOutput("trace", bad), "--trace: ")
	}
}

// Files can be read only by the user, and are not written through links.
func TestCreateOutput(t *testing.T) {
	dir := t.TempDir()
	old, fresh, link := filepath.Join(dir, "old"), filepath.Join(dir, "fresh"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(old, []byte("text"), 0o644))
	for _, path := range []string{old, fresh} {
		f, err := CreateOutput(path)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		require.Zero(t, info.Size())
	}
	require.NoError(t, os.WriteFile(old, []byte("text"), 0o600))
	require.NoError(t, os.Symlink(old, link))
	_, err := CreateOutput(link)
	require.ErrorContains(t, err, "is a symbolic link")
	require.ErrorContains(t, CheckOutput("trace", link), "--trace: "+link+" is a symbolic link")
	text, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	f, err := CreateOutput("/dev/stderr")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// Without a terminal, nothing is drawn.
func TestBarsAreForTerminals(t *testing.T) {
	var out bytes.Buffer
	b := NewBar(&out, "work").AtOnce()
	require.Nil(t, b)
	b.Describe("more work")
	b.Set(1, 2)
	b.Close()
	require.Zero(t, out.Len())
}

// A bar shows its share, and leaves nothing behind.
func TestBarIsDrawnAndRemoved(t *testing.T) {
	far, near, err := pty.Open()
	require.NoError(t, err)
	defer far.Close()
	defer near.Close()
	b := NewBar(near, "work").AtOnce()
	b.Set(0, 4)
	b.drawn = time.Now().Add(time.Hour)
	b.Set(1, 4) // too soon after the last drawing
	b.Describe("more work")
	b.Set(4, 4)
	b.Close()
	b.Close()
	want := "\rwork   0% |" + strings.Repeat(" ", barWidth) + "|\x1b[K" +
		"\rmore work  25% |" + strings.Repeat("█", barWidth/4) + strings.Repeat(" ", barWidth*3/4) + "|\x1b[K" +
		"\rmore work 100% |" + strings.Repeat("█", barWidth) + "|\x1b[K\r\x1b[K"
	got := make([]byte, len(want))
	_, err = io.ReadFull(far, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))

	late := NewBar(near, "work")
	late.Set(1, 2) // work that takes no time shows no bar
	require.True(t, late.drawn.IsZero())
}

// A bar stays in one line of the terminal, also after that has become narrower.
func TestBarInANarrowTerminal(t *testing.T) {
	far, near, err := pty.Open()
	require.NoError(t, err)
	defer far.Close()
	defer near.Close()
	what := "test 2 of 3: tg128 @ d1024, region"
	b := NewBar(near, what).AtOnce()
	read := func(columns uint16) string {
		require.NoError(t, pty.Setsize(near, &pty.Winsize{Rows: 24, Cols: columns}))
		b.drawn = time.Time{}
		b.Set(1, 2)
		got, err := bufio.NewReader(far).ReadString('K')
		require.NoError(t, err)
		line, ended := strings.CutSuffix(strings.TrimPrefix(got, "\r"), "\x1b[K")
		require.True(t, ended)
		return line
	}
	full, empty := strings.Repeat("█", barWidth/2), strings.Repeat(" ", barWidth/2)
	require.Equal(t, what+"  50% |"+full+empty+"|", read(100))
	require.Equal(t, what+"  50% |"+strings.Repeat("█", 18)+strings.Repeat(" ", 19)+"|", read(80))
	require.Equal(t, "test 2 of 3:   50% |█████     |", read(32))
	for columns := uint16(1); columns < 120; columns++ {
		require.Less(t, len([]rune(read(columns))), int(columns))
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 0, ""},
		{flag.ErrHelp, 0, ""},
		{errFull, 1, "prog: no space left\n"},
		{errors.Join(context.Canceled, errFull), ExitInterrupted, "prog: interrupted\n"},
	} {
		var out bytes.Buffer
		require.Equal(t, c.code, ExitCode(&out, "prog", c.err))
		require.Equal(t, c.want, out.String())
	}
}

func TestFirstSignalCancels(t *testing.T) {
	this, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // otherwise the tests run under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	for _, s := range signals {
		ctx, stop := Interruptible(t.Context())
		require.NoError(t, this.Signal(s))
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("the signal did nothing")
		}
		stop()
	}
}

// Under nohup, the end of a terminal ends nothing.
func TestIgnoredHangup(t *testing.T) {
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Ignore(syscall.SIGHUP)
		defer signal.Reset(syscall.SIGHUP)
	}
	ctx, stop := Interruptible(t.Context())
	defer stop()
	this, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, this.Signal(syscall.SIGHUP))
	require.NoError(t, this.Signal(syscall.SIGTERM))
	<-ctx.Done()
	require.ErrorContains(t, context.Cause(ctx), syscall.SIGTERM.String())
}
