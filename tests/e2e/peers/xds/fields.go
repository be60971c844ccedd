package main

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Numbers in proto/weft/policy/v1/policy.proto.
const (
	policyName  protowire.Number = 1
	policyRules protowire.Number = 9
)

// Numbers in proto/weft/workload/v1/workload.proto.
const (
	workloadName      protowire.Number = 1
	workloadKind      protowire.Number = 2
	workloadAddresses protowire.Number = 3
	workloadNode      protowire.Number = 4
	workloadNamespace protowire.Number = 5

	kindPod = 1
)

func wrapped(number uint32) *wrapperspb.UInt32Value { return wrapperspb.UInt32(number) }
