// Verifies X.509-SVIDs with go-spiffe, the reference implementation: an opinion of somebody else about what Weft's CA issues.
//
//	verify svid   --bundle FILE --trust-domain NAME --svid FILE      parse (certificate chain and key in one PEM file) and verify
//	verify mtls   --bundle FILE --trust-domain NAME --svid FILE --peer FILE --expect ID
//	                                                                 a TLS connection from --svid to --peer, each verifying the other; --expect is who
//	                                                                 the client wants to talk to
//
// Prints "ok ID" and exits with 0, or says why not and exits with 1.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

type options struct {
	bundle, trustDomain, svid, peer, expect, at string
}

func main() {
	id, err := run(os.Args[1:])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ok", id)
}

func run(args []string) (spiffeid.ID, error) {
	if len(args) == 0 {
		return spiffeid.ID{}, errors.New("usage: verify svid|mtls ...")
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.bundle, "bundle", "", "roots, PEM")
	flags.StringVar(&o.trustDomain, "trust-domain", "", "trust domain of the bundle")
	flags.StringVar(&o.svid, "svid", "", "certificate chain and key, PEM")
	flags.StringVar(&o.peer, "peer", "", "the server's, PEM")
	flags.StringVar(&o.expect, "expect", "", "SPIFFE ID that the server has to have")
	flags.StringVar(&o.at, "at", "", "verify as of this time, RFC 3339")
	if err := flags.Parse(args[1:]); err != nil {
		return spiffeid.ID{}, err
	}
	domain, err := spiffeid.TrustDomainFromString(o.trustDomain)
	if err != nil {
		return spiffeid.ID{}, err
	}
	bundle, err := x509bundle.Load(domain, o.bundle)
	if err != nil {
		return spiffeid.ID{}, err
	}
	svid, err := load(o.svid)
	if err != nil {
		return spiffeid.ID{}, err
	}
	switch args[0] {
	case "svid":
		return verify(svid, bundle, o.at)
	case "mtls":
		return connect(svid, bundle, o)
	default:
		return spiffeid.ID{}, fmt.Errorf("unknown verb %q", args[0])
	}
}

// Parse checks the leaf against the X509-SVID standard, and that the key fits.
func load(path string) (*x509svid.SVID, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return x509svid.Parse(text, text)
}

func verify(svid *x509svid.SVID, bundle *x509bundle.Bundle, at string) (spiffeid.ID, error) {
	var opts []x509svid.VerifyOption
	if at != "" {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return spiffeid.ID{}, err
		}
		opts = append(opts, x509svid.WithTime(when))
	}
	id, _, err := x509svid.Verify(svid.Certificates, bundle, opts...)
	return id, err
}

// A whole TLS connection in memory, with a byte each way.
func connect(client *x509svid.SVID, bundle *x509bundle.Bundle, o options) (spiffeid.ID, error) {
	server, err := load(o.peer)
	if err != nil {
		return spiffeid.ID{}, err
	}
	expected, err := spiffeid.FromString(o.expect)
	if err != nil {
		return spiffeid.ID{}, err
	}
	near, far := net.Pipe()
	defer near.Close()
	deadline := time.Now().Add(20 * time.Second)
	_ = near.SetDeadline(deadline)
	_ = far.SetDeadline(deadline)
	served := make(chan error, 1)
	go func() {
		config := tlsconfig.MTLSServerConfig(server, bundle, tlsconfig.AuthorizeMemberOf(bundle.TrustDomain()))
		connection := tls.Server(far, config)
		_, err := io.CopyN(connection, connection, 1)
		// Whatever came of it: the other end is not to wait.
		far.Close()
		served <- err
	}()
	config := tlsconfig.MTLSClientConfig(client, bundle, tlsconfig.AuthorizeID(expected))
	connection := tls.Client(near, config)
	if _, err := connection.Write([]byte{1}); err != nil {
		return spiffeid.ID{}, fmt.Errorf("client: %w", err)
	}
	if _, err := io.ReadFull(connection, make([]byte, 1)); err != nil {
		return spiffeid.ID{}, fmt.Errorf("server: %w", errors.Join(err, <-served))
	}
	return expected, nil
}
