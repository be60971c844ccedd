package main

import (
	"fmt"
	"io"
	"os"

	"google.golang.org/grpc"
)

// A stream that says on standard error what ended it: go-control-plane keeps it to itself.
type loggedStream struct{ grpc.ServerStream }

func (s loggedStream) RecvMsg(message any) error {
	err := s.ServerStream.RecvMsg(message)
	if err != nil && err != io.EOF {
		fmt.Fprintln(os.Stderr, "receive:", err)
	}
	return err
}

func logged(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	err := handler(server, loggedStream{stream})
	if err != nil {
		fmt.Fprintln(os.Stderr, "stream:", err)
	}
	return err
}
