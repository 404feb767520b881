package api

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v3"
)

// description is the interface in the terms of OpenAPI 3.
//
//go:embed openapi.yaml
var description []byte

var descriptionJSON = sync.OnceValues(func() (json.RawMessage, error) {
	var tree any
	if err := yaml.Unmarshal(description, &tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
})

func describe(*http.Request) (any, error) { return descriptionJSON() }
