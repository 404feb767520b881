package apitest

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/record"
)

// Headers by which clients of updates identify themselves.
const (
	ClientHeader = "X-Tsmon-Client"
	CohortHeader = "X-Tsmon-Cohort"
)

// Rollout is a server whose channel shows 1.0.0 and rolls out 1.1.0 to nearly
// everybody, with bundles that it serves itself. The channel has a name of its own,
// since worlds may share their records.
type Rollout struct {
	*World
	Desk
	*Updates
	Channel string
}

// RollOut starts a Rollout.
func RollOut(t *testing.T, w *World) *Rollout {
	t.Helper()
	r := &Rollout{World: w, Desk: w.Desk(t), Channel: fmt.Sprint("c", Number.Add(1))}
	w.Refresh = 50 * time.Millisecond
	r.Updates = w.ServeUpdates(t)
	r.Desk.PublicURL = r.Base + "/updates"
	r.Policies[r.Channel] = release.Policy{}
	r.PublishWith(t, "1.0.0", func(o *release.PublishOptions) { o.Channel = r.Channel })
	r.PublishWith(t, "1.1.0", func(o *release.PublishOptions) {
		o.Channel, o.Rollout = r.Channel, &channels.Rollout{Steps: []int{99}, Cohorts: []string{"internal"}}
	})
	return r
}

// Insider returns the headers of a client in the cohort that gets everything first.
func Insider(id string) http.Header {
	return http.Header{ClientHeader: {id}, CohortHeader: {"internal"}}
}

// Check asks for an update for an insider.
func (r *Rollout) Check(id, version string) Answer {
	r.TB.Helper()
	return r.Send("GET", "/updates/"+r.Channel+"/linux/x86_64/"+version, nil, Insider(id))
}

// Download downloads the bundle of a version.
func (r *Rollout) Download(id, version string) Answer {
	r.TB.Helper()
	return r.Send("GET", "/updates/releases/"+version+"/App_"+version+"_amd64.AppImage.tar.gz", nil, Insider(id))
}

// Report is the body of POST /updates/report.
type Report struct {
	Channel string `json:"channel"`
	Version string `json:"version"`
	Target  string `json:"target"`
	Event   string `json:"event"`
}

// Report reports an event of a version.
func (r *Rollout) Report(id, version, event string) Answer {
	r.TB.Helper()
	return r.Send("POST", "/updates/report", Report{r.Channel, version, "linux-x86_64", event}, Insider(id))
}

// WaitProgress waits until the records have this progress with 1.1.0.
func (r *Rollout) WaitProgress(t *testing.T, want record.Progress) {
	t.Helper()
	var got record.Progress
	defer func() {
		if got != want {
			t.Logf("the records have %+v", got)
		}
	}()
	Eventually(t, fmt.Sprintf("%+v", want), func() bool {
		got = Must[record.Progress](t)(r.Records.Progress(t.Context(), r.Channel, "1.1.0"))
		return got == want
	})
}

// WaitClients waits until the records have so many groups of clients, and returns
// them.
func (r *Rollout) WaitClients(t *testing.T, groups int) (clients []record.ClientCount) {
	t.Helper()
	Eventually(t, "the clients", func() bool {
		clients = Must[[]record.ClientCount](t)(r.Records.Clients(t.Context(), r.Channel, time.Time{}))
		return len(clients) >= groups
	})
	return clients
}
