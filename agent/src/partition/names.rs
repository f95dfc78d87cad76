//! Names of processes: their programs, and the Pods that they belong to.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gpulet_host::owner;
use gpulet_host::partition::preflight::Opener;
use gpulet_host::partition::services::STOPPABLE;
use gpulet_inventory::holders::CgroupOwner;
use gpulet_inventory::pod::Pod;
use gpulet_partition::observed::PodName;

use super::Partitioner;

/// What a process is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Name {
    /// Its program's name.
    pub(super) program: Option<String>,
    /// The Pod that it belongs to, where the API knows it.
    pub(super) pod: Option<PodName>,
}

impl Partitioner {
    /// What these processes are called. One that is gone is not called anything. The programs of `openers` are known.
    pub(super) async fn names(
        &self,
        pids: BTreeSet<u32>,
        openers: &[Opener],
        pods: &[Pod],
    ) -> BTreeMap<u32, Name> {
        let root = self.root.clone();
        // Reads /proc, which may take its time.
        let read = tokio::task::spawn_blocking(move || {
            let programs: BTreeMap<u32, String> =
                pids.iter().filter_map(|pid| Some((*pid, owner::program(&root, *pid)?))).collect();
            (owner::read(&root, pids), programs)
        });
        let (processes, mut programs) = read.await.unwrap_or_default();
        // What they were started as tells more than the name that they give themselves.
        let known = openers.iter().filter_map(|opener| Some((opener.pid, opener.program.clone()?)));
        programs.extend(known);
        let pods = by_uid(pods);
        let named = processes.known.into_iter().map(|(pid, origin)| {
            let program = program(programs.remove(&pid), &origin.owner);
            (pid, Name { program, pod: pod(&origin.owner, &pods) })
        });
        named.collect()
    }
}

/// A program with the unit of the host that it belongs to, by which it is stopped.
fn program(program: Option<String>, owner: &CgroupOwner) -> Option<String> {
    match (program, owner) {
        (Some(program), CgroupOwner::Host(unit)) if unit.unit().ends_with(".service") => {
            Some(format!("{program} of {}", unit.unit()))
        }
        (program, _) => program,
    }
}

/// Pods by what cgroups call them: the UID, or the hash of a static Pod's file.
fn by_uid(pods: &[Pod]) -> HashMap<&str, &Pod> {
    let hashes = pods.iter().filter_map(|pod| Some((pod.config_hash.as_deref()?, pod)));
    let uids = pods.iter().map(|pod| (pod.uid.as_str(), pod));
    hashes.chain(uids).collect()
}

/// The outermost Pod that this node's kubelet runs.
fn pod(owner: &CgroupOwner, pods: &HashMap<&str, &Pod>) -> Option<PodName> {
    let CgroupOwner::Pods(groups) = owner else { return None };
    let pod = groups.iter().find_map(|group| pods.get(group.uid.as_str()))?;
    Some(PodName { namespace: pod.namespace.clone(), name: pod.name.clone() })
}

/// The unit of a program that is told with it, where it is one of NVIDIA's monitors.
pub(crate) fn stoppable(program: &str) -> Option<String> {
    let (_, unit) = program.rsplit_once(" of ")?;
    STOPPABLE.contains(&unit).then(|| unit.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_monitors_of_the_host_can_be_stopped() {
        assert_eq!(stoppable("nv-hostengine of nvidia-dcgm.service").as_deref(), Some("nvidia-dcgm.service"));
        assert_eq!(stoppable("train of train.service"), None);
        assert_eq!(stoppable("nvidia-dcgm.service"), None);
    }
}
