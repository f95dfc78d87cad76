// podresources prints what the kubelet's PodResources service says, as one line of JSON: the answers to List and to
// GetAllocatableResources. With -watch it goes on, and prints a line whenever the answers have changed.
//
// It is the kubelet's own client code, so that what gpulet makes of the same answers is held against another reading.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// answers are the two answers, in the JSON form of their protocol buffers.
type answers struct {
	List        json.RawMessage `json:"list"`
	Allocatable json.RawMessage `json:"allocatable"`
}

func main() {
	socket := flag.String("socket", "/var/lib/kubelet/pod-resources/kubelet.sock", "the kubelet's socket")
	watch := flag.Duration("watch", 0, "ask again after this time, and print when the answers have changed")
	flag.Parse()
	if err := run(*socket, *watch); err != nil {
		fmt.Fprintln(os.Stderr, "podresources:", err)
		os.Exit(1)
	}
}

func run(socket string, watch time.Duration) error {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := podresources.NewPodResourcesListerClient(connection)
	for last := ""; ; time.Sleep(watch) {
		line, err := ask(client)
		switch {
		// A kubelet that starts anew is waited for.
		case err != nil && watch == 0:
			return err
		case err == nil && line != last:
			if _, err := fmt.Println(line); err != nil {
				return err
			}
			last = line
		}
		if watch == 0 {
			return nil
		}
	}
}

func ask(client podresources.PodResourcesListerClient) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	list, err := client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return "", fmt.Errorf("List: %w", err)
	}
	allocatable, err := client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return "", fmt.Errorf("GetAllocatableResources: %w", err)
	}
	both := answers{}
	if both.List, err = text(list); err != nil {
		return "", err
	}
	if both.Allocatable, err = text(allocatable); err != nil {
		return "", err
	}
	line, err := json.Marshal(both)
	return string(line), err
}

// text leaves nothing out: NUMA node 0 is `"ID":"0"`. Spaces that protojson adds at random go in json.Marshal.
func text(message proto.Message) (json.RawMessage, error) {
	return protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(message)
}
