package main

// What is written down. Names are those that the test reads.

type Transcript struct {
	Source   string            `json:"source"`
	Settings map[string]any    `json:"settings"`
	Machine  Machine           `json:"machine"`
	Devices  map[string][]Unit `json:"devices"`
	Steps    []Step            `json:"steps"`
	// Files is what lies on disk at the end, by name.
	Files map[string]string `json:"files"`
}

type Machine struct {
	Numa []Numa `json:"numa"`
}

type Numa struct {
	ID        int        `json:"id"`
	Cores     []CoreSpec `json:"cores"`
	Memory    uint64     `json:"memory-bytes"`
	HugePages []Pages    `json:"huge-pages,omitempty"`
	Distances []uint64   `json:"distances"`
}

type CoreSpec struct {
	Socket  int   `json:"socket"`
	Threads []int `json:"threads"`
}

type Pages struct {
	PageKiB uint64 `json:"page-kib"`
	Count   uint64 `json:"count"`
}

type Unit struct {
	ID   string  `json:"id"`
	Numa []int64 `json:"numa"`
}

// Step is a Pod that comes or goes, and what the kubelet then says.
type Step struct {
	Admit  map[string]any `json:"admit,omitempty"`
	Remove string         `json:"remove,omitempty"`
	// Verdict is nil for a Pod that was admitted.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Given are the devices of each container, by resource.
	Given  map[string]map[string][]string `json:"given,omitempty"`
	Answer map[string]any                 `json:"answer"`
}

type Verdict struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}
