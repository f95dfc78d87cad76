//! What the real kubelet answers to what, kept for the simulated one to be held against: where `GPULET_TRANSCRIPT` names a
//! file, it is written there. `simulator/tests/data/kubelet-1.36.json` is such a file.

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
    /// Begins with the machine, the kubelet's settings, and its answers while it has no Pod.
    pub(crate) fn begin(node: &RealNode, answers: &Answers) -> Self {
        let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/guest/kubelet.yaml");
        let settings: Value = serde_saphyr::from_str(&std::fs::read_to_string(settings).unwrap()).unwrap();
        let start = json!({
            "kubelet": node.run("kubelet --version").trim(),
            "machine": machine(node),
            "settings": settings,
            "allocatable": answers.raw["allocatable"],
        });
        Self { file: std::env::var_os("GPULET_TRANSCRIPT").map(PathBuf::from), start, steps: Vec::new() }
    }

    /// A Pod was created; `answers` are those after the verdict.
    pub(crate) fn admission(&mut self, pod: &Pod, verdict: &Verdict, answers: &Answers) {
        let verdict = match verdict {
            Verdict::Admitted => json!("admitted"),
            Verdict::Rejected { reason, message } => json!({ "reason": reason, "message": message }),
        };
        let mut manifest = pod.manifest();
        // What decides where it lies, and no more.
        manifest["spec"] = json!({ "containers": manifest["spec"]["containers"] });
        for container in manifest["spec"]["containers"].as_array_mut().unwrap() {
            *container = json!({ "name": container["name"], "resources": container["resources"] });
        }
        self.steps.push(json!({ "admit": manifest, "verdict": verdict, "list": answers.raw["list"] }));
    }

    /// A Pod has ended or was deleted.
    pub(crate) fn removal(&mut self, pod: &Pod, answers: &Answers) {
        self.steps.push(json!({ "remove": format!("default/{}", pod.name), "list": answers.raw["list"] }));
    }

    /// Writes it, if it is wanted: a line for each step.
    pub(crate) fn end(self) {
        let Some(file) = self.file else { return };
        let mut text = format!("{{\n\"start\": {},\n\"steps\": [\n", self.start);
        let steps: Vec<_> = self.steps.iter().map(Value::to_string).collect();
        text.push_str(&steps.join(",\n"));
        text.push_str("\n]\n}\n");
        std::fs::write(file, text).unwrap();
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
