package mqtt

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValidTopic(t *testing.T) {
	for _, topic := range []string{
		"a", "acueducto/pozo 1/config", "ñ/日本/🚰", "a//b", "/a/", "/", " ", `a"b\c`, "sys/SYS",
		strings.Repeat("a", 1024), strings.Repeat("a/", 200),
	} {
		if err := ValidTopic(topic); err != nil {
			t.Errorf("%.40q: %v", topic, err)
		}
	}
	for _, topic := range hostileTopics {
		if err := ValidTopic(topic); !errors.Is(err, ErrTopic) {
			t.Errorf("%.40q: the error is %v", topic, err)
		}
	}
}

var hostileTopics = []string{
	"", "#", "+", "a/#", "a/+/b", "a+b", "$SYS/broker", "$share/g/a", "a/$b", "a\x00b", "a\nb", "a\x1bb", "a\x7fb", "a\u0085b",
	"a\xffb", "\xed\xa0\x80", "a\ufffeb", "\U0010ffff", "\ufdd0", strings.Repeat("a", 1025), strings.Repeat("/", 201),
	strings.Repeat("ñ", 513),
}

func FuzzValidTopic(f *testing.F) {
	for _, topic := range hostileTopics {
		f.Add(topic)
	}
	f.Add("acueducto/pozo 1/config")
	f.Fuzz(func(t *testing.T, topic string) {
		if ValidTopic(topic) != nil {
			return
		}
		if topic == "" || len(topic) > 1024 || !utf8.ValidString(topic) || strings.ContainsAny(topic, "+#$\x00\x01\n\x1f\x7f\u0080\u009f") {
			t.Errorf("%q is taken", topic)
		}
	})
}
