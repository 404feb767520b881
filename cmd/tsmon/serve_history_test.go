package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// TestRestoredFromBackup: the store is restored from a backup that lacks the newest release. The server
// keeps what it showed and says how to accept the backup. A server that starts then shows nothing.
// Following the alarm works, with operators and without.
func TestRestoredFromBackup(t *testing.T) {
	t.Parallel()
	for _, operators := range []bool{false, true} {
		t.Run(map[bool]string{false: "by the records", true: "by operators"}[operators], func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "store")
			k := newKit(t, store, nil)
			if operators {
				key, line := operatorKey(t)
				k.configure(t, "  stable: {}\noperators: {ann: "+line+"}\n")
				k.env = append(k.env, "TSMON_OPERATOR_KEY="+key)
			} else {
				k.configure(t, "  stable: {}\n")
			}
			data := t.TempDir()
			k.env = append(k.env, "TSMON_PUBLIC_URL=http://127.0.0.1:1/app", "TSMON_DATA="+data)
			env := append(k.env, "TSMON_REFRESH=50ms")
			publish := func(version string) {
				k.must(t, "release", "publish", "--no-probe", "--version", version, bundles(t, version, 100))
			}
			publish("1.0.0")
			backup := filepath.Join(t.TempDir(), "backup")
			if err := os.CopyFS(backup, os.DirFS(store)); err != nil {
				t.Fatal(err)
			}
			publish("1.1.0")
			s := serve(t, data, env)
			shows := func(s *served, status int, version string) {
				t.Helper()
				until(t, "the server shows "+version, func() bool {
					got, body := s.ask("GET", "/updates/stable/latest.json", "", nil)
					return got == status && strings.Contains(string(body), version)
				})
			}
			shows(s, 200, `"1.1.0"`)
			end := regexp.MustCompile(`the log ends at (2:[0-9a-f]{64})\n`).FindStringSubmatch(k.must(t, "channel", "verify", "stable", "--no-probe"))
			if end == nil {
				t.Fatal("verify does not say where the log ends")
			}
			k.must(t, "channel", "verify", "stable", "--no-probe", "--from", end[1])

			// The manifest comes last: what a server has seen of half a restore it looks at
			// again after a minute, or when that changes.
			for _, path := range []string{"log/stable/0000000002.json", "releases/1.1.0"} {
				if err := os.RemoveAll(filepath.Join(store, path)); err != nil {
					t.Fatal(err)
				}
			}
			const shown = "stable/latest.json"
			if err := os.Rename(filepath.Join(backup, shown), filepath.Join(store, shown)); err != nil {
				t.Fatal(err)
			}
			command := "tsmon channel verify stable --from " + end[1] + " --accept"
			until(t, "the alarm", func() bool { return strings.Contains(s.log.String(), command) })
			shows(s, 200, `"1.1.0"`)
			restored := contents(t, store)
			fresh := serve(t, data, env)
			shows(fresh, 503, "")
			until(t, "the new server says why it completes no move", func() bool {
				return strings.Contains(fresh.log.String(), "a channel could not be brought up to date") && strings.Contains(fresh.log.String(), command)
			})
			if _, stderr, code := k.tsmon(t, "channel", "advance"); code != 5 || !strings.Contains(stderr, command) {
				t.Errorf("advance: code %d: %s", code, stderr)
			}
			if now := contents(t, store); !maps.Equal(now, restored) {
				t.Errorf("a server that does not believe the log wrote to the store:\n%v\nwas\n%v", now, restored)
			}

			// follows: bring the rightful log back from a copy; if the store was restored from a backup and nothing newer is left, `tsmon channel verify … --from … --accept` gives up what is lost
			if _, stderr, code := k.tsmon(t, "channel", "verify", "stable", "--no-probe", "--from", end[1]); code != 5 || !strings.Contains(stderr, "--accept") {
				t.Errorf("code %d: %s", code, stderr)
			}
			if !operators {
				// follows: repeat it with --from and what the servers have seen
				other := "2:" + strings.Repeat("0", 64)
				if _, stderr, code := k.tsmon(t, "channel", "verify", "stable", "--from", other, "--accept"); code != 5 || !strings.Contains(stderr, end[1]) {
					t.Errorf("code %d: %s", code, stderr)
				}
			}
			// follows: `tsmon channel verify CHANNEL` prints where a log ends; a server's alarm names what it has seen
			if _, stderr, code := k.tsmon(t, "channel", "verify", "stable", "--from", "2"); code != 2 || !strings.Contains(stderr, "hint: ") {
				t.Errorf("code %d: %s", code, stderr)
			}
			if operators { // on a machine that has no records
				// follows: give --from SEQUENCE:HASH, which the alarm of the server names
				away := *k
				away.env = append(away.env, "TSMON_DATA="+t.TempDir())
				if _, stderr, code := away.tsmon(t, "channel", "verify", "stable", "--no-probe", "--accept"); code != 2 || !strings.Contains(stderr, "--from SEQUENCE:HASH") {
					t.Errorf("code %d: %s", code, stderr)
				}
				accept := []string{"channel", "verify", "stable", "--no-probe", "--from", end[1], "--accept"}
				if out := away.must(t, append(accept, "--dry-run")...); !strings.Contains(out, "would move") {
					t.Error(out)
				}
				shows(fresh, 503, "") // it gave nothing up
				away.must(t, accept...)
				if _, stderr, code := away.tsmon(t, accept...); code != 0 || !strings.Contains(stderr, "the log contains "+end[1]+", so there is nothing to give up") {
					t.Errorf("code %d: %s", code, stderr)
				}
			} else {
				accept := []string{"channel", "verify", "stable", "--no-probe", "--accept"}
				if out := k.must(t, append(accept, "--dry-run")...); !strings.Contains(out, "stable: servers would accept the log that ends at 1:") || !strings.Contains(out, end[1]) {
					t.Error(out)
				}
				if out := k.must(t, append(accept, "--dry-run", "--json")...); !strings.Contains(out, `"dry_run": true`) {
					t.Error(out)
				}
				shows(fresh, 503, "") // it gave nothing up
				if out := k.must(t, accept...); !strings.Contains(out, "stable: servers accept the log") {
					t.Error(out)
				}
			}
			shows(s, 200, `"1.0.0"`)
			shows(fresh, 200, `"1.0.0"`)
			again := "none has seen " + end[1] + ", nothing to do"
			if operators {
				again = "nothing to do"
			}
			if out := k.must(t, "channel", "verify", "stable", "--no-probe", "--from", end[1], "--accept"); !strings.Contains(out, again) {
				t.Error(out)
			}
			publish("1.2.0")
			shows(s, 200, `"1.2.0"`)
			shows(fresh, 200, `"1.2.0"`)
		})
	}
}

// TestServerPutsManifestRight: a server that may write to the store corrects a manifest that differs
// from the log.
func TestServerPutsManifestRight(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	k := newKit(t, store, nil)
	k.configure(t, "  stable: {}\n")
	data := t.TempDir()
	k.env = append(k.env, "TSMON_PUBLIC_URL=http://127.0.0.1:1/app", "TSMON_DATA="+data)
	k.must(t, "release", "publish", "--no-probe", "--version", "1.0.0", bundles(t, "1.0.0", 100))
	shown := filepath.Join(store, "stable", "latest.json")
	rightful, err := os.ReadFile(shown)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, data, append(k.env, "TSMON_REFRESH=50ms"))
	forged := strings.Replace(string(rightful), `"notes": ""`, `"notes": "free of charge"`, 1)
	if forged == string(rightful) {
		t.Fatal("nothing was forged")
	}
	if err := os.WriteFile(shown, []byte(forged), 0o644); err != nil {
		t.Fatal(err)
	}
	until(t, "the manifest is put right", func() bool {
		now, err := os.ReadFile(shown)
		return err == nil && string(now) == string(rightful)
	})
}

// TestBegunAnew: the store is emptied and used again. A server that starts then answers 503, because
// the records have seen a longer log. Following the hint of publish works.
func TestBegunAnew(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	k := newKit(t, store, nil)
	k.configure(t, "  stable: {}\n")
	data := t.TempDir()
	k.env = append(k.env, "TSMON_DATA="+data)
	begin := func() {
		s := serve(t, data, append(k.env, "TSMON_REFRESH=50ms", "TSMON_PUBLIC_URL="))
		k.env = append(k.env, "TSMON_PUBLIC_URL="+s.base+"/updates")
	}
	begin()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		k.must(t, "release", "publish", "--version", version, bundles(t, version, 100))
	}
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	begin()
	publish := []string{"release", "publish", "--version", "1.2.0", bundles(t, "1.2.0", 100)}
	// follows: look for the alarm of the server there: it shows nothing of a channel that it does not believe. If the store was begun anew, or restored from a backup, `tsmon channel verify … --accept` gives up what the server had seen; --no-probe skips this
	_, stderr, code := k.tsmon(t, publish...)
	_, hint, _ := strings.Cut(stderr, "restored from a backup, `tsmon ")
	hint, _, found := strings.Cut(hint, "` gives up")
	if code != 1 || !found || !strings.Contains(stderr, "the server shows nothing of the channel") {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if out := k.must(t, strings.Fields(hint)...); !strings.Contains(out, "stable: servers accept the log that ends at 1:") {
		t.Error(out)
	}
	until(t, "the server shows 1.2.0", func() bool {
		_, stderr, code := k.tsmon(t, publish...)
		return code == 0 && !strings.Contains(stderr, "warning:")
	})
}

// operatorKey returns the file of a new private key, and its public line.
func operatorKey(t *testing.T) (file, line string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ann")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// contents returns the texts of the files below a folder by path, without the files with which
// clocks are compared.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, ".tsmon/") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
