// CoreDNS with what cluster DNS takes, and without the clouds' plugins, which are most of what there is to build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// In the order of CoreDNS' own plugin.cfg.
	dnsserver.Directives = []string{"errors", "health", "ready", "cache", "loadbalance", "kubernetes"}
	coremain.Run()
}
