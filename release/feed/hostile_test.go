package feed

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"tsmon/channels"
	"tsmon/channels/fault"
	"tsmon/release"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/signing/signingtest"
	"tsmon/store/object"
	"tsmon/store/object/objecttest"
)

// member is a member of a file that a test assembles.
type member struct {
	tar.Header
	data string
}

// apart splits a file into its members.
func apart(t testing.TB, file []byte) (all []member) {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, member{*h, string(data)})
	}
}

// together is the reverse of apart.
func together(t testing.TB, all []member, tail string) []byte {
	t.Helper()
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, m := range all {
		if m.Typeflag == tar.TypeReg {
			m.Size = int64(len(m.data))
		}
		if err := w.WriteHeader(&m.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, m.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	plain.WriteString(tail)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(plain.Bytes(), nil)
}

// index returns the first member whose name begins with a text.
func index(t testing.TB, all []member, begins string) int {
	t.Helper()
	i := slices.IndexFunc(all, func(m member) bool { return strings.HasPrefix(m.Name, begins) && !strings.HasSuffix(m.Name, ".sig") })
	if i < 0 {
		t.Fatalf("there is no %s", begins)
	}
	return i
}

// TestHostileFiles: a file that differs from what Export wrote changes no channel, and
// importing the original file still works.
func TestHostileFiles(t *testing.T) {
	hq, _ := sides(t)
	hq.publish(t, "stable", "1.0.0")
	hq.publish(t, "stable", "1.1.0")
	good := hq.export(t, 0)
	other := newPlace(t, "https://other.example.com", hq.key)
	other.Who = "another"
	other.publish(t, "stable", "1.0.0")
	foreign := apart(t, other.export(t, 0))
	file := func(name, data string) member {
		return member{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, data}
	}
	for name, hostile := range map[string]func(all []member) ([]member, string){
		"a path out of it":    func(all []member) ([]member, string) { return append(all, file("../../etc/passwd", "x")), "" },
		"an absolute path":    func(all []member) ([]member, string) { return append(all, file("/etc/passwd", "x")), "" },
		"a manifest":          func(all []member) ([]member, string) { return append(all, file("stable/latest.json", "{}")), "" },
		"another object":      func(all []member) ([]member, string) { return append(all, file("releases/1.1.0/virus.exe", "x")), "" },
		"an entry at the end": func(all []member) ([]member, string) { return append(all, all[1]), "" },
		"a second header":     func(all []member) ([]member, string) { return slices.Insert(all, 1, all[0]), "" },
		"no header":           func(all []member) ([]member, string) { return all[1:], "" },
		"a later format": func(all []member) ([]member, string) {
			all[0].data = strings.Replace(all[0].data, `"version": 1`, `"version": 2`, 1)
			return all, ""
		},
		"an impossible range": func(all []member) ([]member, string) {
			all[0].data = strings.Replace(all[0].data, `"sequence": 2`, `"sequence": 9007199254740991`, 1)
			return all, ""
		},
		"another channel's name": func(all []member) ([]member, string) {
			all[0].data = strings.Replace(all[0].data, `"stable"`, `"../log"`, 1)
			return all, ""
		},
		"an unknown channel": func(all []member) ([]member, string) {
			all[0].data = strings.Replace(all[0].data, `"stable"`, `"nightly"`, 1)
			return all, ""
		},
		"the first entry is missing": func(all []member) ([]member, string) { return slices.Delete(all, 1, 2), "" },
		"the last entry is missing":  func(all []member) ([]member, string) { return slices.Delete(all, 2, 3), "" },
		"entries in another order":   func(all []member) ([]member, string) { all[1], all[2] = all[2], all[1]; return all, "" },
		"a changed entry": func(all []member) ([]member, string) {
			all[1].data = strings.Replace(all[1].data, `"test"`, `"mallory"`, 1)
			return all, ""
		},
		"a changed last entry": func(all []member) ([]member, string) {
			all[2].data = strings.Replace(all[2].data, `"version": "1.1.0"`, `"version": "6.6.6"`, 2)
			return all, ""
		},
		"an entry of other bundles": func(all []member) ([]member, string) {
			all[2].data = strings.Replace(all[2].data, "releases/1.1.0/App_1.1.0_x64_en-US.msi.zip", "releases/1.0.0/App_1.0.0_x64_en-US.msi.zip", 1)
			return all, ""
		},
		"a changed record": func(all []member) ([]member, string) {
			i := index(t, all, "releases/1.1.0/release.json")
			all[i].data = strings.Replace(all[i].data, `"size": `, `"size": 1`, 1)
			return all, ""
		},
		"another release's record": func(all []member) ([]member, string) {
			all[index(t, all, "releases/1.0.0/release.json")] = foreign[index(t, foreign, "releases/1.0.0/release.json")]
			return all, ""
		},
		"a missing record": func(all []member) ([]member, string) {
			return slices.DeleteFunc(all, func(m member) bool { return m.Name == "releases/1.1.0/release.json" }), ""
		},
		"a missing bundle": func(all []member) ([]member, string) {
			return slices.DeleteFunc(all, func(m member) bool { return strings.HasSuffix(m.Name, "1.1.0_x64_en-US.msi.zip") }), ""
		},
		"a changed bundle": func(all []member) ([]member, string) {
			i := index(t, all, "releases/1.1.0/App")
			all[i].data = "x" + all[i].data[1:]
			return all, ""
		},
		"a longer bundle": func(all []member) ([]member, string) {
			i := index(t, all, "releases/1.1.0/App")
			all[i].data += "x"
			return all, ""
		},
		"a changed .sig": func(all []member) ([]member, string) {
			i := index(t, all, "releases/1.1.0/App")
			all[i-1].data = "x" + all[i-1].data[1:]
			return all, ""
		},
		"a symbolic link": func(all []member) ([]member, string) {
			i := index(t, all, "releases/1.1.0/App")
			all[i].Typeflag, all[i].Linkname, all[i].data, all[i].Size = tar.TypeSymlink, "/etc/passwd", "", 0
			return all, ""
		},
		"a hard link": func(all []member) ([]member, string) {
			i := index(t, all, "releases/1.1.0/App")
			all[i].Typeflag, all[i].Linkname, all[i].data, all[i].Size = tar.TypeLink, all[1].Name, "", 0
			return all, ""
		},
		"a huge entry": func(all []member) ([]member, string) {
			all[2].data = strings.Repeat(" ", channels.MaxEntry+1)
			return all, ""
		},
		"a huge record": func(all []member) ([]member, string) {
			i := index(t, all, "releases/1.1.0/release.json")
			all[i].data += strings.Repeat(" ", library.MaxRecord)
			return all, ""
		},
		"a huge header":    func(all []member) ([]member, string) { all[0].data += strings.Repeat(" ", maxHeader); return all, "" },
		"something behind": func(all []member) ([]member, string) { return all, "x" },
		"an endless end":   func(all []member) ([]member, string) { return all, strings.Repeat("\x00", 2*maxTail) },
		"nothing":          func([]member) ([]member, string) { return nil, "" },
	} {
		t.Run(name, func(t *testing.T) {
			site := newPlace(t, "http://10.0.0.7/updates", hq.key)
			all, tail := hostile(apart(t, good))
			if report, err := site.take(t, together(t, all, tail)); err == nil || !errors.As(err, new(*release.Refusal)) && !errors.Is(err, channels.ErrName) {
				t.Fatalf("%+v, %v", report, err)
			}
			site.shows(t, "")
			site.must(t, good)
			site.shows(t, "1.1.0")
		})
	}
	t.Run("cut off", func(t *testing.T) {
		site := newPlace(t, "http://10.0.0.7/updates", hq.key)
		for n := 0; n < len(good); n += 1 + len(good)/40 {
			if report, err := site.take(t, good[:n]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%d of %d bytes: %+v, %v", n, len(good), report, err)
			}
			site.shows(t, "")
		}
		site.must(t, good)
	})
}

// TestNotRead: how much of a damaged file was not read is said only once all records are known.
func TestNotRead(t *testing.T) {
	hq, site := sides(t)
	hq.publish(t, "stable", "1.0.0")
	hq.publish(t, "stable", "1.1.0")
	good := hq.export(t, 0)
	for at, said := range map[string]bool{"releases/1.0.0/release.json": false, "releases/1.1.0/release.json": false, "releases/1.1.0/App": true} {
		all := apart(t, good)
		i := index(t, all, at)
		all[i].data += "x"
		if _, err := site.take(t, together(t, all, "")); !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "; not read: ") != said {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestStrangers: a site trusts only its own keys and the history that it already has.
func TestStrangers(t *testing.T) {
	hq, site := sides(t)
	hq.publish(t, "stable", "1.0.0")
	first := hq.export(t, 0)
	site.must(t, first)

	stranger, _ := sides(t)
	stranger.publish(t, "stable", "1.0.0")
	if _, err := newPlace(t, "http://10.0.0.8", hq.key).take(t, stranger.export(t, 0)); !errors.Is(err, signing.ErrUntrustedKey) {
		t.Errorf("other keys: %v", err)
	}
	// follows: `tsmon channel log …` on both sides shows where they differ; either somebody moved the channel on one side without being allowed to, or the origin was restored from a backup and then moved on; in the second case, start the site again in another storage
	twin := newPlace(t, "https://hq.example.com/app", hq.key)
	twin.Who = "another"
	twin.publish(t, "stable", "1.0.0")
	twin.publish(t, "stable", "1.1.0")
	for _, since := range []uint64{0, 1} {
		if _, err := site.take(t, twin.export(t, since)); !errors.Is(err, ErrForked) {
			t.Errorf("another history since %d: %v", since, err)
		}
	}
	here, there := site.log(t), twin.log(t)
	if here.HashOf(1) == there.HashOf(1) {
		t.Error("the logs don't show where they differ")
	}
	site.shows(t, "1.0.0")

	// follows: release it under another version, there or here
	busy := newPlace(t, "http://10.0.0.9", hq.key)
	busy.publish(t, "beta", "1.0.0")
	if _, err := busy.take(t, first); !errors.Is(err, library.ErrOtherBytes) {
		t.Errorf("other bytes at a version: %v", err)
	}
	hq.publish(t, "stable", "1.0.1")
	if _, err := busy.take(t, hq.export(t, 0)); !errors.Is(err, library.ErrOtherBytes) {
		t.Errorf("other bytes at a version: %v", err)
	}
	busy.Policies["stable"] = release.Policy{}
	free := newPlace(t, "http://10.0.0.9", hq.key)
	free.must(t, hq.export(t, 0))

	// follows: `tsmon channel repair CHANNEL --bundle FILE` restores it from a copy if a channel shows it; otherwise remove the object
	key := "releases/1.0.0/App_1.0.0_x64_en-US.msi.zip"
	taken := newPlace(t, "http://10.0.0.10", hq.key)
	if _, err := taken.Store.Create(t.Context(), key, strings.NewReader("x"), 1, object.Attributes{}); err != nil {
		t.Fatal(err)
	}
	if _, err := taken.take(t, first); !errors.Is(err, library.ErrOtherBytes) {
		t.Errorf("an object in the place: %v", err)
	}
	if err := taken.Store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	taken.must(t, first)
}

func (p *place) log(t testing.TB) *channels.Log {
	t.Helper()
	log, err := p.Repository().Load(t.Context(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestLyingRecord: a log whose bundles differ from those of its records is refused, even if
// every hash is right.
func TestLyingRecord(t *testing.T) {
	hq, site := sides(t)
	hq.publish(t, "stable", "1.0.0")
	hq.publish(t, "stable", "1.1.0")
	all := apart(t, hq.export(t, 0))
	i := index(t, all, "log/stable/0000000002.json")
	all[i].data = strings.Replace(all[i].data, "releases/1.1.0/App_1.1.0_x64_en-US.msi.zip", "releases/1.0.0/App_1.0.0_x64_en-US.msi.zip", 1)
	var h Header
	if err := json.Unmarshal([]byte(all[0].data), &h); err != nil {
		t.Fatal(err)
	}
	_, h.Channels[0].Until.Hash, _ = channels.Candidate([]byte(all[i].data))
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	all[0].data = string(data)
	// follows: nothing was accepted: `tsmon channel verify` at the origin says what is wrong
	if _, err := site.take(t, together(t, all, "")); !errors.Is(err, library.ErrStored) {
		t.Errorf("%v", err)
	}
	if report, err := hq.Keeper().Verify(t.Context(), "stable"); err != nil || len(report.Findings) > 0 {
		t.Errorf("it is not the file alone: %+v, %v", report, err)
	}
	site.must(t, hq.export(t, 0))
}

// TestQuorum: a site accepts entries that its operators have signed, from any source.
func TestQuorum(t *testing.T) {
	hq, site := sides(t)
	annKey, ann := signingtest.Sign(t, channels.Namespace)
	bobKey, bob := signingtest.Sign(t, channels.Namespace)
	eveKey, _ := signingtest.Sign(t, channels.Namespace)
	ours := release.Policy{Operators: &channels.Operators{Keys: map[string]string{"ann": annKey, "bob": bobKey}, Approvals: 2, Rollbacks: 1}}
	hq.Policies["stable"], site.Policies["stable"] = ours, ours
	hq.Sign = ann
	hq.publish(t, "stable", "1.0.0")
	hq.Sign = bob
	if _, err := hq.Approve(t.Context(), "stable", "", false); err != nil {
		t.Fatal(err)
	}
	good := hq.export(t, 0)

	// The thief of one key adds an entry to the file.
	all, log := apart(t, good), hq.log(t)
	forged := log.Next(*log.Head())
	forged.Why, forged.Operators, forged.Signatures, forged.Leader = "theft", nil, nil, ""
	payload, err := forged.Payload()
	if err != nil {
		t.Fatal(err)
	}
	armored, err := ann(t.Context(), []string{annKey}, payload)
	if err != nil {
		t.Fatal(err)
	}
	forged.Signatures = []string{armored}
	data, err := json.MarshalIndent(forged, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	entry := all[1]
	entry.Name, entry.data = channels.EntryKey("stable", 2), string(data)+"\n"
	all = slices.Insert(all, 2, entry)
	all[0].data = strings.Replace(all[0].data, `"sequence": 1`, `"sequence": 2`, 1)
	if _, err := site.take(t, together(t, all, "")); !errors.Is(err, channels.ErrUnsigned) {
		t.Errorf("one of two signatures: %v", err)
	}

	unsigned, _ := sides(t)
	unsigned.key, unsigned.Keys = hq.key, hq.Keys
	unsigned.publish(t, "stable", "1.0.0")
	if _, err := site.take(t, unsigned.export(t, 0)); !errors.Is(err, channels.ErrUnsigned) {
		t.Errorf("no signatures: %v", err)
	}
	// follows: nothing was accepted: get a new copy from the origin; `tsmon channel verify …` there checks its log; tsmon.yaml here must name the same operators, and the same server.operators_root if that key put them in force
	other := newPlace(t, "http://10.0.0.8", hq.key)
	other.Policies["stable"] = release.Policy{Operators: &channels.Operators{Keys: map[string]string{"eve": eveKey}, Approvals: 1, Rollbacks: 1}}
	if _, err := other.take(t, good); !errors.Is(err, channels.ErrUnsigned) {
		t.Errorf("other operators: %v", err)
	}
	other.Policies["stable"] = ours
	other.must(t, good)
	site.must(t, good)
	site.shows(t, "1.0.0")
}

// TestOtherOperators: a store whose tsmon.yaml names other operators than those who signed
// accepts nothing, even if the entries follow its own.
func TestOtherOperators(t *testing.T) {
	hq, site := sides(t)
	annKey, ann := signingtest.Sign(t, channels.Namespace)
	eveKey, _ := signingtest.Sign(t, channels.Namespace)
	by := func(who, key string) release.Policy {
		return release.Policy{Operators: &channels.Operators{Keys: map[string]string{who: key}, Approvals: 1, Rollbacks: 1}}
	}
	hq.Policies["stable"], site.Policies["stable"] = by("ann", annKey), by("ann", annKey)
	hq.Sign = ann
	hq.publish(t, "stable", "1.0.0")
	site.must(t, hq.export(t, 0))
	hq.publish(t, "stable", "1.1.0")
	next := hq.export(t, 1)
	site.Policies["stable"] = by("eve", eveKey)
	for range 2 {
		if _, err := site.take(t, next); !errors.Is(err, fault.ErrStrangers) {
			t.Errorf("others sign it: %v", err)
		}
	}
	site.Policies["stable"] = by("ann", annKey)
	site.shows(t, "1.0.0")
	site.must(t, next)
	site.shows(t, "1.1.0")
}

var errKilled = errors.New("killed")

// TestDryRuns: a dry run writes nothing, and still reports what is wrong.
func TestDryRuns(t *testing.T) {
	hq, site := sides(t)
	hq.publish(t, "stable", "1.0.0")
	file := hq.export(t, 0)
	report, err := Import(t.Context(), site.Publisher, bytes.NewReader(file), true)
	if err != nil || !report.Changed || len(report.Releases) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	report, err = Mirror(t.Context(), site.Publisher, hq.Store, nil, true)
	if err != nil || !report.Changed || len(report.Releases) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	all := apart(t, file)
	i := index(t, all, "releases/1.0.0/App")
	all[i].data = "x" + all[i].data[1:]
	if _, err := Import(t.Context(), site.Publisher, bytes.NewReader(together(t, all, "")), true); !errors.Is(err, ErrDamaged) {
		t.Errorf("a changed bundle: %v", err)
	}
	if _, err := site.Store.Stat(t.Context(), "log/stable/0000000001.json"); !errors.Is(err, fs.ErrNotExist) || len(objecttest.Tree(t, site.Store)) > 0 {
		t.Errorf("something was written: %v", err)
	}
}

// FuzzImport: an import of any file ends, and shows nothing that does not verify.
func FuzzImport(f *testing.F) {
	hq, site := sides(f)
	hq.publish(f, "stable", "1.0.0")
	good := hq.export(f, 0)
	f.Add(good)
	z, err := zstd.NewReader(bytes.NewReader(good))
	if err != nil {
		f.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	w, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, file := range [][]byte{data, w.EncodeAll(data, nil)} {
			report, err := Import(t.Context(), site.Publisher, bytes.NewReader(file), true)
			if err != nil {
				continue
			}
			for _, c := range report.Channels {
				if none := c.Sequence == 0 && c.Version == ""; !none && c != (Channel{"stable", "1.0.0", 0, 1}) {
					t.Errorf("%+v", report)
				}
			}
		}
	})
}
