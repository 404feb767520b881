package simulate

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tsmon/store/longtest"
)

// TestTable plays the table of the package verdict's README, which takes minutes: in the
// shares of a long run all of it, else the rows of its small fleet that are played fastest.
func TestTable(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "| clients | installs |")
	if !ok {
		t.Fatal("the README has no table")
	}
	var want []string
	for line := range strings.Lines(after) {
		if strings.HasPrefix(line, "| 1") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	if len(want) != 32 {
		t.Fatalf("the table has %d rows", len(want))
	}
	share, long := longtest.Chosen(t)
	for i, o := range tableRows() {
		if !share.Has(i) || !long && (i < 5 || i >= 8) {
			continue
		}
		row := simulated(t, o).Rows[0]
		if got := tableRow(row); got != want[i] {
			t.Errorf("row %d is\n%s, the README says\n%s", i+1, got, want[i])
		}
		if row.Guard.Held > 0 {
			t.Errorf("row %d: held for good: %+v", i+1, row)
		}
	}
}

// tableRows are the options of each row of the table.
func tableRows() (rows []Options) {
	all := Defaults(0.02)
	for _, clients := range all.Clients {
		for _, late := range all.Late {
			o := all
			o.Clients, o.Late, o.Dead = []int{clients}, []bool{late}, false
			for _, multiple := range all.Multiples {
				o.Multiples = []float64{multiple}
				rows = append(rows, o)
			}
			o.Multiples, o.Dead = nil, true
			rows = append(rows, o)
		}
	}
	return rows
}

func tableRow(row Row) string {
	clients, installs, fails := "1,200", "at once", fmt.Sprintf("%g × limit", row.Multiple)
	if row.Clients == 100_000 {
		clients = "100,000"
	}
	if row.Late {
		installs = "when quit"
	}
	if row.Dead {
		fails = "never starts"
	}
	return fmt.Sprintf("| %s | %s | %s | %.1f %% | %s | %s | %d %% | %.1f %% | %s | %.1f %% | %s | %s |", clients, installs, fails,
		row.Guard.Halted*100, row.Guard.Outcomes.text(row.Guard), row.Guard.Fetched.text(row.Guard), row.Guard.Percent,
		row.Seen.Halted*100, row.Seen.Fetched.text(row.Seen), row.Threshold.Halted*100, row.Threshold.Outcomes.text(row.Threshold), row.Threshold.Fetched.text(row.Threshold))
}
