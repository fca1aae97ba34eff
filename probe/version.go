package probe

import "fmt"

// Versions of the protocol that this release speaks, on links, in heartbeats and in gossip. Version goes up with each
// change of what is written; MinVersion goes up when what an older release writes is no longer understood.
const (
	MinVersion = 7
	Version    = 8
)

// Features are what a release may know to do beside its version, one bit each: what its peer must not be sent without
// being known to understand it has one. Numbers are never reused.
type Features uint64

// Passing: Context, Common and Forget are heeded, and tasks may leave outputs.
const Passing Features = 1 << 0

// Classes: a worker heeds the [Class] of what it queues, and may say Preempted; one without it runs all as regular.
const Classes Features = 1 << 1

// Departing: Away is heeded.
const Departing Features = 1 << 2

// Dialect is what a release speaks: all versions from Min to Max, with these features.
type Dialect struct {
	Min, Max uint32
	Features Features
}

// Spoken is what this release speaks.
var Spoken = Dialect{Min: MinVersion, Max: Version, Features: Passing | Classes | Departing}

// Common is what two peers go on with: the highest version that both speak, and the features that both have. They
// find the same, each by itself. The error says which of two has to be upgraded: d is called us, its peer them.
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

// ReadDialect reads a dialect off the front of b and returns what follows it. The error is a *DecodeError.
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

// AppendOldRejected appends a frame, as a worker writes it, that tells a frontend why its Hello cannot be read, in the form
// of the versions before 7, which did not tell how long a message is.
func AppendOldRejected(b []byte, e Epoch) []byte {
	b, body := BeginPush(b, e)
	b = appendText(append(b, byte(kindRejected)), fmt.Sprintf("this worker speaks %v of the probe protocol, and cannot read this Hello: upgrade the frontend", Spoken))
	return EndFrame(b, body)
}
