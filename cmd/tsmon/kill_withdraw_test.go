package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestWithdrawKilled ends `plan withdraw` at every storage operation. The channel stays as it was,
// other commands work, and the same command again removes the rest.
func TestWithdrawKilled(t *testing.T) {
	storages(t, func(t *testing.T, fresh func(t *testing.T) *kit) {
		v1, v2 := bundles(t, "1.0.0", 100), bundles(t, "1.1.0", 100)
		k := fresh(t)
		k.approvals(t, v1, v2)
		k.stop()
		hash := k.onlyPlan(t)
		held := k.hold(t)
		moment := 1
		for finished := false; !finished && !t.Failed(); moment++ {
			t.Run(fmt.Sprint(moment), func(t *testing.T) {
				k.restore(t, held)
				var stderr string
				var code int
				if stderr, code, finished = k.dies(t, moment, 0, "plan", "withdraw", hash); finished && code != 0 {
					t.Fatalf("exit code %d: %s", code, stderr)
				}
				if got := k.verified(t, "stable"); got != "1.0.0" {
					t.Errorf("stable shows %s", got)
				}
				k.must(t, "plan", "list")
				left := plansLeft(t, k)
				stderr, code, _ = k.dies(t, 1<<30, 0, "plan", "withdraw", hash)
				if gone := left == ""; gone != (code == 3) || !gone && code != 0 {
					t.Errorf("with %q left: exit code %d: %s", left, code, stderr)
				}
				if left := plansLeft(t, k); left != "" {
					t.Errorf("in the end there is %s", left)
				}
			})
		}
		if moment < 10 {
			t.Errorf("only %d moments were there", moment)
		}
		// What was withdrawn can be asked for again.
		k.restore(t, held)
		if _, code, _ := k.dies(t, 1<<30, time.Minute, "plan", "withdraw", hash); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if out := k.must(t, "release", "publish", "--no-probe", "--version", "1.1.0", v2); !strings.Contains(out, "waits for approvals, 1 of 2") {
			t.Error(out)
		}
	})
}

// plansLeft lists the objects in the folder of plans of stable.
func plansLeft(t *testing.T, k *kit) string {
	t.Helper()
	var keys []string
	for info, err := range k.store.List(t.Context(), "plans/stable/", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return strings.Join(keys, " ")
}
