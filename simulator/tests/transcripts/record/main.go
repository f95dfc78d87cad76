// Records transcripts: the managers of a real kubelet (pkg/kubelet/cm of k8s.io/kubernetes) decide on random Pods on random
// machines, and everything that went in and came out is written down as JSON, one transcript a line.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"log"
	"math/rand"
	"os"

	"k8s.io/klog/v2"
)

func main() {
	count := flag.Int("count", 100, "transcripts")
	steps := flag.Int("steps", 25, "Pods in each")
	seed := flag.Int64("seed", 1, "seed")
	klog.InitFlags(nil)
	flag.Set("logtostderr", "false")
	flag.Set("stderrthreshold", "FATAL")
	flag.Parse()
	klog.SetOutput(discard{})
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	for i := range *count {
		random := rand.New(rand.NewSource(*seed*1_000_000 + int64(i)))
		transcript, err := record(random, *steps)
		if err != nil {
			log.Fatalf("transcript %d: %v", i, err)
		}
		if err := encoder.Encode(transcript); err != nil {
			log.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Write(bytes []byte) (int, error) { return len(bytes), nil }
