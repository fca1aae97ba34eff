package gossip

import (
	"encoding/binary"
	"errors"

	"github.com/phoebe-sched/phoebe/probe/gossip/view"
)

// metaVersion of what members tell of themselves: it, the run (8 bytes, little-endian), and three strings with
// their length (uvarint) before them.
const metaVersion = 1

var errMeta = errors.New("its description is of another version, or cut short")

func encodeMeta(m view.Member) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{metaVersion}, m.Run)
	for _, s := range []string{m.Name, m.API, m.Heartbeat} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

func decodeMeta(b []byte) (m view.Member, err error) {
	if len(b) < 9 || b[0] != metaVersion {
		return m, errMeta
	}
	m.Run = binary.LittleEndian.Uint64(b[1:])
	b = b[9:]
	for _, s := range []*string{&m.Name, &m.API, &m.Heartbeat} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) || size > view.MaxName {
			return m, errMeta
		}
		*s, b = string(b[n:n+int(size)]), b[n+int(size):]
	}
	if m.Name == "" {
		return m, errMeta
	}
	return m, nil
}
