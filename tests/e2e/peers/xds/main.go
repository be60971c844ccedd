// What others have written for xDS, for Weft's tests to meet: clients and servers of grpc-go, and a management server of go-control-plane.
//
//	xds serve NAME ADDRESS          a gRPC server that answers with its name
//	xds call TARGET COUNT           calls TARGET so often, and prints {"NAME": COUNT} and what failed
//	xds control ADDRESS FILE        a management server that serves what FILE says, and what it says next
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: xds serve NAME ADDRESS | call TARGET COUNT | control ADDRESS FILE")
	}
	switch args[0] {
	case "serve":
		return serve(args[1], args[2])
	case "call":
		count, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return call(args[1], count)
	case "control":
		return control(args[1], args[2])
	}
	return fmt.Errorf("%s: no such command", args[0])
}
