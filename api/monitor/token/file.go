package token

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The algorithms of keys, by their names in a JWT.
const (
	algEdDSA = "EdDSA"
	algHS256 = "HS256"
)

const (
	keySize = 32       // bytes of a seed, and at least of a secret
	maxKeys = 2        // in a file
	maxFile = 64 << 10 // bytes
)

type keyFile struct {
	Keys []entry `json:"keys"` // newest first
}

type entry struct {
	Kid     string `json:"kid"`
	Alg     string `json:"alg"`
	Key     string `json:"key"`               // base64url without padding
	Created string `json:"created,omitempty"` // RFC 3339
}

// key is a decoded entry.
type key struct {
	entry
	method          jwt.SigningMethod
	private, public any // sign and verify
}

var kidForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// newEntry returns a random key.
func newEntry(alg string) entry {
	random := make([]byte, keySize)
	rand.Read(random) // never fails
	return entry{
		Kid: rand.Text(), Alg: alg, Key: base64.RawURLEncoding.EncodeToString(random),
		Created: time.Now().UTC().Format(time.RFC3339),
	}
}

// readKeys reads the key file. Its errors contain nothing of the file.
func readKeys(path string) ([]key, error) {
	text, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return keys, nil
}

// readPrivate reads a regular file that nobody may change but its owner, and nobody read
// but its owner and its group, as secrets are mounted in containers. Windows has no such
// modes; there the folder's access list protects it.
func readPrivate(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("key file %s: not a regular file", path)
	case runtime.GOOS != "windows" && fi.Mode()&0o037 != 0:
		return nil, fmt.Errorf("key file %s: others may use it (mode %04o): chmod 600 %[1]s", path, fi.Mode().Perm())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("key file %s: larger than %d bytes", path, maxFile)
	}
	return text, err
}

func parseKeys(text []byte) ([]key, error) {
	entries, err := parseEntries(text)
	if err != nil {
		return nil, err
	}
	if n := len(entries); n < 1 || n > maxKeys {
		return nil, fmt.Errorf("it holds %d keys, not one or two", n)
	}
	keys := make([]key, len(entries))
	for i, e := range entries {
		if keys[i], err = e.ready(); err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		if i > 0 && e.Kid == entries[0].Kid {
			return nil, errors.New("both keys have the same kid")
		}
	}
	return keys, nil
}

// parseEntries decodes the JSON. It takes only the place from errors of package json,
// which may quote part of a key.
func parseEntries(text []byte) ([]entry, error) {
	var file keyFile
	err := json.Unmarshal(text, new(json.RawMessage)) // refuses what follows the value
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&file)
	}
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("line %d is not JSON", lineOf(text, syntax.Offset))
	case errors.As(err, &mismatch):
		return nil, fmt.Errorf("line %d has a value of the wrong type", lineOf(text, mismatch.Offset))
	case err != nil:
		return nil, errors.New("it has a member other than keys, kid, alg, key and created")
	}
	return file.Keys, nil
}

func lineOf(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte("\n"))
}

// ready validates and decodes an entry.
func (e entry) ready() (key, error) {
	raw, err := base64.RawURLEncoding.DecodeString(e.Key)
	_, badTime := time.Parse(time.RFC3339, e.Created)
	switch {
	case !kidForm.MatchString(e.Kid):
		return key{}, fmt.Errorf("kid does not match %s", kidForm)
	case err != nil:
		return key{}, errors.New("key is not base64url without padding")
	case e.Created != "" && badTime != nil:
		return key{}, errors.New("created is not a time like 2026-03-05T15:04:05Z")
	case e.Alg == algEdDSA && len(raw) != keySize:
		return key{}, fmt.Errorf("key has %d bytes; the seed of %s has %d", len(raw), e.Alg, keySize)
	case e.Alg == algEdDSA:
		private := ed25519.NewKeyFromSeed(raw)
		return key{e, jwt.SigningMethodEdDSA, private, private.Public()}, nil
	case e.Alg == algHS256 && len(raw) < keySize:
		return key{}, fmt.Errorf("key has %d bytes; a secret for %s needs at least %d, all random", len(raw), e.Alg, keySize)
	case e.Alg == algHS256:
		return key{e, jwt.SigningMethodHS256, raw, raw}, nil
	}
	return key{}, fmt.Errorf("alg is neither %s nor %s", algEdDSA, algHS256)
}
