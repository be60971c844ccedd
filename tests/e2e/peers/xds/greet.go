package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	_ "google.golang.org/grpc/xds" // the scheme xds:
)

type server struct {
	pb.UnimplementedTestServiceServer
	name string
}

func (s *server) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{ServerId: s.name}, nil
}

func serve(name, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	grpcServer := grpc.NewServer()
	pb.RegisterTestServiceServer(grpcServer, &server{name: name})
	fmt.Println("serving")
	return grpcServer.Serve(listener)
}

func call(target string, count int) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := pb.NewTestServiceClient(conn)
	servers, failures := map[string]int{}, map[string]int{}
	for range count {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		answer, err := client.UnaryCall(ctx, &pb.SimpleRequest{FillServerId: true})
		cancel()
		if err != nil {
			failures[err.Error()]++
			continue
		}
		servers[answer.GetServerId()]++
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"servers": servers, "failures": failures})
}
