package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/doctor"
	"tsmon/store/servertest"
)

// TestPrivateKey: the key of the environment is compared without asking for its
// password, and nothing of it is shown.
func TestPrivateKey(t *testing.T) {
	vectors, err := filepath.Abs("../../../signing/testdata")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(vectors, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	if err := servertest.HideKeys(filepath.Join(vectors, "*", "*.key")); err != nil {
		t.Fatal(err)
	}
	c := newClinic(t)
	c.want(doctor.OK, "keys", "no private key in the environment")

	// A key that others can read.
	loose := filepath.Join(t.TempDir(), "loose.key")
	if err := os.WriteFile(loose, []byte(read("minisign/unencrypted.key")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.environ["TAURI_SIGNING_PRIVATE_KEY"] = loose
	if err := os.Chmod(loose, 0o644); err != nil {
		t.Fatal(err)
	}
	// follows: chmod
	if mend := c.want(doctor.Error, "keys", "can be read or written by other users"); mend != "chmod 600 "+loose {
		t.Fatal(mend)
	}
	if err := os.Chmod(loose, 0o600); err != nil {
		t.Fatal(err)
	}
	c.want(doctor.OK, "keys", "the private key is that of 9409900376B24132, which is trusted")

	c.environ["TAURI_SIGNING_PRIVATE_KEY"] = read("minisign/unencrypted.key")
	c.want(doctor.OK, "keys", "the private key is that of 9409900376B24132, which is trusted")

	// Another key: either mend works.
	c.environ["TAURI_SIGNING_PRIVATE_KEY"] = filepath.Join(vectors, "tauri-empty-password", "tauri.key")
	mend := c.want(doctor.Error, "keys", "which is not trusted: installed applications would refuse what it signs")
	_, line, found := strings.Cut(mend, "set trusted_keys (TSMON_TRUSTED_KEYS) to ")
	if !found || !strings.HasPrefix(mend, "set it to the private key of 9409900376B24132") {
		t.Fatal(mend)
	}
	// follows: set it to the private key of …; if the application has the public key of …, set trusted_keys (TSMON_TRUSTED_KEYS) to
	c.environ["TSMON_TRUSTED_KEYS"] = line
	c.want(doctor.OK, "keys", "which is trusted")

	// A password that is missing, wrong, right.
	c.environ["TAURI_SIGNING_PRIVATE_KEY_PATH"], c.environ["TAURI_SIGNING_PRIVATE_KEY"] = filepath.Join(vectors, "tauri-password", "tauri.key"), ""
	c.environ["TSMON_TRUSTED_KEYS"] = filepath.Join(vectors, "tauri-password", "tauri.key.pub")
	if mend := c.want(doctor.Warning, "keys", "the private key has a password"); !strings.Contains(mend, "TAURI_SIGNING_PRIVATE_KEY_PASSWORD") {
		t.Error(mend)
	}
	c.environ["TAURI_SIGNING_PRIVATE_KEY_PASSWORD"] = "wrong"
	c.want(doctor.Error, "keys", "wrong password")
	// follows: set TAURI_SIGNING_PRIVATE_KEY_PASSWORD, then run `tsmon doctor` again
	c.environ["TAURI_SIGNING_PRIVATE_KEY_PASSWORD"] = read("tauri-password/password.txt")
	c.want(doctor.OK, "keys", "which is trusted")

	c.environ["TAURI_SIGNING_PRIVATE_KEY_PATH"] = filepath.Join(vectors, "tauri-password", "tauri.key.pub")
	c.want(doctor.Error, "keys", "public key")
	c.environ["TAURI_SIGNING_PRIVATE_KEY_PATH"] = "missing.key"
	c.want(doctor.Error, "keys", "missing.key")
	// follows: set it to the private key itself, or to the path of its file
	c.environ["TAURI_SIGNING_PRIVATE_KEY_PATH"] = filepath.Join(vectors, "tauri-password", "tauri.key")
	c.want(doctor.OK, "keys", "which is trusted")
	c.environ["TSMON_TRUSTED_KEYS"], c.environ["TAURI_SIGNING_PRIVATE_KEY_PATH"] = "", ""
	c.want(doctor.Error, "keys", "no key is trusted")
	// follows: set trusted_keys (TSMON_TRUSTED_KEYS) to the pubkey of tauri.conf.json; `tsmon keys generate` makes a key pair
	c.environ["TSMON_TRUSTED_KEYS"] = read("tauri-password/tauri.key.pub")
	c.want(doctor.OK, "keys", "trusted: ")
}
