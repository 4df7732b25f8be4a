package main

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
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

// ownHosts refuses requests to other hosts than this computer, if only programs of this computer can connect, and need
// no key: a page of another site could otherwise use the server, by a name of its own that leads here (DNS rebinding).
// The hosts of --listen and --allow-origin are allowed.
func (o *options) ownHosts(at net.Addr, to http.Handler) http.Handler {
	tcp, _ := at.(*net.TCPAddr)
	if tcp == nil || !tcp.IP.IsLoopback() || o.api.Key != "" || slices.Contains(o.origins, "*") {
		return to
	}
	hosts := []string{"localhost", hostname(o.listen)}
	for _, origin := range o.origins {
		_, host, _ := strings.Cut(origin, "://")
		hosts = append(hosts, hostname(host))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostname(r.Host)
		ip, err := netip.ParseAddr(host)
		if r.Host == "" || err == nil && ip.Unmap().IsLoopback() || slices.Contains(hosts, host) { // a browser gives a host
			to.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(wrongHost)) // a client that has disconnected needs no answer
	})
}

// wrongHost is the error in OpenAI's form.
const wrongHost = `{"error":{"message":"the Host is neither localhost nor that of --listen or of an --allow-origin, and there is no --api-key","type":"invalid_request_error","param":null,"code":"forbidden_host"}}
`

// hostname returns a host without its port, as it is compared.
func hostname(host string) string {
	u := url.URL{Host: host}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}
