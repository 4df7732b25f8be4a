package main

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// addOrigin adds the origin of --allow-origin.
func (o *options) addOrigin(origin string) error {
	if u, err := url.Parse(origin); origin != "*" && (err != nil || u.Scheme == "" || origin != u.Scheme+"://"+u.Host || u.Host == "") {
		return errors.New("neither * nor like https://example.com")
	}
	o.origins = append(o.origins, strings.ToLower(origin))
	return nil
}

// allowOrigins lets the pages of these origins use a handler. Without it, browsers keep the pages of other sites from
// that.
func allowOrigins(origins []string, to http.Handler) http.Handler {
	if len(origins) == 0 {
		return to
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowOrigin(origins, w, r) {
			to.ServeHTTP(w, r)
		}
	})
}

// allowOrigin lets the page of an allowed origin read the answer. It reports whether the request is a browser's question
// whether such a page may send one, which it has answered.
func allowOrigin(origins []string, w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	header := w.Header()
	header.Add("Vary", "Origin")
	if origin == "" || !slices.Contains(origins, "*") && !slices.Contains(origins, strings.ToLower(origin)) {
		return false
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Set("Access-Control-Allow-Methods", "GET, POST")
	// * would not include Authorization, and OpenAI's client has headers of its own.
	header.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	header.Set("Access-Control-Max-Age", "3600")
	header.Add("Vary", "Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
	return true
}
