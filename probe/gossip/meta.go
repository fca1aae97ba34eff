package gossip

import (
	"encoding/binary"
	"errors"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
)

var errMeta = errors.New("the member's description comes from another release, or is cut short")

// encodeMeta encodes the self-description of a member: the dialect, the run (8 bytes, little-endian), and three
// strings behind their lengths (uvarint). Readers ignore bytes behind the last string.
func encodeMeta(m rows.Member) []byte {
	b := binary.LittleEndian.AppendUint64(probe.AppendDialect(nil, probe.Spoken), m.Run)
	for _, s := range []string{m.Name, m.API, m.Heartbeat} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

// decodeMeta decodes a self-description. The error says whether this frontend or the member must be upgraded.
func decodeMeta(b []byte) (m rows.Member, err error) {
	dialect, b, err := probe.ReadDialect(b)
	if err != nil {
		return m, errMeta
	}
	if _, _, err := probe.Spoken.Common(dialect, "this frontend", "that one"); err != nil {
		return m, err
	}
	if len(b) < 8 {
		return m, errMeta
	}
	m.Run = binary.LittleEndian.Uint64(b)
	b = b[8:]
	for _, s := range []*string{&m.Name, &m.API, &m.Heartbeat} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) || size > rows.MaxName {
			return m, errMeta
		}
		*s, b = string(b[n:n+int(size)]), b[n+int(size):]
	}
	if m.Name == "" {
		return m, errMeta
	}
	return m, nil
}
