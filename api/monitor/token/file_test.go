package token_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tsmon/api/monitor/token"
)

// storedKey is a key as the file holds it.
type storedKey struct{ Kid, Alg, Key, Created string }

func stored(t *testing.T, path string) []storedKey {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Keys []storedKey }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Keys
}

func TestOpenMakesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "secrets", "keys.json")
	k := open(t, path)
	checkAccepted(t, "own token", k, issue(t, k))
	keys := stored(t, path)
	if len(keys) != 1 || keys[0].Alg != "EdDSA" || keys[0].Kid == "" || keys[0].Created == "" {
		t.Fatalf("keys %d, %s %q %q", len(keys), keys[0].Alg, keys[0].Kid, keys[0].Created)
	}
	if seed, err := base64.RawURLEncoding.DecodeString(keys[0].Key); err != nil || len(seed) != 32 {
		t.Errorf("a seed of %d bytes, %v", len(seed), err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", k, k, k), keys[0].Key) {
		t.Error("printed, the keys show their text")
	}
	checkMode(t, path, 0o600)
	checkMode(t, filepath.Dir(path), fs.ModeDir|0o700)
	checkOnly(t, path)
	checkAccepted(t, "opened again", open(t, path), issue(t, k))
}

func checkMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && fi.Mode() != want {
		t.Errorf("%s has mode %v, want %v", path, fi.Mode(), want)
	}
}

// checkOnly wants nothing but the key file, and perhaps its lock, in its folder.
func checkOnly(t *testing.T, path string) {
	t.Helper()
	found, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if name := f.Name(); name != filepath.Base(path) && name != filepath.Base(path)+".lock" {
			t.Errorf("%s was left behind", name)
		}
	}
}

func TestConcurrentOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "keys.json")
	const n = 20
	var all [n]*token.Keys
	var errs [n]error
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			all[i], errs[i] = token.Open(path)
		})
	}
	close(start)
	group.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("open %d: %v", i, err)
		}
	}
	for i, k := range all {
		release := k.HoldLook() // it signs with what it opened
		text := issue(t, k)
		release()
		if kid := stored(t, path)[0].Kid; !strings.HasPrefix(text, headerOf(kid)) {
			t.Errorf("open %d: another key than %s of the file", i, kid)
		}
		checkAccepted(t, "a neighbour's token", all[(i+1)%n], text)
	}
	checkOnly(t, path)
}

// TestCreateTooLate wants that the slower of two servers leaves the file alone.
func TestCreateTooLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	write(t, path, keyFile())
	if err := token.Create(path); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != keyFile() {
		t.Errorf("the file was replaced: %v", err)
	}
	checkOnly(t, path)
}

func TestBadFiles(t *testing.T) {
	seed, secret := base64url(edSeed), base64url(hsSecret)
	ed := fmt.Sprintf(`{"kid":"ed","alg":"EdDSA","key":%q}`, seed)
	hs := fmt.Sprintf(`{"kid":"hs","alg":"HS256","key":%q}`, secret)
	one := func(kid, alg, key string) string {
		return fmt.Sprintf(`{"keys":[{"kid":%q,"alg":%q,"key":%q}]}`, kid, alg, key)
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "line 1 is not JSON"},
		{"not JSON", "kid: ed\nkey: " + seed, "line 1 is not JSON"},
		{"cut", "{\n\"keys\":[\n" + ed, "line 3 is not JSON"},
		{"key without quotes", "{\"keys\":[{\n\"kid\":\"ed\",\n\"key\":" + seed + "}]}", "line 3 is not JSON"},
		{"two values", `{"keys":[` + ed + "]}\n{}", "line 2 is not JSON"},
		{"a list", "[" + ed + "]", "wrong type"},
		{"keys an object", `{"keys":` + ed + `}`, "wrong type"},
		{"a number for a key", `{"keys":[{"kid":"ed","alg":"EdDSA","key":12345678901234567890}]}`, "wrong type"},
		{"unknown member", `{"keys":[` + ed + `],"more":1}`, "other than keys, kid, alg, key and created"},
		{"unknown member of a key", `{"keys":[{"kid":"ed","alg":"EdDSA","key":"` + seed + `","use":"sig"}]}`, "other than keys"},
		{"key as a member's name", `{"keys":[{"kid":"ed","` + seed + `":"key"}]}`, "other than keys"},
		{"null", "null", "0 keys"},
		{"nothing in it", "{}", "0 keys"},
		{"no keys", `{"keys":[]}`, "0 keys"},
		{"three keys", `{"keys":[` + ed + "," + hs + "," + strings.Replace(hs, "hs", "h2", 1) + `]}`, "3 keys"},
		{"a kid twice", `{"keys":[` + ed + "," + strings.Replace(hs, "hs", "ed", 1) + `]}`, "same kid"},
		{"null for a key", `{"keys":[` + ed + `,null]}`, "key 2: kid"},
		{"no kid", one("", "EdDSA", seed), "key 1: kid"},
		{"key as kid", one(seed+seed, "EdDSA", seed), "key 1: kid"},
		{"line break in kid", one("a\nb", "EdDSA", seed), "key 1: kid"},
		{"no alg", one("ed", "", seed), "alg is neither"},
		{"none", one("ed", "none", seed), "alg is neither"},
		{"HS512", one("ed", "HS512", seed), "alg is neither"},
		{"lower case alg", one("ed", "eddsa", seed), "alg is neither"},
		{"key as alg", one("ed", seed, seed), "alg is neither"},
		{"no key", one("ed", "EdDSA", ""), "0 bytes"},
		{"short seed", one("ed", "EdDSA", base64url(edSeed[:31])), "31 bytes"},
		{"private key for a seed", one("ed", "EdDSA", base64url(edKey)), "64 bytes"},
		{"padded", one("ed", "EdDSA", seed+"="), "not base64url"},
		{"standard base64", one("ed", "EdDSA", "+/"+seed[2:]), "not base64url"},
		{"short secret", one("hs", "HS256", base64url(hsSecret[:31])), "at least 32"},
		{"no secret", one("hs", "HS256", ""), "at least 32"},
		{"created", `{"keys":[{"kid":"ed","alg":"EdDSA","key":"` + seed + `","created":"` + seed + `"}]}`, "created is not a time"},
		{"too large", `{"keys":[` + ed + `]}` + strings.Repeat(" ", 64<<10), "larger than"},
	} {
		path := filepath.Join(t.TempDir(), "keys.json")
		write(t, path, c.text)
		checkBad(t, c.name, path, c.want)
		if _, err := token.Rotate(t.Context(), path); err == nil {
			t.Errorf("%s: rotated", c.name)
		}
	}
}

// checkBad wants that Open fails with a text that names the file, says want and
// shows nothing of a key.
func checkBad(t *testing.T, name, path, want string) {
	t.Helper()
	_, err := token.Open(path)
	if err == nil {
		t.Errorf("%s: opened", name)
		return
	}
	text := err.Error()
	if !strings.Contains(text, path) || !strings.Contains(text, want) {
		t.Errorf("%s: %q does not say %q", name, text, want)
	}
	for _, key := range []string{base64url(edSeed), base64url(hsSecret), "12345678901234567890", string(edSeed), string(hsSecret)} {
		for i := range len(key) - 6 {
			if strings.Contains(text, key[i:i+6]) {
				t.Errorf("%s: %q shows a part of a key", name, text)
				break
			}
		}
	}
}

func TestNotAFile(t *testing.T) {
	folder := t.TempDir()
	checkBad(t, "a folder", folder, "not a regular file")
	path := filepath.Join(folder, "keys.json")
	write(t, path, keyFile())
	checkBad(t, "a file in its folder's place", filepath.Join(path, "keys.json"), "")
	dangling := filepath.Join(folder, "dangling")
	if err := os.Symlink(filepath.Join(folder, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	checkBad(t, "a link to nothing", dangling, "")
}
