package api

import (
	"fmt"
	"net/http"
)

// modelInfo is a model in OpenAI's form.
type modelInfo struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
	Context int    `json:"max_model_len"` // as vLLM calls it
}

func (m *loaded) info() modelInfo {
	return modelInfo{m.name, "model", m.created.Unix(), "kompute-go", m.context}
}

// listModels is GET /v1/models.
func (s *Server) listModels(w http.ResponseWriter, _ *http.Request, m *loaded) error {
	return writeJSON(w, http.StatusOK, struct {
		Object string      `json:"object"`
		Data   []modelInfo `json:"data"`
	}{"list", []modelInfo{m.info()}})
}

// showModel is GET /v1/models/{id}.
func (s *Server) showModel(w http.ResponseWriter, r *http.Request, m *loaded) error {
	if err := m.checkName(r.PathValue("id")); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, m.info())
}

// checkName rejects a request for another model.
func (m *loaded) checkName(name string) error {
	if name == m.name {
		return nil
	}
	return &apiError{
		status: http.StatusNotFound, param: "model", code: "model_not_found",
		message: fmt.Sprintf("model: there is no %q; this server has %q", name, m.name),
	}
}
