//! The kubelet's state files, in its format: JSON with a checksum over what Go's spew prints of the structures behind it
//! (`pkg/kubelet/cm/*/state/checkpoint.go`, `devicemanager/checkpoint`, `checkpointmanager/checksum`).

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use gpulet_inventory::numa::CpuSet;
use serde::{Deserialize, Serialize};

use super::allocator::Allocator;
use super::memory::{Block, NodeState, Table};
use super::settings::{CpuPolicy, MemoryPolicy, Settings};

/// `cpu_manager_state`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuState {
    policy_name: String,
    default_cpu_set: String,
    /// By Pod UID and container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    entries: BTreeMap<String, BTreeMap<String, String>>,
    checksum: u64,
}

/// `memory_manager_state`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryState {
    policy_name: String,
    machine_state: BTreeMap<i64, NodeEntry>,
    /// By Pod UID and container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    entries: BTreeMap<String, BTreeMap<String, Vec<BlockEntry>>>,
    checksum: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeEntry {
    number_of_assignments: i64,
    memory_map: BTreeMap<String, TableEntry>,
    cells: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableEntry {
    total: u64,
    system_reserved: u64,
    allocatable: u64,
    reserved: u64,
    free: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockEntry {
    numa_affinity: Vec<u32>,
    #[serde(rename = "type")]
    kind: String,
    size: u64,
}

/// `device-plugins/kubelet_internal_checkpoint`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeviceState {
    data: DeviceData,
    checksum: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeviceData {
    pod_device_entries: Option<Vec<DeviceEntry>>,
    registered_devices: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DeviceEntry {
    #[serde(rename = "PodUID")]
    pod_uid: String,
    #[serde(rename = "ContainerName")]
    container_name: String,
    #[serde(rename = "ResourceName")]
    resource_name: String,
    /// By NUMA node, -1 without.
    #[serde(rename = "DeviceIDs")]
    device_ids: BTreeMap<i64, Vec<String>>,
    /// What the plugin answered, as protobuf in base64.
    #[serde(rename = "AllocResp", with = "base64_text")]
    alloc_resp: Vec<u8>,
}

impl CpuState {
    /// The state of a kubelet.
    pub fn of(allocator: &Allocator, settings: &Settings) -> Self {
        let list =
            |cpus: &std::collections::BTreeSet<u32>| cpus.iter().copied().collect::<CpuSet>().to_string();
        let of_pod = |(uid, containers): (&String, &BTreeMap<String, _>)| {
            let containers = containers.iter().map(|(name, cpus)| (name.clone(), list(cpus)));
            (uid.clone(), containers.collect())
        };
        let policy = match settings.cpu_manager_policy {
            CpuPolicy::None => "none",
            CpuPolicy::Static => "static",
        };
        let mut state = Self {
            policy_name: policy.to_owned(),
            default_cpu_set: list(&allocator.cpus.shared),
            entries: allocator.cpus.assigned.iter().map(of_pod).collect(),
            checksum: 0,
        };
        state.checksum = state.true_checksum();
        state
    }

    /// The checksum that goes with the content.
    pub fn true_checksum(&self) -> u64 {
        let pods = map(self.entries.iter().map(|(uid, containers)| (uid, map(containers))));
        fnv(&format!(
            "(*state.CPUManagerCheckpoint){{PolicyName:(string){} DefaultCPUSet:(string){} \
             Entries:(map[string]map[string]string){pods} Checksum:(checksum.Checksum)0}}",
            self.policy_name, self.default_cpu_set,
        ))
    }

    /// The checksum that is written there.
    pub fn checksum(&self) -> u64 {
        self.checksum
    }
}

impl MemoryState {
    /// The state of a kubelet.
    pub fn of(allocator: &Allocator, settings: &Settings) -> Self {
        let of_pod = |(uid, containers): (&String, &BTreeMap<String, Vec<Block>>)| {
            let blocks = |blocks: &[Block]| blocks.iter().map(BlockEntry::of).collect();
            (uid.clone(), containers.iter().map(|(name, of)| (name.clone(), blocks(of))).collect())
        };
        let machine = allocator.memory.machine.0.iter();
        let policy = match settings.memory_manager_policy {
            MemoryPolicy::None => "None",
            MemoryPolicy::Static => "Static",
        };
        let mut state = Self {
            policy_name: policy.to_owned(),
            machine_state: machine.map(|(node, state)| (i64::from(*node), NodeEntry::of(state))).collect(),
            entries: allocator.memory.assigned.iter().map(of_pod).collect(),
            checksum: 0,
        };
        state.checksum = state.true_checksum();
        state
    }

    /// The checksum that goes with the content.
    pub fn true_checksum(&self) -> u64 {
        let node = |node: &NodeEntry| {
            let table = |table: &TableEntry| {
                let TableEntry { total, system_reserved, allocatable, reserved, free } = table;
                format!(
                    "<*>{{TotalMemSize:(uint64){total} SystemReserved:(uint64){system_reserved} \
                     Allocatable:(uint64){allocatable} Reserved:(uint64){reserved} Free:(uint64){free}}}"
                )
            };
            format!(
                "<*>{{NumberOfAssignments:(int){} MemoryMap:(map[v1.ResourceName]*state.MemoryTable){} Cells:([]int){}}}",
                node.number_of_assignments,
                map(node.memory_map.iter().map(|(kind, entry)| (kind, table(entry)))),
                list(&node.cells),
            )
        };
        let block = |block: &BlockEntry| {
            let BlockEntry { numa_affinity, kind, size } = block;
            let nodes = list(numa_affinity);
            format!("{{NUMAAffinity:([]int){nodes} Type:(v1.ResourceName){kind} Size:(uint64){size}}}")
        };
        let of_container = |blocks: &Vec<BlockEntry>| list(blocks.iter().map(block));
        let of_pod = |containers: &BTreeMap<String, Vec<BlockEntry>>| {
            map(containers.iter().map(|(name, blocks)| (name, of_container(blocks))))
        };
        fnv(&format!(
            "(*state.MemoryManagerCheckpoint){{PolicyName:(string){} MachineState:(state.NUMANodeMap){} \
             Entries:(state.ContainerMemoryAssignments){} Checksum:(checksum.Checksum)0}}",
            self.policy_name,
            map(self.machine_state.iter().map(|(id, entry)| (id, node(entry)))),
            map(self.entries.iter().map(|(uid, containers)| (uid, of_pod(containers)))),
        ))
    }

    /// The checksum that is written there.
    pub fn checksum(&self) -> u64 {
        self.checksum
    }

    /// With the blocks of each container in one order: the kubelet's comes from Go's maps.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        let blocks = self.entries.values_mut().flat_map(BTreeMap::values_mut);
        blocks.for_each(|blocks| blocks.sort_by(|a, b| a.kind.cmp(&b.kind)));
        self.checksum = self.true_checksum();
        self
    }
}

impl NodeEntry {
    fn of(state: &NodeState) -> Self {
        let table = |table: &Table| TableEntry {
            total: table.total,
            system_reserved: table.system_reserved,
            allocatable: table.allocatable,
            reserved: table.reserved,
            free: table.free,
        };
        Self {
            number_of_assignments: state.assignments,
            memory_map: state.tables.iter().map(|(kind, of)| (kind.clone(), table(of))).collect(),
            cells: state.group.clone(),
        }
    }
}

impl BlockEntry {
    fn of(block: &Block) -> Self {
        Self { numa_affinity: block.nodes.clone(), kind: block.kind.clone(), size: block.bytes }
    }
}

impl DeviceState {
    /// The state of a kubelet. `answered` tells what a plugin answered when it gave these devices away.
    pub fn of(allocator: &Allocator, answered: impl Fn(&str, &[&str]) -> Vec<u8>) -> Self {
        let mut entries = Vec::new();
        for (uid, containers) in &allocator.devices.given {
            for (container, resources) in containers {
                for (resource, ids) in resources {
                    let mut all: Vec<&str> = ids.values().flatten().map(String::as_str).collect();
                    all.sort_unstable();
                    all.dedup();
                    entries.push(DeviceEntry {
                        pod_uid: uid.clone(),
                        container_name: container.clone(),
                        resource_name: resource.clone(),
                        device_ids: ids.clone(),
                        alloc_resp: answered(resource, &all),
                    });
                }
            }
        }
        let healthy = allocator.devices.healthy.iter();
        let data = DeviceData {
            pod_device_entries: (!entries.is_empty()).then_some(entries),
            registered_devices: healthy
                .map(|(resource, ids)| (resource.clone(), ids.iter().cloned().collect()))
                .collect(),
        };
        Self { checksum: data.true_checksum(), data }
    }

    /// The checksum that goes with the content.
    pub fn true_checksum(&self) -> u64 {
        self.data.true_checksum()
    }

    /// The checksum that is written there.
    pub fn checksum(&self) -> u64 {
        self.checksum
    }
}

impl DeviceData {
    fn true_checksum(&self) -> u64 {
        let entry = |entry: &DeviceEntry| {
            format!(
                "{{PodUID:(string){} ContainerName:(string){} ResourceName:(string){} \
                 DeviceIDs:(checkpoint.DevicesPerNUMA){} AllocResp:([]uint8){}}}",
                entry.pod_uid,
                entry.container_name,
                entry.resource_name,
                map(entry.device_ids.iter().map(|(node, ids)| (node, list(ids)))),
                list(&entry.alloc_resp),
            )
        };
        let entries = match &self.pod_device_entries {
            None => "<nil>".to_owned(),
            Some(entries) => list(entries.iter().map(entry)),
        };
        let registered = map(self.registered_devices.iter().map(|(resource, ids)| (resource, list(ids))));
        fnv(&format!(
            "(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries} \
             RegisteredDevices:(map[string][]string){registered}}}"
        ))
    }
}

fn map<K: Display, V: Display>(entries: impl IntoIterator<Item = (K, V)>) -> String {
    let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    format!("map[{}]", entries.join(" "))
}

fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(" "))
}

/// FNV-1a, 32 bits.
fn fnv(text: &str) -> u64 {
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.into()
}

/// Bytes as Go's JSON has them.
mod base64_text {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        BASE64_STANDARD.decode(text).map_err(de::Error::custom)
    }
}

macro_rules! json {
    ($($state:ty),*) => {$(
        impl fmt::Display for $state {
            /// As the file is written.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
            }
        }
    )*};
}

json!(CpuState, MemoryState, DeviceState);

#[cfg(test)]
mod tests {
    use super::*;

    // The contents and checksums of the kubelet's own tests of its state files.
    #[test]
    fn checksums_are_the_kubelets() {
        for text in [
            r#"{"policyName": "none", "defaultCpuSet": "4-6", "entries": {}, "checksum": 354655845}"#,
            r#"{"policyName": "none", "defaultCpuSet": "1-3",
                "entries": {"pod": {"container1": "4-6", "container2": "1-3"}}, "checksum": 3610638499}"#,
        ] {
            let state: CpuState = serde_json::from_str(text).unwrap();
            assert_eq!(state.true_checksum(), state.checksum(), "{text}");
        }
        let text = r#"{"policyName": "static", "machineState": {"0": {"numberOfAssignments": 0, "memoryMap": {"memory":
            {"total": 2048, "systemReserved": 512, "allocatable": 1536, "reserved": 512, "free": 1024}}, "cells": []}},
            "entries": {"pod": {"container1": [{"numaAffinity": [0], "type": "memory", "size": 512}]}},
            "checksum": 4215593881}"#;
        let state: MemoryState = serde_json::from_str(text).unwrap();
        assert_eq!(state.true_checksum(), state.checksum());
    }
}
