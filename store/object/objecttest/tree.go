package objecttest

import (
	"testing"

	"tsmon/store/object"
)

// Tree returns all objects of a store, by key.
func Tree(tb testing.TB, s object.Store) map[string]string {
	tb.Helper()
	tree := map[string]string{}
	for info, err := range s.List(tb.Context(), "", "") {
		if err != nil {
			tb.Fatal(err)
		}
		data, _, err := object.ReadAll(tb.Context(), s, info.Key, info.Size)
		if err != nil {
			tb.Fatal(err)
		}
		tree[info.Key] = string(data)
	}
	return tree
}
