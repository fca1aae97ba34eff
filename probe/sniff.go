package probe

// What both ends of a link tell fastrpc to begin a connection with: SniffHeader, then ProtocolVersion, the
// type of compression (none) and whether TLS follows, one byte each. The other end answers with the same.
const (
	SniffHeader     = "phoebe/1"
	ProtocolVersion = 1
)
