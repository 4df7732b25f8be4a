package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only pages of allowed origins may use the server in a browser, which asks before it sends anything.
func TestOrigins(t *testing.T) {
	const own, other = "https://chat.example.com", "https://other.example.com"
	ask := func(p *program, method, origin string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.address+"/v1/completions", strings.NewReader(`{"prompt":"x","max_tokens":1}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", origin)
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", http.MethodPost)
			r.Header.Set("Access-Control-Request-Headers", "authorization,content-type,x-stainless-os")
		}
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response
	}
	for flag, allowed := range map[string]map[string]bool{"": {own: false}, own: {own: true, other: false}, "*": {own: true, other: true, "null": true}} {
		flags := []string{"--api-key", "secret", "--no-warm-up"}
		if flag != "" {
			flags = append(flags, "--allow-origin", flag)
		}
		p := runProgram(t, flags...)
		for origin, may := range allowed {
			asked, want, status := ask(p, http.MethodOptions, origin), "", http.StatusMethodNotAllowed
			if may {
				want, status = origin, http.StatusNoContent
				require.Contains(t, asked.Header.Get("Access-Control-Allow-Methods"), "POST")
				require.Contains(t, asked.Header.Get("Access-Control-Allow-Headers"), "authorization")
			}
			require.Equal(t, status, asked.StatusCode, "%s for %s", origin, flag)
			require.Equal(t, want, asked.Header.Get("Access-Control-Allow-Origin"))
			// A page can read errors, too, such as that a key is missing.
			refused := ask(p, http.MethodPost, origin)
			require.Equal(t, http.StatusUnauthorized, refused.StatusCode)
			require.Equal(t, "Bearer", refused.Header.Get("WWW-Authenticate"))
			require.Equal(t, want, refused.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	for _, wrong := range []string{"", "example.com", "https://", "https://example.com/", "https://a b"} {
		_, err := parseFlags([]string{"--allow-origin", wrong}, io.Discard)
		require.Error(t, err, wrong)
	}
}

// A page of another site that has the server's address under its own name is refused, if nothing else refuses it.
func TestHosts(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, c := range []struct {
		ip               string
		flags            []string
		allowed, refused []string
	}{
		{
			"127.0.0.1", nil,
			[]string{"", "localhost", "LOCALHOST.:80", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080", "[::1]", "[::ffff:127.0.0.1]:1"},
			[]string{"evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "192.168.0.1:8080", "0.0.0.0:8080", "[::]:8080", ":8080"},
		},
		{"::1", []string{"--listen", "Computer:8080"}, []string{"computer:9", "localhost"}, []string{"evil.example", "computer.evil.example"}},
		{"127.0.0.1", []string{"--allow-origin", "https://Chat.example.com:8443"}, []string{"chat.example.com", "chat.example.com:1"}, []string{"evil.example"}},
		{"127.0.0.1", []string{"--allow-origin", "*"}, []string{"evil.example"}, nil},
		{"127.0.0.1", []string{"--api-key", "k"}, []string{"evil.example"}, nil},
		{"192.168.0.1", nil, []string{"evil.example"}, nil},
		{"::", nil, []string{"evil.example"}, nil},
	} {
		o, err := parseFlags(c.flags, io.Discard)
		require.NoError(t, err)
		h := o.ownHosts(&net.TCPAddr{IP: net.ParseIP(c.ip), Port: 8080}, served)
		for status, hosts := range map[int][]string{http.StatusNoContent: c.allowed, http.StatusForbidden: c.refused} {
			for _, host := range hosts {
				r, w := httptest.NewRequest(http.MethodPost, "/v1/completions", nil), httptest.NewRecorder()
				r.Host = host
				h.ServeHTTP(w, r)
				require.Equal(t, status, w.Code, "%s with %s at %s", host, c.flags, c.ip)
			}
		}
	}
	p := runProgram(t, "--no-warm-up")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+"/v1/models", nil)
	require.NoError(t, err)
	r.Host = "evil.example"
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	require.Contains(t, string(body), `"code":"forbidden_host"`)
}
