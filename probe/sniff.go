package probe

// Both ends of a link begin a connection of fastrpc with SniffHeader, then ProtocolVersion, the type of compression
// (none) and a flag for TLS, one byte each. The answer of the peer has the same form.
const (
	SniffHeader     = "phoebe/1"
	ProtocolVersion = 1
)
