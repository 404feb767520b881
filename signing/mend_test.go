package signing_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"tsmon/signing"
	"tsmon/signing/signingtest"
)

// TestMendsMend: a text that is refused is accepted once it was mended as its hint
// says. Where the hint asks for another file, that file is read instead.
func TestMendsMend(t *testing.T) {
	const bom = "\xef\xbb\xbf"
	sig := signingtest.Testdata(t, "tauri-password/App_1.2.3_x64.app.tar.gz.sig")
	file := signingtest.Testdata(t, "minisign/bundle.tar.gz.minisig")
	pub, tauri := signingtest.Testdata(t, "minisign/minisign.pub"), signingtest.Testdata(t, "tauri-password/tauri.key.pub")
	private := signingtest.Testdata(t, "minisign/unencrypted.key")
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	torn := func(file string) string { // with a space in its second line
		_, line, _ := strings.Cut(strings.TrimSpace(file), "\n")
		return line[:20] + " " + line[20:]
	}
	cut := func(text string, lines int) string { return strings.Join(strings.SplitAfter(text, "\n")[:lines], "") }
	asSignature := func(text string) error { _, err := signing.ParseSignature(text); return err }
	asFile := func(text string) error { _, err := signing.ReadSignature(text); return err }
	asPublic := func(text string) error { _, err := signing.ParsePublicKey(text); return err }
	asPrivate := func(text string) error { _, err := signing.ParsePrivateKey(text); return err }
	encrypted := signingtest.Testdata(t, "minisign/minisign.key")
	decrypted := func(text string) error {
		key, err := signing.ParsePrivateKey(text)
		if err == nil {
			_, err = key.Decrypt("")
		}
		return err
	}
	spoiled := func(file string, at int) string { // one byte of its second line, from the end if negative
		comment, line, _ := strings.Cut(strings.TrimSpace(file), "\n")
		data, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		data[(at+len(data))%len(data)] ^= 1
		return comment + "\n" + encode(string(data)) + "\n"
	}
	old := signing.KeyText{Key: pub, Until: "2.0.0"}
	asRing := func(keys ...signing.KeyText) error { _, err := signing.ParseKeyring(keys); return err }
	for _, c := range []struct {
		wrong error
		mend  string
		right error
	}{
		// follows: take the content of the .sig file that was made beside the bundle
		{asSignature(""), "take the content of the .sig file that was made beside the bundle", asSignature(sig)},
		{asSignature("!"), "take the content of the .sig file that was made beside the bundle", asSignature(sig)},
		// follows: take the content of the .sig file that was made beside the bundle…, not its address
		{asSignature("https://example.com/App.sig"), ", not its address", asSignature(sig)},
		// follows: take the content of the .sig file that was made beside the bundle…, not its name
		{asSignature("App.tar.gz.sig"), ", not its name", asSignature(sig)},
		// follows: take the content of the .sig file that was made beside the bundle…, not the bundle
		{asSignature(encode(strings.Repeat("bundle", 9))), ", not the bundle", asSignature(sig)},
		// follows: encode the whole file of four lines in base64, as the Tauri CLI does
		{asSignature(strings.Split(file, "\n")[1]), "encode the whole file of four lines in base64, as the Tauri CLI does", asSignature(encode(file))},
		// follows: encode the whole file in base64 without line breaks, as the Tauri CLI does
		{asSignature(file), "encode the whole file in base64 without line breaks, as the Tauri CLI does", asSignature(encode(file))},
		// follows: a .sig file of the Tauri CLI is base64 already: use its content as it is
		{asSignature(encode(sig)), "a .sig file of the Tauri CLI is base64 already: use its content as it is", asSignature(sig)},
		// follows: save the .sig file as UTF-8 without a byte order mark
		{asSignature("\xff\xfes\x00"), "save the .sig file as UTF-8 without a byte order mark", asSignature(sig)},
		{asSignature(bom + sig), "save the .sig file as UTF-8 without a byte order mark", asSignature(sig)},
		// follows: remove the line break
		{asSignature(sig + "\n"), "remove the line break", asSignature(sig)},
		// follows: remove the white space
		{asSignature(" " + sig), "remove the white space", asSignature(sig)},
		// follows: join its parts (base64 -w0 does not break lines)
		{asSignature(sig[:76] + "\n" + sig[76:]), "join its parts", asSignature(sig)},
		// follows: save the signature file as UTF-8 without one, and encode it again
		{asSignature(encode(bom + file)), "save the signature file as UTF-8 without one, and encode it again", asSignature(encode(file))},
		// follows: use one signature file for each bundle
		{asFile(file + file), "use one signature file for each bundle", asFile(file)},
		// follows: sign the bundle again
		{asFile(strings.Replace(file, "trusted comment: t", "comment: t", 1)), "sign the bundle again", asFile(file)},
		// follows: : its trusted comment is missing
		{asFile(cut(file, 2)), "sign the bundle again: its trusted comment is missing", asFile(file)},
		// follows: take the content of the .pub file beside the private key
		{asPublic(sig), "take the content of the .pub file beside the private key", asPublic(tauri)},
		// follows: copy it again, whole, from the .pub file
		{asPublic(torn(pub)), "copy it again, whole, from the .pub file", asPublic(pub)},
		// follows: copy it again, whole, from the key file
		{asPrivate(torn(private)), "copy it again, whole, from the key file", asPrivate(private)},
		// follows: take the content of the private key file, as minisign or the Tauri CLI wrote it
		{asPrivate(pub), "take the content of the private key file, as minisign or the Tauri CLI wrote it", asPrivate(private)},
		// follows: ; if this text was ever shared, replace the key
		{asPublic(private), "take the content of the .pub file beside the private key; if this text was ever shared, replace the key", asPublic(pub)},
		// follows: write a version of the application, such as
		{asRing(signing.KeyText{Key: pub, From: "1.6"}), "write a version of the application, such as from: 1.6.0", asRing(signing.KeyText{Key: pub, From: "1.6.0"})},
		// follows: from is the first version that has the key, until the first that no longer has it
		{asRing(signing.KeyText{Key: pub, From: "2.0.0", Until: "1.0.0"}), "from is the first version that has the key, until the first that no longer has it", asRing(signing.KeyText{Key: pub, From: "1.0.0", Until: "2.0.0"})},
		// follows: write it once, with the first version that has it and the first that no longer has it
		{asRing(signing.KeyText{Key: pub, From: "1.0.0"}, old), "write it once, with the first version that has it and the first that no longer has it", asRing(signing.KeyText{Key: pub, From: "1.0.0", Until: "2.0.0"})},
		// follows: one of the two is damaged or forged: remove it
		{asRing(signing.KeyText{Key: pub}, signing.KeyText{Key: spoiled(pub, -1)}), "one of the two is damaged or forged: remove it", asRing(signing.KeyText{Key: pub})},
		// follows: only scrypt is known, which minisign and the Tauri CLI use
		{asPrivate(spoiled(private, 2)), "only scrypt is known, which minisign and the Tauri CLI use", asPrivate(private)},
		// follows: the file is damaged or hostile: use the key that minisign or the Tauri CLI made
		{asPrivate(spoiled(encrypted, 45)), "the file is damaged or hostile: use the key that minisign or the Tauri CLI made", asPrivate(encrypted)},
		// follows: use a backup of the key file
		{decrypted(spoiled(private, 6+32+16+8+32)), "use a backup of the key file", decrypted(private)},
		// follows: with shorter comments
		{asFile(strings.Replace(file, "file:", "file:"+strings.Repeat("x", signing.MaxSignature*3/4), 1)), "sign the bundle again with shorter comments", asFile(file)},
	} {
		var format *signing.FormatError
		if !errors.As(c.wrong, &format) || !strings.Contains(format.Mend, c.mend) {
			t.Errorf("%v (%+v), want the hint %q", c.wrong, format, c.mend)
		}
		if c.right != nil {
			t.Errorf("%s: mended, it is refused: %v", c.mend, c.right)
		}
	}
	// follows: with + and / in place of - and _
	// follows: with = at its end where length asks for it
	for mend, spoil := range map[string]func(string) string{
		"with + and / in place of - and _":           func(s string) string { return strings.NewReplacer("+", "-", "/", "_").Replace(s) },
		"with = at its end where length asks for it": func(s string) string { return strings.TrimRight(s, "=") },
	} {
		done := false
		for n := range 64 { // comments of some length and content give such base64
			good := encode(strings.Replace(file, "file:", "file:"+strings.Repeat("~?", n/8)+strings.Repeat("x", n%8), 1))
			var format *signing.FormatError
			if errors.As(asSignature(spoil(good)), &format) && strings.HasSuffix(format.Mend, mend) && asSignature(good) == nil {
				done = true
			}
		}
		if !done {
			t.Errorf("%s: no signature shows it", mend)
		}
	}
}
