package monitor_test

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tsmon/api/apitest"
	"tsmon/api/monitor/mqtt"
	"tsmon/store/record"
	"tsmon/store/servertest"
)

// TestMosquittoSub receives messages with Mosquitto's own client, through Mosquitto
// and through the embedded broker.
func TestMosquittoSub(t *testing.T) {
	program := servertest.FindMosquitto(t, "mosquitto_sub")
	mosquitto := servertest.StartMosquitto(t)
	t.Run("embedded", func(t *testing.T) { mosquittoSub(t, program, apitest.Embedded(t)) })
	t.Run("mosquitto", func(t *testing.T) {
		w := apitest.Embedded(t)
		client := apitest.Must[*mqtt.Client](t)(mqtt.Dial(t.Context(), mqtt.Options{URL: mosquitto.URL(), Log: w.Log}))
		t.Cleanup(func() { client.Close() })
		w.Messages, w.Broker = client, mosquitto.URL()
		mosquittoSub(t, program, w)
		// What the broker denies is an error, whatever was acknowledged.
		tenant := apitest.Must[record.Tenant](t)(w.Records.Tenant(t.Context(), "acueducto"))
		tenant.Settings.TopicPrefix = "denied"
		if err := w.Records.UpdateTenant(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		ana := w.LogIn(t, w.Serve(t), w.Ana)
		if got := ana.Post("/sendConfigMQTT", apitest.Raw(`{"topic":"denied/bomba","data":{}}`)).WantFailure(t, 500); !strings.Contains(got, "135") {
			t.Errorf("a denial says %q", got)
		}
	})
}

func mosquittoSub(t *testing.T, program string, w *apitest.World) {
	t.Helper()
	apitest.ImportGrants(t, w)
	ana := w.LogIn(t, w.Serve(t), w.Ana)
	topic := w.Ana.Schema + "/bomba/1/config"
	address := w.Broker
	if !strings.Contains(address, "://") {
		address = "mqtt://" + address
	}
	at := apitest.Must[*url.URL](t)(url.Parse(address))
	args := []string{"-V", "mqttv5", "-h", at.Hostname(), "-p", at.Port(), "-t", topic, "-q", "1", "-C", "2", "-W", "120", "-F", "%t %q %r %p"}
	if password, ok := at.User.Password(); ok {
		args = append(args, "-u", at.User.Username(), "-P", password)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// Until it has subscribed nobody matches, and the answer says so. It may say so, too,
	// of the first message that is delivered, if the client subscribed meanwhile.
	send := func() any {
		return ana.Post("/sendConfigMQTT", apitest.Raw(`{"topic":"`+topic+`","data":{"source_0":[4,8]}}`)).Data(t)
	}
	matched := false
	for deadline := time.Now().Add(2 * time.Minute); !matched && time.Now().Before(deadline); {
		matched = send().(map[string]any)["matched"] == true
	}
	send()
	if err := <-ended; err != nil || !matched {
		t.Fatalf("mosquitto_sub: %v, matched %v\n%s", err, matched, errs.String())
	}
	if want := strings.Repeat(fmt.Sprintf("%s 1 0 {\"source_0\":[4,8]}\n", topic), 2); out.String() != want {
		t.Errorf("received %q, want %q", out.String(), want)
	}
}
