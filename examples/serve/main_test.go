package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// output is what a program prints, which several goroutines may read and write.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

var address = regexp.MustCompile(`msg=serving .*address=(\S+)`)

// program runs the program until its context ends.
type program struct {
	address string
	stop    context.CancelFunc
	log     *output
	ended   chan error
}

func runProgram(t *testing.T, flags ...string) *program {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &program{stop: stop, log: &output{}, ended: make(chan error, 1)}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	go func() {
		p.ended <- run(ctx, append([]string{"--listen", "127.0.0.1:0", "--device", "cpu", "--sequences", "4"}, flags...), io.Discard, p.log)
	}()
	require.Eventually(t, func() bool {
		m := address.FindStringSubmatch(p.log.String())
		if m != nil {
			p.address = m[1]
		}
		return m != nil
	}, time.Minute, time.Millisecond)
	return p
}

// end waits for the program's end.
func (p *program) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(30 * time.Second):
		require.Fail(t, "the program does not end")
		return nil
	}
}

func (p *program) post(t *testing.T, body string) *http.Response {
	t.Helper()
	response, err := http.Post("http://"+p.address+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, http.StatusOK, response.StatusCode)
	return response
}

const question = `"messages":[{"role":"user","content":"Hi what is your name"}],"temperature":0`

// long asks for an answer of thousands of tokens, drawn almost at random.
const long = `{"stream":true,"temperature":100,"top_p":1,"top_k":0,"min_tokens":4000,"messages":[{"role":"user","content":"Hi"}]}`

// A signal lets what was accepted be finished, and takes nothing more.
func TestDrain(t *testing.T) {
	p := runProgram(t)
	response := p.post(t, `{"stream":true,`+question+`}`)
	p.stop()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "Vulkan")
	require.True(t, strings.HasSuffix(string(text), "data: [DONE]\n\n"))
	require.NoError(t, p.end(t))
	require.Contains(t, p.log.String(), "msg=drained")
	_, err = http.Get("http://" + p.address + "/healthz")
	require.Error(t, err)
}

// asProgram makes the tests' binary run as the program.
const asProgram = "SERVE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The program goes on, and drains, if nothing reads its log any more.
func TestABrokenLog(t *testing.T) {
	cmd := exec.Command(os.Args[0], "--listen=127.0.0.1:0", "--device=cpu", "--no-warm-up")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }() // it has ended already, unless the test fails
	var at []string
	for lines := bufio.NewScanner(log); at == nil && lines.Scan(); {
		at = address.FindStringSubmatch(lines.Text())
	}
	require.NotNil(t, at)
	require.NoError(t, log.Close())
	for range 2 {
		response, err := http.Get("http://" + at[1] + "/v1/models")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// A connection on which nothing came does not delay the end.
func TestDrainOfASilentConnection(t *testing.T) {
	p := runProgram(t, "--drain", "4s")
	conn, err := net.Dial("tcp", p.address)
	require.NoError(t, err)
	defer conn.Close()
	response, err := http.Get("http://" + p.address + "/healthz") // accepted after the other
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	p.stop()
	require.NoError(t, p.end(t))
	require.Contains(t, p.log.String(), "msg=drained")
}

// During --drain-delay the server still answers, to refuse what is new.
func TestDrainDelay(t *testing.T) {
	p := runProgram(t, "--drain-delay", "1900ms")
	p.stop()
	for _, path := range []string{"/readyz", "/v1/models"} {
		require.Eventually(t, func() bool {
			response, err := http.Get("http://" + p.address + path)
			return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusServiceUnavailable
		}, 5*time.Second, 10*time.Millisecond)
	}
	require.NoError(t, p.end(t))
}

// What takes longer than --drain is told so.
func TestDrainInTime(t *testing.T) {
	p := runProgram(t, "--drain", "10ms")
	response := p.post(t, long)
	p.stop()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `"code":"shutting_down"`)
	require.NoError(t, p.end(t))
	require.Contains(t, p.log.String(), "cut off")
}

func TestTLS(t *testing.T) {
	cert, key := writeCertificate(t)
	p := runProgram(t, "--tls-cert", cert, "--tls-key", key, "--log-json=false", "--stall", "300ms", "--sequences", "1")
	roots := x509.NewCertPool()
	data, err := os.ReadFile(cert)
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(data))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	post := func(body string) *http.Response {
		response, err := client.Post("https://"+p.address+"/v1/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.Equal(t, 2, response.ProtoMajor)
		return response
	}
	before := post(long) // which the next one waits for, longer than for the end of a write
	response := post(`{"stream":true,` + question + `}`)
	defer response.Body.Close()
	time.Sleep(600 * time.Millisecond)
	require.NoError(t, before.Body.Close())
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "[DONE]")
	client.CloseIdleConnections()
	p.stop()
	require.NoError(t, p.end(t))
}

func TestCommandLine(t *testing.T) {
	var out bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"--help"}, &out, io.Discard), flag.ErrHelp)
	require.Contains(t, out.String(), "--tls-cert file")
	out.Reset()
	require.ErrorIs(t, run(t.Context(), []string{"--version"}, &out, io.Discard), flag.ErrHelp)
	require.Contains(t, out.String(), "serve (kompute-go) ")
	closed, full := io.Pipe()
	require.NoError(t, closed.Close())
	for _, arg := range []string{"--help", "--version"} {
		err := run(t.Context(), []string{arg}, full, io.Discard)
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.NotErrorIs(t, err, flag.ErrHelp)
	}
	for want, args := range map[string][]string{
		"--nonsense":          {"--nonsense"},
		"for --log-json":      {"--log-json=maybe"},
		"unexpected argument": {"model"},
		"need each other":     {"--tls-cert", "x"},
		"exclude each other":  {"--batch-invariance", "--no-batch-invariance"},
		"--tls-cert":          {"--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"},
		"--listen":            {"--listen", "nowhere:-1"},
		"no address":          {"--listen", "", "--device", "nonsense"},
		"an empty key":        {"--listen", "nowhere:-1", "--api-key", ""},
		"--stall":             {"--stall", "0s"},
		"--drain-delay":       {"--drain-delay", "-1s"},
		"--queue":             {"--queue", "0"},
		"must not exceed":     {"--queue", "9223372036854775807"},
		"--max-body":          {"--max-body", "-1"},
		"--replace-device":    {"--replace-device", "-1"},
		"--pooling":           {"--pooling", "cls"},
		"--draft":             {"--draft", "-1"},
		"--chunk":             {"--chunk", "-1"},
		"without a name":      {"--listen", "nowhere:-1", "--device", "cpu,,cpu"},
		"/nonexistent":        {"--listen", "127.0.0.1:0", "--model", "/nonexistent"},
		"--device":            {"--listen", "127.0.0.1:0", "--device", "nonsense"},
		"exceeds the model's": {"--listen", "127.0.0.1:0", "--device", "cpu", "--context", "1000000"},
	} {
		require.ErrorContains(t, run(t.Context(), args, io.Discard, io.Discard), want)
	}
}

func TestGarbagePercent(t *testing.T) {
	require.Equal(t, 20, garbagePercent(1000<<20, 800<<20), "what else there is")
	require.Equal(t, 8, garbagePercent(800<<20, 790<<20), "at least 64 MB")
	require.Equal(t, 1, garbagePercent(100<<30, 100<<30), "of a large heap")
	require.Equal(t, 64, garbagePercent(100<<20, 8<<30), "of tensors elsewhere")
	require.Equal(t, 100, garbagePercent(10<<20, 8<<30), "not more than usual")
}

// writeCertificate makes a certificate for 127.0.0.1.
func writeCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	own, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	write := func(file, kind string, der []byte) {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	write(cert, "CERTIFICATE", own)
	write(key, "PRIVATE KEY", der)
	return cert, key
}
