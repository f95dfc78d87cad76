package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// Settings is what of a KubeletConfiguration is varied.
type Settings struct {
	TopologyPolicy, TopologyScope string
	TopologyOptions               map[string]string
	CPUPolicy                     string
	CPUOptions                    map[string]string
	ReservedCPUs                  string
	ReservedCPU                   string
	MemoryPolicy                  string
	// ReservedMemory is kept on node 0.
	ReservedMemory int64
	ReservedNode   int
}

func (s Settings) configuration() map[string]any {
	c := map[string]any{
		"topologyManagerPolicy": s.TopologyPolicy, "topologyManagerScope": s.TopologyScope,
		"cpuManagerPolicy": s.CPUPolicy, "memoryManagerPolicy": s.MemoryPolicy,
		"systemReserved": map[string]string{"cpu": s.ReservedCPU, "memory": strconv.FormatInt(s.ReservedMemory, 10)},
		"evictionHard":   map[string]string{},
	}
	if len(s.TopologyOptions) > 0 {
		c["topologyManagerPolicyOptions"] = s.TopologyOptions
	}
	if len(s.CPUOptions) > 0 {
		c["cpuManagerPolicyOptions"] = s.CPUOptions
	}
	if s.ReservedCPUs != "" {
		c["reservedSystemCPUs"] = s.ReservedCPUs
	}
	if s.MemoryPolicy == "Static" {
		c["reservedMemory"] = []any{map[string]any{"numaNode": s.ReservedNode, "limits": map[string]string{"memory": strconv.FormatInt(s.ReservedMemory, 10)}}}
	}
	return c
}

// kubelet is the part of one that decides.
type kubelet struct {
	topology topologymanager.Manager
	devices  *devicemanager.ManagerImpl
	cpus     cpumanager.Manager
	memory   memorymanager.Manager
	allocate lifecycle.PodAdmitHandler
	capacity lifecycle.PodAdmitHandler
	node     *v1.Node
	// directory has the state files.
	directory string
	pods      []*v1.Pod
}

type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

type nothing struct{}

func (nothing) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }
func (nothing) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}
func (nothing) HandleAdmissionFailure(_ context.Context, _ *v1.Pod, reasons []lifecycle.PredicateFailureReason) ([]lifecycle.PredicateFailureReason, error) {
	return reasons, nil
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func start(machine Machine, settings Settings, devices map[string][]Unit) (*kubelet, error) {
	info := machine.cadvisor()
	directory, err := os.MkdirTemp("", "record")
	if err != nil {
		return nil, err
	}
	logger := klog.TODO()
	k := &kubelet{directory: directory}
	active := func() []*v1.Pod { return k.pods }
	if k.topology, err = topologymanager.NewManager(info.Topology, settings.TopologyPolicy, settings.TopologyScope, settings.TopologyOptions); err != nil {
		return nil, err
	}
	if k.devices, err = newDeviceManager(logger, directory+"/kubelet.sock", info.Topology, k.topology); err != nil {
		return nil, err
	}
	if err = k.devices.Start(logger, active, ready{}, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return nil, err
	}
	k.topology.AddHintProvider(logger, k.devices)
	reserved := v1.ResourceList{v1.ResourceCPU: quantity(settings.ReservedCPU), v1.ResourceMemory: *resource.NewQuantity(settings.ReservedMemory, resource.BinarySI)}
	specific := cpuset.New()
	if settings.ReservedCPUs != "" {
		if specific, err = cpuset.Parse(settings.ReservedCPUs); err != nil {
			return nil, err
		}
		reserved[v1.ResourceCPU] = *resource.NewQuantity(int64(specific.Size()), resource.DecimalSI)
	}
	if k.cpus, err = cpumanager.NewManager(logger, settings.CPUPolicy, settings.CPUOptions, time.Hour, info, specific, reserved, directory, k.topology); err != nil {
		return nil, err
	}
	k.topology.AddHintProvider(logger, k.cpus)
	kept := []kubeletconfig.MemoryReservation{}
	if settings.MemoryPolicy == "Static" {
		kept = append(kept, kubeletconfig.MemoryReservation{NumaNode: int32(settings.ReservedNode), Limits: v1.ResourceList{v1.ResourceMemory: reserved[v1.ResourceMemory]}})
	}
	if k.memory, err = memorymanager.NewManager(logger, settings.MemoryPolicy, info, reserved, kept, directory, k.topology); err != nil {
		return nil, err
	}
	k.topology.AddHintProvider(logger, k.memory)
	ctx := context.Background()
	if err = k.cpus.Start(ctx, cpumanager.ActivePodsFunc(active), ready{}, nothing{}, nothing{}, containermap.NewContainerMap()); err != nil {
		return nil, err
	}
	if err = k.memory.Start(ctx, memorymanager.ActivePodsFunc(active), ready{}, nothing{}, nothing{}, containermap.NewContainerMap()); err != nil {
		return nil, err
	}
	allocatable := v1.ResourceList{v1.ResourcePods: quantity("110")}
	cpus := resource.NewQuantity(int64(info.NumCores), resource.DecimalSI)
	cpus.Sub(reserved[v1.ResourceCPU])
	allocatable[v1.ResourceCPU] = *cpus
	memory := resource.NewQuantity(int64(info.MemoryCapacity), resource.BinarySI)
	memory.Sub(reserved[v1.ResourceMemory])
	for _, numa := range machine.Numa {
		for _, pages := range numa.HugePages {
			bytes := int64(pages.PageKiB * pages.Count * 1024)
			memory.Sub(*resource.NewQuantity(bytes, resource.BinarySI))
			name := v1.ResourceName(v1.ResourceHugePagesPrefix + resource.NewQuantity(int64(pages.PageKiB)*1024, resource.BinarySI).String())
			sum := allocatable[name]
			sum.Add(*resource.NewQuantity(bytes, resource.BinarySI))
			allocatable[name] = sum
		}
	}
	allocatable[v1.ResourceMemory] = *memory
	for name, units := range devices {
		allocatable[v1.ResourceName(name)] = *resource.NewQuantity(int64(len(units)), resource.DecimalSI)
		if err := k.devices.PluginConnected(ctx, name, plugin{resource: name}); err != nil {
			return nil, err
		}
		k.devices.PluginListAndWatchReceiver(logger, name, &pluginapi.ListAndWatchResponse{Devices: offered(units)})
	}
	k.node = &v1.Node{Status: v1.NodeStatus{Allocatable: allocatable}}
	k.allocate = k.topology
	getNode := func(context.Context, bool) (*v1.Node, error) { return k.node, nil }
	k.capacity = lifecycle.NewPredicateAdmitHandler(getNode, nothing{}, k.devices.UpdatePluginResources)
	return k, nil
}

func offered(units []Unit) []*pluginapi.Device {
	var devices []*pluginapi.Device
	for _, unit := range units {
		device := &pluginapi.Device{ID: unit.ID, Health: pluginapi.Healthy}
		if unit.Numa != nil {
			device.Topology = &pluginapi.TopologyInfo{}
			for _, node := range unit.Numa {
				device.Topology.Nodes = append(device.Topology.Nodes, &pluginapi.NUMANode{ID: node})
			}
		}
		devices = append(devices, device)
	}
	return devices
}

// admit decides on a Pod, and starts its containers if it is admitted. It tells, too, which devices were given to each container.
func (k *kubelet) admit(pod *v1.Pod) (*Verdict, map[string]map[string][]string) {
	others := append([]*v1.Pod{}, k.pods...)
	k.pods = append(k.pods, pod)
	attributes := &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation}
	for _, handler := range []lifecycle.PodAdmitHandler{k.allocate, k.capacity} {
		if result := handler.Admit(attributes); !result.Admit {
			given := k.given(pod)
			k.remove(pod.Name)
			return &Verdict{Reason: result.Reason, Message: result.Message}, given
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		k.memory.AddContainer(klog.TODO(), pod, c, string(pod.UID)+"/"+c.Name)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		k.memory.AddContainer(klog.TODO(), pod, c, string(pod.UID)+"/"+c.Name)
	}
	return nil, k.given(pod)
}

func (k *kubelet) given(pod *v1.Pod) map[string]map[string][]string {
	given := map[string]map[string][]string{}
	for _, c := range append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		for resource, instances := range k.devices.GetDevices(string(pod.UID), c.Name) {
			var ids []string
			for id := range instances {
				ids = append(ids, id)
			}
			sort.Strings(ids)
			if given[c.Name] == nil {
				given[c.Name] = map[string][]string{}
			}
			given[c.Name][resource] = ids
		}
	}
	return given
}

func (k *kubelet) remove(name string) {
	var left []*v1.Pod
	for _, pod := range k.pods {
		if pod.Name != name {
			left = append(left, pod)
		}
	}
	k.pods = left
}

// answer is what List says, in the form in which tools print it.
func (k *kubelet) answer() map[string]any {
	k.devices.UpdateAllocatedDevices()
	pods := []any{}
	for _, pod := range k.pods {
		containers := []any{}
		for _, c := range pod.Spec.InitContainers {
			if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
				containers = append(containers, k.container(pod, c.Name))
			}
		}
		for _, c := range pod.Spec.Containers {
			containers = append(containers, k.container(pod, c.Name))
		}
		pods = append(pods, map[string]any{"name": pod.Name, "namespace": pod.Namespace, "containers": containers})
	}
	return map[string]any{"podResources": pods}
}

func (k *kubelet) container(pod *v1.Pod, name string) map[string]any {
	container := map[string]any{"name": name}
	devices := []any{}
	for resource, instances := range k.devices.GetDevices(string(pod.UID), name) {
		for id, device := range instances {
			entry := func() map[string]any {
				return map[string]any{"resourceName": resource, "deviceIds": []string{id}}
			}
			if device.GetTopology() == nil {
				devices = append(devices, entry())
			}
			for _, node := range device.GetTopology().GetNodes() {
				placed := entry()
				placed["topology"] = nodes(int(node.ID))
				devices = append(devices, placed)
			}
		}
	}
	if len(devices) > 0 {
		sort.Slice(devices, func(i, j int) bool { return fmt.Sprint(devices[i]) < fmt.Sprint(devices[j]) })
		container["devices"] = devices
	}
	var cpus []string
	for _, cpu := range k.cpus.GetExclusiveCPUs(string(pod.UID), name).List() {
		cpus = append(cpus, strconv.Itoa(cpu))
	}
	if len(cpus) > 0 {
		container["cpuIds"] = cpus
	}
	memory := []any{}
	for _, block := range k.memory.GetMemory(string(pod.UID), name) {
		memory = append(memory, map[string]any{"memoryType": string(block.Type), "size": strconv.FormatUint(block.Size, 10), "topology": nodes(block.NUMAAffinity...)})
	}
	if len(memory) > 0 {
		sort.Slice(memory, func(i, j int) bool { return fmt.Sprint(memory[i]) < fmt.Sprint(memory[j]) })
		container["memory"] = memory
	}
	return container
}

// nodes leaves node 0 out, as proto3's JSON does.
func nodes(ids ...int) map[string]any {
	list := []any{}
	for _, id := range ids {
		if id == 0 {
			list = append(list, map[string]any{})
		} else {
			list = append(list, map[string]any{"ID": strconv.Itoa(id)})
		}
	}
	return map[string]any{"nodes": list}
}

func (m Machine) cadvisor() *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{}
	sockets := map[int]bool{}
	for _, numa := range m.Numa {
		node := cadvisorapi.Node{Id: numa.ID, Memory: numa.Memory, Distances: numa.Distances}
		for i, core := range numa.Cores {
			node.Cores = append(node.Cores, cadvisorapi.Core{Id: i, Threads: core.Threads, SocketID: core.Socket})
			sockets[core.Socket] = true
			info.NumCores += len(core.Threads)
			info.NumPhysicalCores++
		}
		for _, pages := range numa.HugePages {
			node.HugePages = append(node.HugePages, cadvisorapi.HugePagesInfo{PageSize: pages.PageKiB, NumPages: pages.Count})
		}
		info.MemoryCapacity += numa.Memory
		info.Topology = append(info.Topology, node)
	}
	info.NumSockets = len(sockets)
	return info
}

func (k *kubelet) files() (map[string]string, error) {
	files := map[string]string{}
	for _, name := range []string{"cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint"} {
		text, err := os.ReadFile(k.directory + "/" + name)
		if err != nil {
			return nil, err
		}
		files[name] = string(text)
	}
	return files, nil
}
