package files

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

const (
	maxPeers       = 4               // asked before the origin: if these lack the file, the origin is the surer source
	maxRedirects   = 5               // followed for an origin; peers do not redirect
	connectTimeout = 3 * time.Second // the host may be down, and other sources may be up
	secretHeader   = "Phoebe-Secret"
	tenantHeader   = "Phoebe-Tenant" // escaped as in a URL's path
	filesPath      = "/files/"       // path at a peer; the digest in hex follows
)

type sourceKind uint8

const (
	fromPeer sourceKind = iota
	fromWeb
	fromDisk
)

// source is a place that may have the file.
type source struct {
	kind sourceKind
	host string // host asked, with its port; "": this machine's disk
	name string // name for messages, without secrets
	// open returns the content and its announced size; -1: the source announces no size.
	open func(ctx context.Context) (_ io.ReadCloser, size int64, _ error)
}

// Check returns why this worker cannot fetch f, as far as known before the fetch: nil or an *Error.
func (c *Cache) Check(f probe.File) error {
	var err error
	if f.URL != "" {
		_, err = c.originOf(f.URL)
	}
	if err == nil {
		err = c.checkLimit(f.Bytes)
	}
	if err != nil {
		return &Error{f, reasonOf(err), err}
	}
	return nil
}

// sourcesOf returns the sources of f, best first: the first maxPeers peers, then the origin.
func (c *Cache) sourcesOf(f probe.File, peers []string) ([]source, error) {
	var all []source
	for _, p := range peers[:min(len(peers), maxPeers)] {
		all = append(all, c.peerSource(p, f.Digest))
	}
	if f.URL != "" {
		s, err := c.originOf(f.URL)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, newFailure(Missing, "", "no worker has it in its cache")
	}
	return all, nil
}

// originOf checks a file's URL and returns its source.
func (c *Cache) originOf(raw string) (source, error) {
	u, err := url.Parse(raw)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the URL and its secrets
		}
		return source{}, newFailure(BadURL, "", "its URL is not valid: %w", err)
	}
	switch u.Scheme {
	case "http", "https":
		if err := c.checkAllowed(u); err != nil {
			return source{}, err
		}
		return source{fromWeb, u.Host, displayURL(u), func(ctx context.Context) (io.ReadCloser, int64, error) {
			return getBody(ctx, c.origin, u, "")
		}}, nil
	case "file":
		root, name, err := c.rootOf(u)
		if err != nil {
			return source{}, err
		}
		return source{fromDisk, "", displayURL(u), func(context.Context) (io.ReadCloser, int64, error) {
			return openFile(root, name)
		}}, nil
	}
	return source{}, newFailure(BadURL, "use http, https or file", "URLs of scheme %q are not supported", u.Scheme)
}

// peerSource returns the source at another worker's Handler. The source sends our secret, so peers must be trusted
// workers.
func (c *Cache) peerSource(raw string, digest [32]byte) source {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" ||
		strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return source{fromPeer, "", "a peer", func(context.Context) (io.ReadCloser, int64, error) {
			return nil, 0, newFailure(BadURL, "", "its address is not of the form http://host:port")
		}}
	}
	u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: filesPath + hex.EncodeToString(digest[:])}
	return source{fromPeer, u.Host, "peer " + u.Host, func(ctx context.Context) (io.ReadCloser, int64, error) {
		return getBody(ctx, c.peers, u, c.opts.Secrets.Tell())
	}}
}

// checkAllowed returns an error unless Hosts allows u, the URL of an origin or of a redirect.
func (c *Cache) checkAllowed(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return newFailure(BadURL, "", "it leads to a URL of scheme %q: only http and https are followed", u.Scheme)
	}
	host := u.Hostname()
	if host == "" {
		return newFailure(BadURL, "", "its URL names no host")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if len(c.opts.Hosts) > 0 && !c.opts.hasHost(host, port) {
		return newFailure(Refused, "use an allowed host, or have the operator add it (--file-hosts)",
			"host %s is not among the hosts allowed for files", net.JoinHostPort(host, port))
	}
	return nil
}

// newTransport returns a transport for sources. A TLS handshake may take longer than its request.
func newTransport(control func(network, address string, _ syscall.RawConn) error,
	handshake time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: connectTimeout, Control: control}).DialContext,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // digests and sizes describe the bytes as sent
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           16,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    handshake,
	}
}

// newPeerClient returns a client for other workers.
func newPeerClient(keys *identity.Keys, handshake time.Duration) *http.Client {
	t := newTransport(nil, handshake)
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return keys.Connect(ctx, dial, addr, identity.Worker)
	}
	return &http.Client{
		Transport: t,
		// A redirect would take the secret along.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// newOriginClient returns a client for origins.
func (c *Cache) newOriginClient() *http.Client {
	return &http.Client{
		Transport: newTransport(c.opts.refuseAddr, c.opts.Timeout),
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return newFailure(Unreachable, "give the final URL", "it redirects more than %d times", maxRedirects)
			}
			req.Header.Del("Referer") // tells the URL, whose query may be a secret
			return c.checkAllowed(req.URL)
		},
	}
}

// neverAsked are addresses that trust every caller, or lead to such addresses: link-local addresses and other addresses
// of metadata services, carrier-grade NAT, and IPv6 addresses with an IPv4 address inside.
var neverAsked = parsePrefixes("0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.0/24",
	"224.0.0.0/3", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "fd00:ec2::/32", "fd20:ce::/32", "fe80::/10",
	"ff00::/8")

// privateRanges are the addresses of a site's own network.
var privateRanges = parsePrefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")

func parsePrefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func isIn(ranges []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// rangeOf returns the range of a private address.
func rangeOf(ip netip.Addr) netip.Prefix {
	return privateRanges[slices.IndexFunc(privateRanges, func(p netip.Prefix) bool { return p.Contains(ip) })]
}

// refuseAddr refuses addresses of services that trust their neighbours. It sees the resolved address, so no name server
// gets around it. Hosts and Private open loopback and private addresses only.
func (o *Options) refuseAddr(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := ap.Addr().Unmap().WithZone("")
	isNamed := len(o.Hosts) > 0 // checkAllowed has found the host there
	switch {
	case ip.IsLoopback() && !isNamed:
		return newFailure(Refused, "use another host, or have the operator name this host (--file-hosts)",
			"its address %s is loopback", ip)
	case ip.IsLoopback():
		return nil
	case isIn(neverAsked, ip):
		return newFailure(Refused, "use a host with another address",
			"workers never fetch from %s: it is no address of a file server", ip)
	case isIn(privateRanges, ip) && !isNamed && !isIn(o.Private, ip):
		return newFailure(Refused, fmt.Sprintf("use another host, or have the operator name its range "+
			"(--file-private %s) or the host (--file-hosts)", rangeOf(ip)), "its address %s is private", ip)
	}
	return nil
}

// getBody asks client for u, and returns the body and its length; -1: unknown.
func getBody(ctx context.Context, client *http.Client, u *url.URL, secret string) (io.ReadCloser, int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, 0, newFailure(BadURL, "", "its URL is not valid")
	}
	resp, err := sendRequest(client, req, secret, "")
	if err != nil {
		return nil, 0, err
	}
	return resp.Body, resp.ContentLength, nil
}

// sendRequest sends req with a secret and a Range, unless they are empty.
func sendRequest(client *http.Client, req *http.Request, secret, part string) (*http.Response, error) {
	if part != "" {
		req.Header.Set("Range", part)
	}
	req.Header.Set("User-Agent", "phoebe-worker")
	if secret != "" {
		req.Header.Set(secretHeader, secret)
	}
	resp, err := client.Do(req)
	if err != nil {
		if ours, ok := errors.AsType[*failure](err); ok {
			return nil, ours
		}
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the URL and its secrets
		}
		return nil, newTransient("is the host right and up?", "%w", err)
	}
	if err := checkResponse(resp, part != ""); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// checkResponse returns a failure for any status but success. part means: a part was requested, so 206 is success.
func checkResponse(resp *http.Response, part bool) error {
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if part && resp.StatusCode == http.StatusPartialContent {
		return nil
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return newFailure(Missing, "is the URL right?", "the server says %s", status)
	case http.StatusUnauthorized, http.StatusForbidden:
		return newFailure(Missing, "give a URL that workers may read", "the server says %s", status)
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return newTransient("is it overloaded?", "the server says %s", status)
	default:
		return newFailure(Unreachable, "give the URL of a server that sends the file", "the server says %s, not 200 OK",
			status)
	}
	return nil
}

// rootOf returns the root above a file URL's path, and the path relative to the root.
func (c *Cache) rootOf(u *url.URL) (root, name string, _ error) {
	if (u.Host != "" && u.Host != "localhost") || u.Opaque != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") {
		return "", "", newFailure(BadURL, "",
			"a file URL has the form file:///path, for a file readable by the worker")
	}
	if strings.ContainsRune(u.Path, 0) {
		return "", "", newFailure(BadURL, "", "its path has a zero byte")
	}
	path := filepath.Clean(filepath.FromSlash(u.Path))
	for _, root := range c.opts.Roots {
		if name, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(name) {
			return root, name, nil
		}
	}
	if len(c.opts.Roots) == 0 {
		return "", "", newFailure(Refused, "use http or https, or have the operator allow a folder (--file-roots)",
			"this worker accepts no file URLs")
	}
	return "", "", newFailure(Refused, "", "%s is not below a folder allowed for files (%s)",
		path, strings.Join(c.opts.Roots, ", "))
}

// openFile opens name, a path that must not lead out of root.
func openFile(root, name string) (io.ReadCloser, int64, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, 0, newFailure(Unreachable, "", "cannot open the folder: %w", err)
	}
	defer r.Close()
	file, err := r.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would block the open
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, newFailure(Missing, "", "there is no such file on this worker")
	case errors.Is(err, fs.ErrPermission):
		return nil, 0, newFailure(Missing, "", "this worker's user may not read it")
	case err != nil:
		return nil, 0, newFailure(Refused, "", "cannot open it: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = newFailure(Missing, "", "it is not a regular file")
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}
