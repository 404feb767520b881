package bundle

import (
	"context"

	"tsmon/signing"
)

// Signed is a bundle that was signed on disk.
type Signed struct {
	Bundle  string `json:"bundle"`           // path
	Sig     string `json:"sig"`              // path of the signature
	KeyID   string `json:"key_id"`           //
	Version string `json:"version"`          // that the signature is bound to
	Target  string `json:"target,omitempty"` // likewise, if the name tells it
	Size    int64  `json:"size"`             // bytes

	Signature signing.Signature `json:"-"`
}

// Sign makes the signature of every bundle, as Read does; Sig is where the Tauri CLI
// would put it. Nothing is written.
func (r Reader) Sign(ctx context.Context, paths []string) ([]Signed, error) {
	if _, err := ParseVersion(r.Version); err != nil {
		return nil, err
	}
	bundles := make([]Bundle, len(paths))
	for i, path := range paths {
		kind, _ := Recognize(path)
		info, err := stat(path)
		switch {
		case kind.Version != "" && kind.Version != r.Version:
			return nil, Refuse(ErrBundles, "give the version in its name, or rename it", "%s is named version %s, not %s", path, kind.Version, r.Version)
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular() || info.Size() == 0:
			return nil, Refuse(ErrBundles, "give the update archive itself", "%s is empty or not a regular file", path)
		}
		bundles[i] = Bundle{Path: path, Name: path, Target: kind.Target, Size: info.Size()}
	}
	r.digestOnly = true
	contents, err := r.Read(ctx, bundles)
	if err != nil {
		return nil, err
	}
	signed := make([]Signed, len(contents))
	for i, c := range contents {
		signed[i] = Signed{Bundle: c.Path, Sig: c.Path + ".sig", KeyID: c.Signature.KeyID(), Version: r.Version, Target: c.Target,
			Size: c.Size, Signature: *c.Signature}
	}
	return signed, nil
}
