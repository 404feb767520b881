package monitor

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"tsmon/api/monitor/mqtt"
	"tsmon/api/web"
	"tsmon/store/record"
)

// published is the answer to a message that the broker accepted.
type published struct {
	Success    bool   `json:"success"`
	Topic      string `json:"topic"`
	ReasonCode byte   `json:"reasonCode"` // of MQTT 5: 0, or 16 where nobody subscribes
	Matched    bool   `json:"matched"`    // a subscriber gets it
}

// devices are reached through the message broker.
type devices struct{ *gate }

// publish sends a configuration message to a device and waits until the broker
// acknowledges it.
func (d *devices) publish(r *http.Request, who caller) (any, error) {
	if err := d.permit(r.Context(), who, who.tenant.Settings.PublishMenu, "send configurations"); err != nil {
		return nil, err
	}
	var body struct {
		Topic string          `json:"topic"`
		Data  json.RawMessage `json:"data"`
	}
	if err := web.Decode(r, &body); err != nil {
		return nil, err
	}
	if len(body.Data) == 0 || body.Data[0] != '{' {
		return nil, web.Invalid("data has to be an object")
	}
	if err := mqtt.ValidTopic(body.Topic); err != nil {
		return nil, web.Invalid("topic: %s", err)
	}
	if prefix := TopicPrefix(who.tenant); !strings.HasPrefix(body.Topic, prefix) {
		return nil, web.Refuse(http.StatusForbidden, "topics of this client begin with %s", prefix)
	}
	receipt, err := d.Messages.Publish(r.Context(), body.Topic, body.Data)
	d.audit(r, record.Audit{
		Schema: who.tenant.Schema, User: who.user.Email, Action: "publish", Target: body.Topic, OK: err == nil,
	})
	if denied, ok := errors.AsType[*mqtt.DeniedError](err); ok {
		return nil, web.Explained(err, denied.Error())
	}
	if err != nil {
		return nil, err
	}
	return web.Done{Success: true, Data: published{true, body.Topic, receipt.ReasonCode, receipt.Matched}}, nil
}

// TopicPrefix returns what the topics of a tenant begin with: its setting, else its
// schema name, and a slash.
func TopicPrefix(t record.Tenant) string {
	return cmp.Or(strings.Trim(t.Settings.TopicPrefix, "/"), t.Schema) + "/"
}
