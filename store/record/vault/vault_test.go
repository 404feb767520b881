package vault_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tsmon/store/record"
	"tsmon/store/record/sqlite"
	"tsmon/store/record/vault"
)

var oldSecret, newSecret = strings.Repeat("old-secret ", 4), strings.Repeat("new-secret ", 4)

func openRecords(t *testing.T) record.Store {
	t.Helper()
	records, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "records.db"), sqlite.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { records.Close() })
	return records
}

func open(t *testing.T, records record.Secrets, secrets ...string) *vault.Vault {
	t.Helper()
	v, err := vault.New(records, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func want(t *testing.T, row vault.Row, text string) {
	t.Helper()
	if got, err := row.Get(t.Context()); err != nil || string(got) != text {
		t.Errorf("%q, %v; want %q", got, err, text)
	}
}

func TestMadeOnce(t *testing.T) {
	records := openRecords(t)
	if _, err := open(t, records, oldSecret).Row("keys").Get(t.Context()); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("of an empty vault: %v", err)
	}
	var got [8][]byte
	var wait sync.WaitGroup
	for i := range got {
		v := open(t, records, oldSecret)
		wait.Go(func() {
			var err error
			if got[i], err = v.Row("keys").Create(t.Context(), fmt.Append(nil, "of ", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, text := range got {
		if !bytes.Equal(text, got[0]) {
			t.Errorf("servers got %q", got)
		}
	}
	value, err := records.Secret(t.Context(), "keys")
	if err != nil || bytes.Contains(value, got[0]) {
		t.Errorf("the records hold %q, %v", value, err)
	}
}

// TestReplace: of changes at once none is lost.
func TestReplace(t *testing.T) {
	row := open(t, openRecords(t), oldSecret).Row("keys")
	if _, err := row.Create(t.Context(), []byte("-")); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if err := row.Replace(t.Context(), func(text []byte) ([]byte, error) { return append(text, '+'), nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	want(t, row, "-++++")
	refusal := errors.New("no")
	if err := row.Replace(t.Context(), func([]byte) ([]byte, error) { return nil, refusal }); !errors.Is(err, refusal) {
		t.Errorf("%v", err)
	}
	want(t, row, "-++++")
}

// TestChangeOfSecret: the new secret first, then everything sealed anew, then the old
// one goes. Nobody is without the value at any step.
func TestChangeOfSecret(t *testing.T) {
	records := openRecords(t)
	before, both, after := open(t, records, oldSecret).Row("keys"), open(t, records, newSecret, oldSecret).Row("keys"), open(t, records, newSecret).Row("keys")
	if renewed, err := both.Renew(t.Context()); renewed || err != nil {
		t.Errorf("nothing was sealed anew: %t, %v", renewed, err)
	}
	if _, err := before.Create(t.Context(), []byte("text")); err != nil {
		t.Fatal(err)
	}
	want(t, both, "text")
	if _, err := after.Get(t.Context()); !errors.Is(err, vault.ErrSealed) {
		t.Errorf("the new secret opens what the old one sealed: %v", err)
	}
	for _, should := range []bool{true, false} {
		if renewed, err := both.Renew(t.Context()); renewed != should || err != nil {
			t.Errorf("renewed: %t, %v", renewed, err)
		}
	}
	want(t, both, "text")
	want(t, after, "text")
	if _, err := before.Get(t.Context()); !errors.Is(err, vault.ErrSealed) {
		t.Errorf("the old secret still opens it: %v", err)
	}
}

// TestHostileRows: a value that was changed, cut or put under another name does not open.
func TestHostileRows(t *testing.T) {
	records := openRecords(t)
	v := open(t, records, oldSecret)
	if _, err := v.Row("keys").Create(t.Context(), []byte("text")); err != nil {
		t.Fatal(err)
	}
	sealed, err := records.Secret(t.Context(), "keys")
	if err != nil {
		t.Fatal(err)
	}
	plant := func(name string, value []byte) {
		t.Helper()
		kept, err := records.CreateSecret(t.Context(), name, value)
		if err == nil && !bytes.Equal(kept, value) {
			_, err = records.ReplaceSecret(t.Context(), name, kept, value)
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, err := v.Row(name).Get(t.Context()); !errors.Is(err, vault.ErrSealed) || text != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	plant("other", sealed)
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		plant("keys", changed)
		if i > 0 {
			plant("keys", sealed[:i])
		}
	}
	plant("keys", append(bytes.Clone(sealed), 0))
}

func TestWeakSecrets(t *testing.T) {
	for _, secrets := range [][]string{nil, {""}, {"short"}, {oldSecret, "short"}} {
		if _, err := vault.New(nil, secrets); err == nil || strings.Contains(err.Error(), "short") {
			t.Errorf("%q: %v", secrets, err)
		}
	}
	if _, err := vault.New(nil, []string{rand.Text() + rand.Text()}); err != nil {
		t.Error(err)
	}
}

// outOfReach is a store of records that does not answer.
type outOfReach struct{ record.Secrets }

func (outOfReach) Secret(context.Context, string) ([]byte, error) { return nil, record.ErrUnavailable }

func TestOutOfReach(t *testing.T) {
	row := open(t, outOfReach{}, oldSecret).Row("keys")
	_, err := row.Get(t.Context())
	_, renewErr := row.Renew(t.Context())
	if !errors.Is(err, record.ErrUnavailable) || !errors.Is(renewErr, record.ErrUnavailable) {
		t.Errorf("%v, %v", err, renewErr)
	}
}
