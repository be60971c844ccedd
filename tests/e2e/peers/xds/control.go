package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbac "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	tcpproxy "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xds "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	policyType   = "type.googleapis.com/weft.policy.v1.Policy"
	workloadType = "type.googleapis.com/weft.workload.v1.Workload"
	problemType  = "type.googleapis.com/weft.status.v1.Problem"
)

// What the file says.
type mesh struct {
	// One service: its address and backends.
	VIP      string   `json:"vip"`
	Backends []string `json:"backends"`
	// The node's pods: name -> address.
	Node string            `json:"node"`
	Pods map[string]string `json:"pods"`
	// Pods' addresses that are refused everywhere.
	Refused []string `json:"refused"`
}

// One cache for each type, all of them served on one stream.
type caches map[string]*cache.LinearCache

func control(address, file string) error {
	all := caches{}
	mux := &cache.MuxCache{Caches: map[string]cache.Cache{}}
	for _, typeURL := range []string{
		resource.ListenerType, resource.ClusterType, resource.EndpointType, policyType, workloadType,
		// Always empty. A multiplexed cache ends the stream that asks for what it has no cache for.
		problemType,
	} {
		all[typeURL] = cache.NewLinearCache(typeURL)
		mux.Caches[typeURL] = all[typeURL]
	}
	mux.Classify = func(r *cache.Request) string { return r.GetTypeUrl() }
	mux.ClassifyDelta = func(r *cache.DeltaRequest) string { return r.GetTypeUrl() }

	socket, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.StreamInterceptor(logged))
	discovery.RegisterAggregatedDiscoveryServiceServer(server, xds.NewServer(context.Background(), mux, nil))
	failed := make(chan error, 2)
	go func() { failed <- follow(file, all) }()
	go func() { failed <- server.Serve(socket) }()
	return <-failed
}

// Serves what the file says whenever that has changed.
func follow(file string, all caches) error {
	var before []byte
	for ; ; time.Sleep(100 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Equal(text, before) {
			continue
		}
		before = text
		var said mesh
		if err := json.Unmarshal(text, &said); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		resources, err := translate(said)
		if err != nil {
			return err
		}
		for typeURL, of := range resources {
			all[typeURL].SetResources(of)
		}
	}
}

func translate(said mesh) (map[string]map[string]types.Resource, error) {
	vip, err := netip.ParseAddrPort(said.VIP)
	if err != nil {
		return nil, err
	}
	proxy, err := anypb.New(&tcpproxy.TcpProxy{
		StatPrefix:       "web",
		ClusterSpecifier: &tcpproxy.TcpProxy_Cluster{Cluster: "web"},
	})
	if err != nil {
		return nil, err
	}
	ads := &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
	assignment := &endpoint.ClusterLoadAssignment{
		ClusterName: "web",
		Endpoints:   []*endpoint.LocalityLbEndpoints{{}},
	}
	for _, backend := range said.Backends {
		at, err := netip.ParseAddrPort(backend)
		if err != nil {
			return nil, err
		}
		assignment.Endpoints[0].LbEndpoints = append(assignment.Endpoints[0].LbEndpoints, &endpoint.LbEndpoint{
			HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{Address: socketAddress(at)}},
		})
	}
	workloads, err := workloads(said)
	if err != nil {
		return nil, err
	}
	policies, err := policies(said)
	if err != nil {
		return nil, err
	}
	return map[string]map[string]types.Resource{
		resource.ListenerType: {"web": &listener.Listener{
			Name:    "web",
			Address: socketAddress(vip),
			FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{{
				Name:       "envoy.filters.network.tcp_proxy",
				ConfigType: &listener.Filter_TypedConfig{TypedConfig: proxy},
			}}}},
		}},
		resource.ClusterType: {"web": &cluster.Cluster{
			Name:                 "web",
			ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
			EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{EdsConfig: ads},
			LbPolicy:             cluster.Cluster_RANDOM,
		}},
		resource.EndpointType: {"web": assignment},
		workloadType:          workloads,
		policyType:            policies,
	}, nil
}

func socketAddress(at netip.AddrPort) *core.Address {
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address:       at.Addr().String(),
		PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(at.Port())},
	}}}
}

// An RBAC as anybody writes it, in a Policy that has nothing else: it is for all pods.
func policies(said mesh) (map[string]types.Resource, error) {
	if len(said.Refused) == 0 {
		return map[string]types.Resource{}, nil
	}
	var refused []*rbac.Principal
	for _, address := range said.Refused {
		refused = append(refused, &rbac.Principal{Identifier: &rbac.Principal_DirectRemoteIp{
			DirectRemoteIp: &core.CidrRange{AddressPrefix: address, PrefixLen: wrapped(32)},
		}})
	}
	rules, err := proto.Marshal(&rbac.RBAC{
		Action: rbac.RBAC_DENY,
		Policies: map[string]*rbac.Policy{"refused": {
			Principals:  refused,
			Permissions: []*rbac.Permission{{Rule: &rbac.Permission_Any{Any: true}}},
		}},
	})
	if err != nil {
		return nil, err
	}
	body := message(nil).text(policyName, "refused").bytes(policyRules, rules)
	return map[string]types.Resource{"refused": body.resource()}, nil
}

func workloads(said mesh) (map[string]types.Resource, error) {
	all := map[string]types.Resource{}
	for name, text := range said.Pods {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		all[name] = message(nil).
			text(workloadName, name).
			number(workloadKind, kindPod).
			bytes(workloadAddresses, address.AsSlice()).
			text(workloadNamespace, "default").
			text(workloadNode, said.Node).
			resource()
	}
	return all, nil
}

// A message of a schema that this program does not have.
type message []byte

func (m message) bytes(field protowire.Number, value []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), value)
}

func (m message) text(field protowire.Number, value string) message {
	return m.bytes(field, []byte(value))
}

func (m message) number(field protowire.Number, value uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), value)
}

// Goes on the wire as its bytes: to a message without fields all of them are unknown.
func (m message) resource() types.Resource {
	empty := &emptypb.Empty{}
	empty.ProtoReflect().SetUnknown([]byte(m))
	return empty
}
