package main

import (
	"fmt"
	"math/rand"
	"strings"

	"k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

const gib = 1 << 30

func init() {
	// Options that are not stable need their gates.
	if err := utilfeature.DefaultMutableFeatureGate.Set("CPUManagerPolicyAlphaOptions=true,CPUManagerPolicyBetaOptions=true"); err != nil {
		panic(err)
	}
}

func pick[T any](random *rand.Rand, items ...T) T { return items[random.Intn(len(items))] }

// randomMachine has one or two sockets, each of one or two NUMA nodes, or several sockets on one node; perhaps hyper-threads,
// nodes without CPUs, gaps in the numbers.
func randomMachine(random *rand.Rand) Machine {
	sockets, perSocket, cores, threads := 1+random.Intn(2), 1+random.Intn(2), 2+random.Intn(4), 1+random.Intn(2)
	nodes := sockets * perSocket
	if random.Intn(8) == 0 {
		sockets, nodes = 2, 1
	}
	total := nodes * cores
	machine := Machine{}
	extra := 0
	if random.Intn(6) == 0 {
		extra = 1
	}
	for n := range nodes + extra {
		id := n
		if random.Intn(10) == 0 && n == nodes+extra-1 {
			id = n + 1
		}
		numa := Numa{ID: id, Memory: uint64(pick(random, 4, 8, 8, 16)) * gib, Cores: []CoreSpec{}}
		for c := range cores {
			if n >= nodes {
				break
			}
			core := CoreSpec{Socket: n * sockets / nodes}
			if nodes == 1 {
				core.Socket = c * sockets / cores
			}
			first := n*cores + c
			for t := range threads {
				core.Threads = append(core.Threads, first+t*total)
			}
			numa.Cores = append(numa.Cores, core)
		}
		numa.HugePages = []Pages{{PageKiB: 2048, Count: uint64(pick(random, 0, 0, 512, 1024))}}
		machine.Numa = append(machine.Numa, numa)
	}
	for i := range machine.Numa {
		for j := range machine.Numa {
			distance := uint64(10)
			if i != j {
				distance = uint64(pick(random, 12, 21, 32))
				if j < i {
					distance = machine.Numa[j].Distances[i]
				}
			}
			machine.Numa[i].Distances = append(machine.Numa[i].Distances, distance)
		}
	}
	return machine
}

func randomSettings(random *rand.Rand, machine Machine) Settings {
	s := Settings{
		TopologyPolicy:  pick(random, "none", "best-effort", "restricted", "single-numa-node", "single-numa-node"),
		TopologyScope:   pick(random, "container", "container", "pod"),
		TopologyOptions: map[string]string{}, CPUOptions: map[string]string{},
		CPUPolicy: pick(random, "none", "static", "static", "static"), MemoryPolicy: pick(random, "None", "Static", "Static"),
		ReservedCPU: pick(random, "500m", "1", "2"), ReservedMemory: pick[int64](random, gib/2, gib, 3*gib/2),
		ReservedNode: machine.Numa[0].ID,
	}
	// Distances are read by node number: with gaps in them a kubelet ends in a panic.
	last := machine.Numa[len(machine.Numa)-1]
	if random.Intn(4) == 0 && last.ID == len(machine.Numa)-1 {
		s.TopologyOptions["prefer-closest-numa-nodes"] = "true"
	}
	if s.CPUPolicy == "static" {
		switch random.Intn(8) {
		case 0:
			s.CPUOptions["full-pcpus-only"] = "true"
		case 1:
			s.CPUOptions["distribute-cpus-across-numa"] = "true"
		case 2:
			s.CPUOptions["distribute-cpus-across-numa"] = "true"
			s.CPUOptions["full-pcpus-only"] = "true"
		case 3:
			s.CPUOptions["distribute-cpus-across-cores"] = "true"
		case 4:
			if s.TopologyPolicy != "single-numa-node" && len(machine.Numa[0].Cores) > 0 {
				s.CPUOptions["align-by-socket"] = "true"
			}
		case 5:
			s.CPUOptions["strict-cpu-reservation"] = "true"
		}
		if random.Intn(4) == 0 {
			var named []string
			if cores := machine.Numa[random.Intn(len(machine.Numa))].Cores; len(cores) > 0 {
				named = append(named, fmt.Sprint(cores[0].Threads[0]))
			}
			s.ReservedCPUs = strings.Join(named, ",")
		}
	}
	return s
}

func randomDevices(random *rand.Rand, machine Machine) map[string][]Unit {
	devices := map[string][]Unit{}
	gpus := []Unit{}
	placed := random.Intn(6) != 0
	for i := range 2 + random.Intn(7) {
		unit := Unit{ID: fmt.Sprintf("GPU-%02d", i)}
		if placed && random.Intn(12) != 0 {
			unit.Numa = []int64{int64(machine.Numa[random.Intn(len(machine.Numa))].ID)}
			if random.Intn(10) == 0 {
				other := int64(machine.Numa[random.Intn(len(machine.Numa))].ID)
				if other != unit.Numa[0] {
					unit.Numa = append(unit.Numa, other)
				}
			}
		}
		gpus = append(gpus, unit)
	}
	devices["nvidia.com/gpu"] = gpus
	if random.Intn(2) == 0 {
		nics := []Unit{}
		for i := range 1 + random.Intn(4) {
			nics = append(nics, Unit{ID: fmt.Sprintf("nic%d", i), Numa: []int64{int64(machine.Numa[random.Intn(len(machine.Numa))].ID)}})
		}
		devices["example.com/nic"] = nics
	}
	return devices
}

func randomResources(random *rand.Rand, machine Machine, devices map[string][]Unit, guaranteed bool) v1.ResourceRequirements {
	limits := v1.ResourceList{}
	if guaranteed || random.Intn(2) == 0 {
		limits[v1.ResourceCPU] = resource.MustParse(pick(random, "1", "1", "2", "2", "3", "4", "6", "500m", "1500m", "8"))
		limits[v1.ResourceMemory] = resource.MustParse(pick(random, "256Mi", "1Gi", "2Gi", "3Gi", "6Gi", "9Gi"))
	}
	if random.Intn(6) == 0 && len(limits) > 0 {
		limits["hugepages-2Mi"] = resource.MustParse(pick(random, "64Mi", "512Mi", "1536Mi"))
	}
	for name := range devices {
		if random.Intn(2) == 0 {
			limits[v1.ResourceName(name)] = resource.MustParse(pick(random, "1", "1", "1", "2", "2", "3", "4"))
		}
	}
	requests := limits.DeepCopy()
	if !guaranteed && len(limits) > 0 && random.Intn(2) == 0 {
		requests[v1.ResourceCPU] = resource.MustParse("250m")
	}
	return v1.ResourceRequirements{Limits: limits, Requests: requests}
}

func randomPod(random *rand.Rand, name string, machine Machine, devices map[string][]Unit) *v1.Pod {
	guaranteed := random.Intn(5) != 0
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	container := func(name string) v1.Container {
		return v1.Container{Name: name, Resources: randomResources(random, machine, devices, guaranteed)}
	}
	if random.Intn(4) == 0 {
		for i := range 1 + random.Intn(2) {
			init := container(fmt.Sprintf("init%d", i))
			if random.Intn(2) == 0 {
				always := v1.ContainerRestartPolicyAlways
				init.RestartPolicy = &always
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
		}
	}
	for i := range pick(random, 1, 1, 1, 2, 3) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprintf("c%d", i)))
	}
	return pod
}

func manifest(pod *v1.Pod) map[string]any {
	all := func(containers []v1.Container) []any {
		list := []any{}
		for _, c := range containers {
			entry := map[string]any{"name": c.Name, "resources": map[string]any{"limits": c.Resources.Limits, "requests": c.Resources.Requests}}
			if c.RestartPolicy != nil {
				entry["restartPolicy"] = string(*c.RestartPolicy)
			}
			list = append(list, entry)
		}
		return list
	}
	spec := map[string]any{"containers": all(pod.Spec.Containers)}
	if len(pod.Spec.InitContainers) > 0 {
		spec["initContainers"] = all(pod.Spec.InitContainers)
	}
	return map[string]any{"metadata": map[string]any{"name": pod.Name, "uid": string(pod.UID)}, "spec": spec}
}

func record(random *rand.Rand, steps int) (*Transcript, error) {
	var k *kubelet
	var err error
	t := &Transcript{Source: "k8s.io/kubernetes v1.36.3 pkg/kubelet/cm"}
	// Some settings make no kubelet on some machines.
	for range 100 {
		t.Machine = randomMachine(random)
		settings := randomSettings(random, t.Machine)
		t.Devices = randomDevices(random, t.Machine)
		t.Settings = settings.configuration()
		if k, err = start(t.Machine, settings, t.Devices); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range steps {
		step := Step{}
		if len(k.pods) > 0 && random.Intn(3) == 0 {
			step.Remove = k.pods[random.Intn(len(k.pods))].Name
			k.remove(step.Remove)
		} else {
			pod := randomPod(random, fmt.Sprintf("p%d", i), t.Machine, t.Devices)
			step.Admit = manifest(pod)
			step.Verdict, step.Given = k.admit(pod)
		}
		step.Answer = k.answer()
		t.Steps = append(t.Steps, step)
	}
	// State of Pods that are gone is only cleared when another comes.
	last := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "last", Namespace: "default", UID: "uid-last"}}
	last.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}, Requests: v1.ResourceList{}}}}
	verdict, _ := k.admit(last)
	t.Steps = append(t.Steps, Step{Admit: manifest(last), Verdict: verdict, Answer: k.answer()})
	t.Files, err = k.files()
	return t, err
}
