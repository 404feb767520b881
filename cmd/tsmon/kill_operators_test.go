package main

import (
	"os"
	"path/filepath"
	"testing"

	"tsmon/cmd/tsmon/cli"
	"tsmon/signing"
)

// TestSignedKilledAnywhere is TestKilledAnywhere for moves that two operators sign. It kills repair
// and plan approve after a thief destroyed objects, and import and mirror.
func TestSignedKilledAnywhere(t *testing.T) {
	killEach(t, 71, 199, []killStory{
		{"approve a repair", func(t *testing.T, k *kit, v1, v2 string) { k.damaged(t, v1, v2) },
			func(_, _ string) []string { return []string{"plan", "approve", theOnlyPlan} }, "1.1.0", nil},
		{"repair by two", func(t *testing.T, k *kit, v1, v2 string) { k.damaged(t, v1, v2) },
			func(_, _ string) []string { return []string{"channel", "repair", "stable"} }, "1.1.0", nil},
		{"import of signed moves", func(t *testing.T, k *kit, v1, v2 string) {
			k.feedSigned(t, v1, v2)
			k.must(t, "release", "import", v1+".tar.zst")
		}, func(_, v2 string) []string { return []string{"release", "import", v2 + ".tar.zst"} }, "1.1.0", nil},
		{"mirror of signed moves", func(t *testing.T, k *kit, v1, v2 string) {
			k.feedSigned(t, v1, v2)
			k.must(t, "release", "import", v1+".tar.zst")
		}, func(v1, _ string) []string { return []string{"release", "mirror", "--from", v1 + ".hq"} }, "1.1.0", nil},
	})
}

// operators configures two operators of stable, ann and bob, who must both sign. Their keys are read
// from a folder, or are created there. by switches the environment to one of them. bob is his signer.
func (k *kit) operators(t *testing.T, folder string) (by func(who string), bob signing.SSHSigner) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	lines := ""
	for _, who := range []string{"ann", "bob"} {
		file := filepath.Join(folder, who)
		if _, err := os.Stat(file); err != nil {
			made, _ := operatorKey(t)
			if err := os.Rename(made, file); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(file)
		if err == nil {
			bob, err = signing.ParseSSHSigner(string(data))
		}
		if err != nil {
			t.Fatal(err)
		}
		lines += "  " + who + ": " + bob.Public().String() + "\n"
	}
	k.configure(t, "  stable: {approvals: 2}\n  beta: {follows: stable, prerelease: true}\noperators:\n"+lines)
	return func(who string) { k.env = append(k.env, "TSMON_OPERATOR_KEY="+filepath.Join(folder, who)) }, bob
}

// out publishes a version with the signatures of both operators.
func (k *kit) out(t *testing.T, by func(who string), version, folder string) {
	t.Helper()
	by("ann")
	k.must(t, "release", "publish", "--no-probe", "--version", version, folder)
	by("bob")
	k.must(t, "plan", "approve", k.onlyPlan(t), "--no-probe")
}

// approvals configures two operators who must both sign, publishes 1.0.0, and leaves a plan
// of 1.1.0 that ann has signed. The environment and the returned signer are bob's.
func (k *kit) approvals(t *testing.T, v1, v2 string) (bob signing.SSHSigner) {
	t.Helper()
	by, bob := k.operators(t, t.TempDir())
	k.out(t, by, "1.0.0", v1)
	by("ann")
	k.must(t, "release", "publish", "--version", "1.1.0", v2)
	by("bob")
	return bob
}

// damaged publishes 1.0.0 and 1.1.0 with two operators. Then a thief destroys an entry and a bundle,
// and ann leaves a plan that declares them lost. The environment is bob's.
func (k *kit) damaged(t *testing.T, v1, v2 string) {
	t.Helper()
	by, _ := k.operators(t, t.TempDir())
	k.out(t, by, "0.9.0", bundles(t, "0.9.0", 100))
	k.out(t, by, "1.0.0", v1)
	k.out(t, by, "1.1.0", v2)
	shown(t, k) // the server goes on with that
	if err := k.store.Delete(t.Context(), "log/stable/0000000002.json", "releases/0.9.0/App_universal.app.tar.gz", "releases/0.9.0/App_universal.app.tar.gz.sig"); err != nil {
		t.Fatal(err)
	}
	by("ann")
	k.must(t, "channel", "repair", "stable")
	by("bob")
}

// feedSigned is feed with moves that two operators have signed. The site knows both.
func (k *kit) feedSigned(t *testing.T, v1, v2 string) {
	t.Helper()
	k.operators(t, v1+".keys")
	defer func() { k.env = append(k.env, "TSMON_OPERATOR_KEY=") }() // importing takes no operator
	if _, err := os.Stat(v2 + ".tar.zst"); err == nil {
		return
	}
	hq := *k
	hq.env = append(append([]string{}, k.env...), "TSMON_STORAGE="+v1+".hq")
	store, err := cli.OpenStore(t.Context(), v1+".hq")
	if err != nil {
		t.Fatal(err)
	}
	hq.store = store
	asHQ := func(who string) { hq.env = append(hq.env, "TSMON_OPERATOR_KEY="+filepath.Join(v1+".keys", who)) }
	hq.out(t, asHQ, "1.0.0", v1)
	hq.must(t, "release", "export", "stable", "beta", "--output", v1+".tar.zst")
	hq.out(t, asHQ, "1.1.0", v2)
	hq.must(t, "release", "export", "stable", "beta", "--since", "stable=1,beta=1", "--output", v2+".tar.zst")
}
