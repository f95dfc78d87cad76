//! Pods come and go; each time the published object says beforehand what the kubelet will say, and afterwards what it has.

use std::time::{Duration, Instant};

use gpulet_tests::{Answers, ControlPlane, RealNode};

use crate::pods::{Pod, Random};
use crate::published::Published;
use crate::scheduler;
use crate::transcript::Transcript;
use crate::watched::{Machine, Watched};

const PODS: usize = 30;
/// With it the sizes show enough: see the end of the test.
const SEED: u64 = 58;

/// What the kubelet says to a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may run.
    Admitted,
    /// It may not, for this reason.
    Rejected { reason: String, message: String },
}

/// What a test of admissions needs.
struct Admissions<'a> {
    plane: &'a ControlPlane,
    node: &'a RealNode,
    machine: Machine,
    watched: Watched,
    /// From when the kubelet told until the object had it.
    delays: Vec<Duration>,
}

/// Runs them all, and prints the delays.
pub(crate) fn statements_equal_verdicts(plane: &ControlPlane, node: &RealNode) {
    let machine = Machine::of(node);
    let mut all = Admissions { plane, node, machine, watched: Watched::start(node), delays: Vec::new() };
    let mut random = Random(SEED);
    let mut running: Vec<Pod> = Vec::new();
    let (mut admitted, mut unaligned) = (0, 0);
    let mut transcript = Transcript::begin(node, &all.settled());

    for number in 0..PODS {
        let pod = Pod::random(number, &mut random);
        let before = all.published();
        let fits = scheduler::fits(&pod, &before.available);
        let verdict = all.create(&pod);
        println!("{:7} {:?}: {verdict:?}", pod.name, pod.containers);
        match &verdict {
            Verdict::Admitted => {
                assert!(fits, "admitted, and published as not fitting: {pod:?}\n{:?}", before.available);
                admitted += 1;
            }
            Verdict::Rejected { reason, message } => {
                assert!(
                    !fits,
                    "{reason}, and published as fitting: {pod:?}\n{message}\n{:?}",
                    before.available
                );
                assert_eq!(reason, "TopologyAffinityError", "{pod:?}: {message}");
                // There would have been enough on both NUMA nodes together: what only these zones tell.
                let enough = |resource: &str| {
                    let both: u64 = before.available.values().map(|zone| zone[resource]).sum();
                    both >= pod.sum(resource)
                };
                unaligned += usize::from(["cpu", "memory", "nvidia.com/gpu"].iter().all(|r| enough(r)));
            }
        }
        transcript.admission(&pod, &verdict, &all.settled_after(&pod, &verdict));
        match verdict {
            Verdict::Admitted if pod.ends => {
                all.wait_for_end(&pod);
                transcript.removal(&pod, &all.settled());
            }
            Verdict::Admitted => running.push(pod),
            Verdict::Rejected { .. } => {}
        }
        // The fuller the node is, the sooner one ends.
        if !running.is_empty() && random.one_in(if running.len() > 3 { 1 } else { 3 }) {
            let ended = running.swap_remove(usize::try_from(random.below(running.len() as u64)).unwrap());
            all.delete(&ended);
            transcript.removal(&ended, &all.settled());
        }
    }
    for pod in &running {
        all.delete(pod);
    }
    all.settled();
    transcript.end();
    println!(
        "{admitted} of {PODS} Pods admitted; {unaligned} refused that would have fitted the two NUMA nodes together"
    );
    assert!(admitted >= PODS / 2 && unaligned >= PODS / 6, "the sizes show too little");
    all.print_delays();
}

impl Admissions<'_> {
    fn published(&self) -> Published {
        Published::read(self.plane).expect("the object is there")
    }

    /// Waits until what is published is what the kubelet says, and gives that.
    fn settled(&self) -> Answers {
        self.settled_when(|_| true)
    }

    /// The same after the verdict on `pod`. Of an admission the delay is kept.
    fn settled_after(&mut self, pod: &Pod, verdict: &Verdict) -> Answers {
        if *verdict != Verdict::Admitted {
            // For a moment the kubelet tells of a Pod that it has refused, too: one that has nothing.
            return self.settled_when(|answers| !answers.pods.contains_key(&key(pod)));
        }
        let answers = self.settled_when(|answers| has_all(answers, pod));
        let told = self.watched.since(|answers| has_all(answers, pod)).expect("the kubelet has told");
        self.delays.push(told.elapsed());
        answers
    }

    fn settled_when(&self, condition: impl Fn(&Answers) -> bool) -> Answers {
        let started = Instant::now();
        let mut said = false;
        self.node.wait_for("what is published is what the kubelet says", || {
            let answers = self.watched.last()?;
            let published = self.published();
            if condition(&answers) && published.agrees_with(&answers, &self.machine) {
                return Some(answers);
            }
            if !said && started.elapsed() > Duration::from_secs(30) {
                println!("still unlike: {:?}\nthe kubelet: {}", published.available, answers.raw);
                said = true;
            }
            None
        })
    }

    fn create(&self, pod: &Pod) -> Verdict {
        self.plane.admin().create("/api/v1/namespaces/default/pods", &pod.manifest()).ok();
        self.node.wait_for("the kubelet's verdict", || {
            let status = &self.plane.admin().get(&path(pod)).ok()["status"];
            let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
            match (text("phase").as_str(), text("reason")) {
                ("Failed", reason) => Some(Verdict::Rejected { reason, message: text("message") }),
                ("Running" | "Succeeded", _) => Some(Verdict::Admitted),
                // Before its containers run it has its share.
                _ => has_all(&self.watched.last()?, pod).then_some(Verdict::Admitted),
            }
        })
    }

    fn wait_for_end(&self, pod: &Pod) {
        self.node.wait_for("the Pod ends", || {
            (self.plane.admin().get(&path(pod)).ok()["status"]["phase"] == "Succeeded").then_some(())
        });
        self.wait_until_gone(pod);
    }

    fn delete(&self, pod: &Pod) {
        self.plane.admin().delete(&path(pod)).ok();
        self.node
            .wait_for("the Pod is gone", || (self.plane.admin().get(&path(pod)).status == 404).then_some(()));
        self.wait_until_gone(pod);
    }

    /// Waits until the kubelet has taken back what the Pod had.
    fn wait_until_gone(&self, pod: &Pod) {
        let gone = || self.watched.last().filter(|answers| !answers.pods.contains_key(&key(pod)));
        self.node.wait_for("the kubelet takes back what the Pod had", gone);
    }

    fn print_delays(&self) {
        let mut delays = self.delays.clone();
        delays.sort();
        let at = |share: usize| delays[(delays.len() - 1) * share / 100].as_millis();
        println!(
            "from the kubelet's word to the published object, {} admissions: median {} ms, 90 % {} ms, longest {} ms",
            delays.len(),
            at(50),
            at(90),
            at(100)
        );
    }
}

/// Whether the kubelet says that `pod` has all that it asked for. In the middle of an admission it tells a part.
fn has_all(answers: &Answers, pod: &Pod) -> bool {
    let Some(holding) = answers.pods.get(&key(pod)) else { return false };
    let memory: u64 = holding.memory.iter().map(|memory| memory.bytes).sum();
    holding.cpus.len() as u64 == pod.sum("cpu")
        && memory == pod.sum("memory")
        && holding.devices.len() as u64 == pod.sum("nvidia.com/gpu")
}

/// Its namespace and name.
fn key(pod: &Pod) -> (String, String) {
    ("default".to_owned(), pod.name.clone())
}

fn path(pod: &Pod) -> String {
    format!("/api/v1/namespaces/default/pods/{}", pod.name)
}
