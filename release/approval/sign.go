package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"tsmon/channels"
	"tsmon/release/bundle"
	"tsmon/release/library"
	"tsmon/signing"
	"tsmon/store/object"
)

// ErrNoKey means that no private key of an operator is available. ErrNotOperator wraps it: a
// key was given, but it is not an operator's.
var (
	ErrNoKey       = errors.New("nobody who may sign does so here")
	ErrNotOperator = fmt.Errorf("%w: the key is no operator's", ErrNoKey)
)

// Sign returns the armored signature of data by the first of these OpenSSH public keys whose
// private key it has. If it has none, the signature is empty, or the error wraps ErrNoKey and
// says where it looked.
type Sign func(ctx context.Context, keys []string, data []byte) (armored string, err error)

// AddSignature adds the signature of the operator to an entry that needs some. A step that is
// due waits for no signature: it gets this one only if that is enough for it to keep its author
// and its reason.
func (p Plans) AddSignature(ctx context.Context, log *channels.Log, e *channels.Entry) error {
	if _, free := channels.Unanswered(log, *e); free && log.Operators().Approvals > 1 {
		return nil
	}
	armored, err := p.signature(ctx, log, e)
	if armored != "" && !slices.Contains(e.Signatures, armored) {
		e.Signatures = append(e.Signatures, armored)
	}
	return err
}

// signature returns the operator's signature of an entry, empty if the entry needs none, or not
// this operator's.
func (p Plans) signature(ctx context.Context, log *channels.Log, e *channels.Entry) (armored string, err error) {
	var keys []string
	for _, o := range []*channels.Operators{log.Operators(), e.Operators} {
		if o != nil {
			keys = slices.AppendSeq(keys, maps.Values(o.Keys))
			keys = slices.AppendSeq(keys, maps.Values(o.Servers))
		}
	}
	if len(keys) == 0 || p.Sign == nil {
		return "", nil
	}
	if e.Operators != nil {
		keys = append(keys, p.Root...)
	}
	payload, err := e.Payload()
	if err != nil {
		return "", err
	}
	return p.Sign(ctx, keys, payload)
}

// Unkept returns a warning if an entry loses its reason by being made as a step without
// signatures.
func Unkept(log *channels.Log, e, step *channels.Entry) []string {
	if e.Why == "" || e.Why == step.Why {
		return nil
	}
	return []string{fmt.Sprintf("your reason is not kept: a step that is due needs no signature, and without the signatures of %d operators the log records neither its author nor a reason", log.Operators().Approvals)}
}

// NobodySigns adds the names of those who may sign an entry to an error that wraps ErrNoKey. It
// returns other errors unchanged.
func NobodySigns(err error, log *channels.Log, e *channels.Entry) error {
	if !errors.Is(err, ErrNoKey) {
		return err
	}
	return bundle.Refuse(err, "set TSMON_OPERATOR_KEY to the private key, or its path, of an operator who may sign, or add it to an agent with ssh-add", "entry %d of %s may be signed by: %s", e.Sequence, log.Channel, strings.Join(maySign(log.Operators(), e), ", "))
}

// SignPlan adds the signature of the operator to a plan, and returns it as it is then. again
// names the operator if he had signed it before.
func (p Plans) SignPlan(ctx context.Context, w *Waiting) (signed *Waiting, again string, err error) {
	armored, err := p.signature(ctx, w.Log, w.Entry)
	if err == nil && armored == "" {
		err = ErrNoKey
	}
	if err != nil {
		return nil, "", NobodySigns(err, w.Log, w.Entry)
	}
	who, _, err := signedBy(w.Log, w.Entry, armored)
	if err != nil {
		return nil, "", err
	}
	if who = cmp.Or(who, root); slices.Contains(w.Signed, who) {
		again = who
	}
	w.Entry.Signatures = append(w.Entry.Signatures, armored)
	signed, err = p.keep(ctx, w.Log, w.Hash, w.Entry)
	return signed, again, err
}

// signedBy verifies a signature of an entry. It returns the operator who made it, empty if the key
// is no operator's, and the key.
func signedBy(log *channels.Log, e *channels.Entry, armored string) (who, key string, err error) {
	payload, err := e.Payload()
	if err != nil {
		return "", "", err
	}
	signer, err := signing.VerifySSH(channels.Namespace, payload, armored)
	if err != nil {
		return "", "", err
	}
	return signerOf(log.Operators(), e, signer.String()), signer.String(), nil
}

// keep writes the signatures of an entry beside its plan, replaces whatever lies under the names
// of their signers, and returns the plan as it is then.
func (p Plans) keep(ctx context.Context, log *channels.Log, hash string, e *channels.Entry) (*Waiting, error) {
	for _, armored := range e.Signatures {
		who, key, err := signedBy(log, e, armored)
		if err != nil {
			return nil, err
		}
		at := sigKey(log.Channel, hash, cmp.Or(who, root))
		data, _, err := object.ReadAll(ctx, p.Store, at, maxSig)
		if there := err == nil || errors.Is(err, object.ErrTooLarge); there {
			if _, standing, bad := signedBy(log, e, string(data)); bad == nil && standing == key {
				continue
			}
			if err := p.Store.Delete(ctx, at); err != nil {
				return nil, err
			}
		}
		if _, err := p.Store.Create(ctx, at, strings.NewReader(armored), int64(len(armored)), library.RecordAttributes); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return p.Read(ctx, log, hash)
}

// readSignatures reads the valid signatures of a plan, one for each operator who may sign it.
func (p Plans) readSignatures(ctx context.Context, w *Waiting) error {
	operators := maySign(w.Log.Operators(), w.Entry)
	names := operators
	if !slices.Contains(operators, root) {
		names = append(slices.Clip(operators), root)
	}
	for _, who := range names {
		data, _, err := object.ReadAll(ctx, p.Store, sigKey(w.Channel, w.Hash, who), maxSig)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrTooLarge) {
			continue
		}
		if err != nil {
			return err
		}
		signer, key, err := signedBy(w.Log, w.Entry, string(data))
		if err != nil {
			continue // anybody who can write to the store may have put it there
		}
		if cmp.Or(signer, root) != who || signer == "" && !slices.Contains(p.Root, key) {
			continue // not by the operator that its name says
		}
		w.keys = append(w.keys, key)
		w.Entry.Signatures = append(w.Entry.Signatures, string(data))
		w.Signed = append(w.Signed, who)
	}
	for _, who := range operators {
		if !slices.Contains(w.Signed, who) {
			w.Missing = append(w.Missing, who)
		}
	}
	return nil
}
