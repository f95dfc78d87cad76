//! The kubelet's answers as they change, with the time of each change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use gpulet_tests::{Answers, RealNode};

/// What of the machine does not change.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The CPUs of each NUMA node.
    pub(crate) cpus: BTreeMap<u64, BTreeSet<u64>>,
    /// Every resource that its zones have.
    pub(crate) resources: Vec<String>,
}

impl Machine {
    /// As its kernel shows it.
    pub(crate) fn of(node: &RealNode) -> Self {
        let numbers =
            "for n in /sys/devices/system/node/node*; do echo ${n##*node} $(echo $n/cpu[0-9]*); done";
        let output = node.run(numbers);
        let cpus = output.lines().map(|line| {
            let mut words = line.split_whitespace();
            let numa = words.next().unwrap().parse().unwrap();
            let cpu = |path: &str| path.rsplit_once("cpu").unwrap().1.parse().unwrap();
            (numa, words.map(cpu).collect())
        });
        let pages = node.run("ls /sys/devices/system/node/node0/hugepages");
        let hugepages = pages.lines().map(|directory| match directory {
            "hugepages-2048kB" => "hugepages-2Mi".to_owned(),
            "hugepages-1048576kB" => "hugepages-1Gi".to_owned(),
            other => panic!("{other}"),
        });
        let others = ["cpu", "memory", "nvidia.com/gpu"].map(str::to_owned);
        Self { cpus: cpus.collect(), resources: hugepages.chain(others).collect() }
    }
}

/// All answers since the start, each with the moment at which it came.
#[derive(Debug, Clone)]
pub(crate) struct Watched(Arc<Mutex<Vec<(Instant, Answers)>>>);

impl Watched {
    /// Asks the kubelet again and again.
    pub(crate) fn start(node: &RealNode) -> Self {
        let watched = Self(Arc::default());
        let lines = node.follow("exec podresources -watch=100ms");
        let seen = watched.clone();
        std::thread::spawn(move || {
            for line in lines {
                let answers = Answers::parse(&line);
                seen.0.lock().unwrap().push((Instant::now(), answers));
            }
        });
        watched
    }

    /// The last answers; nothing before the first.
    pub(crate) fn last(&self) -> Option<Answers> {
        self.0.lock().unwrap().last().map(|(_, answers)| answers.clone())
    }

    /// When the answers became such that `condition` has held ever since.
    pub(crate) fn since(&self, condition: impl Fn(&Answers) -> bool) -> Option<Instant> {
        let seen = self.0.lock().unwrap();
        seen.iter().rev().take_while(|(_, answers)| condition(answers)).last().map(|(at, _)| *at)
    }
}
