package console_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/record"
	"tsmon/store/series"
)

const fleetSize = 1200

// spreading is how many clients have each version, by the day of the story: 1.0.0 is
// everybody's, 1.1.0 comes on the sixth day, 1.2.0 by steps from the twentieth on.
func spreading(day float64) map[string]int {
	share := func(begin, half, most float64) int {
		if day < begin {
			return 0
		}
		return int(most * fleetSize * (1 - math.Exp2(-(day-begin)/half)))
	}
	newest := share(20, 3, 0.5)
	if day >= 26 {
		newest = share(20, 2, 0.9)
	}
	middle := max(0, share(6, 2, 1)-newest)
	return map[string]int{"1.0.0": fleetSize - middle - newest, "1.1.0": middle, "1.2.0": newest}
}

// month makes 28 days of a channel in a data folder: its log, the clients that are known
// and what was counted of them, each hour. It returns the key of its releases.
func month(t *testing.T, data string) (key string) {
	t.Helper()
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	made := t.Run("month", func(t *testing.T) {
		w := apitest.EmbeddedIn(t, data)
		d := w.Desk(t)
		key = d.Key.Public().String()
		d.Who = "maintainer"
		d.Origin = &channels.Origin{Commit: "0123abc4567", Run: "https://ci.example.com/4711"}
		moved := 0.0
		to := func(day float64) {
			w.Clock.Move(time.Duration((day - moved) * 24 * float64(time.Hour)))
			moved = day
		}
		w.Clock.Move(-28 * 24 * time.Hour) // days count from here
		begin := w.Now()
		d.PublishWith(t, "1.0.0", func(*release.PublishOptions) {})
		to(6)
		d.PublishWith(t, "1.1.0", func(o *release.PublishOptions) { o.Why = "faster maps" })
		to(20)
		d.PublishWith(t, "1.2.0", func(o *release.PublishOptions) {
			o.Why, o.Rollout = "alarms by sound", &channels.Rollout{Steps: []int{50, 90, 100}, Every: channels.Duration(6 * 24 * time.Hour)}
		})
		to(26)
		if _, err := d.Advance(t.Context(), release.Options{Channel: "stable"}); err != nil {
			t.Fatal(err)
		}
		if err := w.Series.Create(t.Context(), fleet.Database); err != nil {
			t.Fatal(err)
		}
		var counted []series.Sample
		for at := begin; at.Before(time.Now()); at = at.Add(time.Hour) {
			fields := map[string]any{}
			for version, n := range spreading(at.Sub(begin).Hours() / 24) {
				if n > 0 {
					fields[version] = int64(n)
				}
			}
			counted = append(counted, series.Sample{Measurement: fleet.ClientsMeasurement("stable"), Fields: fields, Time: at})
		}
		if err := w.Series.Write(t.Context(), fleet.Database, counted); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		var seen record.Sightings
		for version, n := range spreading(28) {
			for range n {
				id := record.ClientID{byte(len(seen.Installed)), byte(len(seen.Installed) >> 8), 7}
				seen.Installed = append(seen.Installed, record.Installed{Channel: "stable", Client: id, Version: version, Target: "linux-x86_64", Seen: now})
				try := record.Try{Channel: "stable", Client: id, Version: "1.2.0", Asked: now.Add(-2 * time.Hour), Network: record.Network(len(seen.Installed))}
				switch n := len(seen.Installed); {
				case version == "1.2.0":
					try.Running = now
				case n%4 == 0: // it has downloaded the release
					seen.Downloads = append(seen.Downloads, record.Download{Client: id, Version: "1.2.0", Time: now.Add(-time.Hour)})
					if n%12 == 0 { // and was offered it again
						try.Asked = now
					}
				default:
					continue
				}
				seen.Tries = append(seen.Tries, try)
			}
		}
		if err := w.Records.Sight(t.Context(), seen); err != nil {
			t.Fatal(err)
		}
	})
	if !made {
		t.FailNow()
	}
	return key
}

// TestAdoption draws how three releases spread over a month, what they have under the
// crosshair, and says what came of downloads and who has what now.
func TestAdoption(t *testing.T) {
	r := newProject(t, "")
	data := filepath.Join(r.folder, "data")
	key := month(t, data)
	r.write("tsmon.yaml", fmt.Sprintf("storage: data/objects\npublic_url: https://releases.example.com/app\ntrusted_keys: [%s]\nchannels:\n  stable: {targets: [linux-x86_64]}\n  beta: {prerelease: true}\n", key))
	r.serve()
	b := newBrowser(t, 1280, 1100)
	b.enter(r, "")
	b.until(fmt.Sprintf(`document.body.innerText.replace(/[.,]/g, "").includes("%d of 1200 have it")`, spreading(28)["1.2.0"]))
	b.text("90 %")
	b.text("✓ appimage")
	b.text("came to nothing")
	b.shot("adoption-overview")
	b.visit("#/releases/channel/stable")
	b.text("Adoption since ")
	b.until(`document.querySelectorAll(".panel .u-over").length === 1 && document.querySelectorAll(".panel .legend tr").length === 3`)
	now := spreading(28)
	b.until(fmt.Sprintf(`document.querySelector(".panel .legend").innerText.includes("1.2.0") && document.querySelector(".panel .legend").innerText.replace(/[.,\s]/g, "").includes("120%d")`, now["1.2.0"]))
	b.text("Downloads of 1.2.0 of which nothing more is known")
	b.audit("adoption")
	b.shot("adoption")

	// Under the crosshair stands what was counted there.
	place := value[[]float64](b, `(r => [r.left, r.top, r.width, r.height])(document.querySelector(".panel .u-over").getBoundingClientRect())`)
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, place[0]+place[2]*15/28, place[1]+place[3]/2))
	const legend = `[...document.querySelectorAll(".panel .legend tr")].map(row => Number(row.querySelector(".now").innerText.replace(/[^0-9]/g, "")))`
	b.until(legend + `[0] === 0`)
	rows := value[[]int](b, legend) // newest, then by clients now
	if want := spreading(15); len(rows) != 3 || math.Abs(float64(rows[1]+rows[2]-fleetSize)) > 2 || math.Abs(float64(max(rows[1], rows[2])-want["1.1.0"])) > 0.05*fleetSize {
		t.Errorf("on the fifteenth day it has %v, want %v", rows, want)
	}
	b.shot("adoption-crosshair")

	// A rehearsal counts the clients that it is about.
	b.fill(".rehearse input[name=reason]", "slow")
	b.press("\r")
	b.text("Not reached: who has a version above 1.1.0 keeps it.")
	said := value[string](b, `document.querySelector(".rehearse .result").innerText`)
	if want := fmt.Sprintf("Clients: %d,%03d.", now["1.2.0"]/1000, now["1.2.0"]%1000); !strings.Contains(said, want) {
		t.Errorf("the rehearsal lacks %q: %s", want, said)
	}
	for version, n := range now {
		var row string
		if n > 0 {
			row = value[string](b, `[...document.querySelectorAll(".rehearse .reach tbody tr")].find(e => e.querySelector("th")?.innerText === `+quote(version)+`)?.querySelector("td.number").innerText.replace(/[^0-9]/g, "") ?? "no row"`)
		}
		if n > 0 && row != fmt.Sprint(n) {
			t.Errorf("the rehearsal counts %s clients of %s, want %d", row, version, n)
		}
	}
	b.eval(`document.querySelector(".rehearse").scrollIntoView()`)
	b.shot("adoption-rehearsal")

	b.eval(`document.querySelector(".timeline summary").click()`)
	b.text("0123abc")
	b.text("ci.example.com/4711")
	b.do(chromedp.EmulateViewport(390, 844))
	b.eval(`document.documentElement.dataset.theme = "dark"`)
	b.audit("adoption on a telephone")
	b.shot("adoption-phone")
}
