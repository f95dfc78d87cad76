//! Pods of random sizes.

use gpulet_tests::RealNode;
use serde_json::{Value, json};

/// A sequence of numbers that is the same in every run (splitmix64).
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Whether something of chance one in `of` happens.
    pub(crate) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// What a container asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// CPUs of its own, with memory; none: the Pod is of no guaranteed kind.
    pub(crate) cpus: u64,
    /// Memory, bytes.
    pub(crate) memory: u64,
    /// GPUs.
    pub(crate) gpus: u64,
}

/// A Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pod {
    /// Its name.
    pub(crate) name: String,
    /// Its containers.
    pub(crate) containers: Vec<Size>,
    /// Ends by itself soon after it has started.
    pub(crate) ends: bool,
}

impl Pod {
    /// The `number`th Pod.
    pub(crate) fn random(number: usize, random: &mut Random) -> Self {
        // CPUs and memory of its own; or only GPUs, beside those that share what is left.
        let guaranteed = !random.one_in(6);
        let containers = if guaranteed && random.one_in(5) { 2 } else { 1 };
        let size = |random: &mut Random| match guaranteed {
            true => Size {
                cpus: 1 + random.below(if containers == 1 { 5 } else { 3 }) / 2,
                memory: (16 + random.below(400)) << 20,
                gpus: if random.one_in(3) { 0 } else { 1 + random.below(4) / 2 / containers },
            },
            false => Size { cpus: 0, memory: 0, gpus: 1 + random.below(3) },
        };
        Self {
            name: format!("pod-{number}"),
            containers: (0..containers).map(|_| size(random)).collect(),
            ends: random.one_in(5),
        }
    }

    /// Its manifest, bound to the node: no scheduler has a say.
    pub(crate) fn manifest(&self) -> Value {
        let command = if self.ends { json!(["/bin/sleep", "3"]) } else { json!(["/bin/sleep", "1000000"]) };
        let containers = self.containers.iter().enumerate().map(|(number, size)| {
            let mut limits = serde_json::Map::new();
            if size.cpus > 0 {
                limits.insert("cpu".to_owned(), json!(size.cpus.to_string()));
                limits.insert("memory".to_owned(), json!(size.memory.to_string()));
            }
            if size.gpus > 0 {
                limits.insert("nvidia.com/gpu".to_owned(), json!(size.gpus.to_string()));
            }
            json!({
                "name": format!("c{number}"), "image": "gpulet.test/pod:1", "imagePullPolicy": "Never",
                "command": command, "resources": { "limits": limits },
            })
        });
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": self.name, "namespace": "default" },
            "spec": {
                "nodeName": RealNode::NAME, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false, "enableServiceLinks": false, "dnsPolicy": "Default",
                "containers": containers.collect::<Vec<_>>(),
            },
        })
    }

    /// How much of `resource` all its containers ask for.
    pub(crate) fn sum(&self, resource: &str) -> u64 {
        self.containers.iter().map(|size| size.of(resource)).sum()
    }

    /// Whether its CPUs and memory are its own.
    pub(crate) fn is_guaranteed(&self) -> bool {
        self.containers.iter().all(|size| size.cpus > 0)
    }
}

impl Size {
    /// How much of `resource` it is.
    pub(crate) fn of(&self, resource: &str) -> u64 {
        match resource {
            "cpu" => self.cpus,
            "memory" => self.memory,
            "nvidia.com/gpu" => self.gpus,
            _ => 0,
        }
    }
}
