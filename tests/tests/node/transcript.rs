//! What the real kubelet answers to what, kept for the simulated one to be held against: where `GPULET_TRANSCRIPT` names a
//! file, it is written there, in the form of `simulator/tests/transcripts`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpulet_tests::{Answers, RealNode};
use serde_json::{Value, json};

use crate::admissions::Verdict;
use crate::pods::Pod;

/// The one that is being written.
#[derive(Debug)]
pub(crate) struct Transcript {
    file: Option<PathBuf>,
    start: Value,
    steps: Vec<Value>,
}

impl Transcript {
    /// Begins with the machine, the kubelet's settings, and the devices that it knows.
    pub(crate) fn begin(node: &RealNode, answers: &Answers) -> Self {
        let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/guest/kubelet.yaml");
        let settings: Value = serde_saphyr::from_str(&std::fs::read_to_string(settings).unwrap()).unwrap();
        let mut devices: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for device in &answers.allocatable.devices {
            devices
                .entry(&device.resource)
                .or_default()
                .push(json!({ "id": device.id, "numa": device.nodes }));
        }
        let source = format!("a node in tests/node, {}", node.run("kubelet --version").trim());
        let start =
            json!({ "source": source, "settings": settings, "machine": machine(node), "devices": devices });
        Self { file: std::env::var_os("GPULET_TRANSCRIPT").map(PathBuf::from), start, steps: Vec::new() }
    }

    /// A Pod was created; `answers` are those after the verdict.
    pub(crate) fn admission(&mut self, pod: &Pod, verdict: &Verdict, answers: &Answers) {
        let mut manifest = pod.manifest();
        // What decides where it lies, and no more.
        manifest["spec"] = json!({ "containers": manifest["spec"]["containers"] });
        for container in manifest["spec"]["containers"].as_array_mut().unwrap() {
            *container = json!({ "name": container["name"], "resources": container["resources"] });
        }
        let mut step = json!({ "admit": manifest, "answer": answers.raw["list"] });
        if let Verdict::Rejected { reason, message } = verdict {
            let message = message.strip_prefix("Pod was rejected: ").unwrap_or(message);
            step["verdict"] = json!({ "reason": reason, "message": message });
        }
        self.steps.push(step);
    }

    /// A Pod has ended or was deleted.
    pub(crate) fn removal(&mut self, pod: &Pod, answers: &Answers) {
        self.steps.push(json!({ "remove": pod.name, "answer": answers.raw["list"] }));
    }

    /// Writes it in one line, if it is wanted.
    pub(crate) fn end(mut self) {
        let Some(file) = self.file else { return };
        self.start["steps"] = Value::Array(self.steps);
        std::fs::write(file, format!("{}\n", self.start)).unwrap();
    }
}

/// NUMA nodes with their cores, memory, huge pages and distances, as the kernel shows them.
fn machine(node: &RealNode) -> Value {
    let script = r#"cd /sys/devices/system/node
for n in node*; do
  echo "id ${n#node}"
  for c in $n/cpu[0-9]*; do echo "core $(cat $c/topology/physical_package_id) $(cat $c/topology/thread_siblings_list)"; done
  echo "memory $(awk '/MemTotal/ {print $4}' $n/meminfo)"
  for h in $n/hugepages/hugepages-*; do s=${h##*-}; echo "pages ${s%kB} $(cat $h/nr_hugepages)"; done
  echo "distances $(cat $n/distance)"
done"#;
    let mut numa: Vec<Value> = Vec::new();
    for line in node.run(script).lines() {
        let (key, rest) = line.split_once(' ').unwrap();
        let numbers: Vec<u64> = rest.split_whitespace().map(|word| word.parse().unwrap()).collect();
        if key == "id" {
            numa.push(json!({ "id": numbers[0], "cores": [], "huge-pages": [] }));
            continue;
        }
        let last = numa.last_mut().unwrap();
        let mut push = |list: &str, item: Value| last[list].as_array_mut().unwrap().push(item);
        match key {
            "core" => push("cores", json!({ "socket": numbers[0], "threads": [numbers[1]] })),
            "pages" => push("huge-pages", json!({ "page-kib": numbers[0], "count": numbers[1] })),
            "memory" => last["memory-bytes"] = json!(numbers[0] << 10),
            "distances" => last["distances"] = json!(numbers),
            other => panic!("{other}"),
        }
    }
    json!({ "numa": numa })
}
