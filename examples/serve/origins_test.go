package main

import (
	"io"
	"net/http"
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
