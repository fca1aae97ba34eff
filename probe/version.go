package probe

import "fmt"

// Protocol versions of this release, on links, in heartbeats and in gossip. Version goes up with each change of an
// encoding. MinVersion goes up if a release drops the encodings of an older release.
const (
	MinVersion = 7
	Version    = 8
)

// Features are abilities of a release beside its version, one bit each. A message that a peer could misread needs a
// feature: the sender must know that its peer has the feature. Numbers are never reused.
type Features uint64

// Passing: the peer obeys Context, Common and Forget, and its tasks may leave outputs.
const Passing Features = 1 << 0

// Classes: the worker obeys the [Class] of a queue entry, and may send Preempted. A worker without Classes runs
// every entry as regular.
const Classes Features = 1 << 1

// Departing: the worker obeys Away.
const Departing Features = 1 << 2

// Withdrawing: the worker answers a Cancel with Answer.
const Withdrawing Features = 1 << 3

// Dialect is the language of a release: all versions from Min to Max, and the features.
type Dialect struct {
	Min, Max uint32
	Features Features
}

// Spoken is the dialect of this release.
var Spoken = Dialect{Min: MinVersion, Max: Version, Features: Passing | Classes | Departing | Withdrawing}

// Common returns the highest version that d and peer share, and their shared features. Both ends compute the same
// result, each on its own. If d and peer share no version, the error says which end to upgrade, by the names
// ownName (of d) and peerName.
func (d Dialect) Common(peer Dialect, ownName, peerName string) (version uint32, features Features, err error) {
	version = min(d.Max, peer.Max)
	if version >= max(d.Min, peer.Min) {
		return version, d.Features & peer.Features, nil
	}
	older := peerName
	if d.Max < peer.Min {
		older = ownName
	}
	return 0, 0, fmt.Errorf("%s speaks %v of the probe protocol, %s %v: upgrade %s", ownName, d, peerName, peer, older)
}

// String names the versions, for people.
func (d Dialect) String() string {
	if d.Min == d.Max {
		return fmt.Sprintf("version %d", d.Max)
	}
	return fmt.Sprintf("versions %d to %d", d.Min, d.Max)
}

// AppendDialect appends d to b.
func AppendDialect(b []byte, d Dialect) []byte {
	return appendUint(appendUint(appendUint(b, uint64(d.Min)), uint64(d.Max)), uint64(d.Features))
}

// ReadDialect reads a dialect off the front of b and returns the rest of b. The error is a *DecodeError.
func ReadDialect(b []byte) (d Dialect, rest []byte, err error) {
	r := reader{buf: b}
	d = r.readDialect("dialect")
	if r.err != nil {
		return Dialect{}, nil, r.err
	}
	return d, b[r.pos:], nil
}

func (r *reader) readDialect(field string) Dialect {
	return Dialect{Min: r.readUint32(field), Max: r.readUint32(field), Features: Features(r.readUint(field))}
}

// AppendOldRejected appends a worker's frame that tells a frontend why its Hello cannot be read. The frame has the
// form of the versions before 7, in which messages had no length.
func AppendOldRejected(b []byte, e Epoch) []byte {
	b, body := BeginPush(b, e)
	b = appendText(append(b, byte(kindRejected)),
		fmt.Sprintf("this worker speaks %v of the probe protocol, and cannot read this Hello: upgrade the frontend",
			Spoken))
	return EndFrame(b, body)
}
