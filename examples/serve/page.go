package main

import (
	"embed"
	"net/http"
)

// The chat page. It loads nothing from elsewhere.
//
//go:embed page
var pageFiles embed.FS

// page serves the chat page and its parts.
func page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Cache-Control", "no-cache")
	file := r.PathValue("file")
	if file == "" {
		file = "chat.html"
	}
	http.ServeFileFS(w, r, pageFiles, "page/"+file)
}
