//! A node, its API server and a disk, in memory: does what the machine says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::pod::{Keeper, Pod, PodPhase, QosClass, Role};

use crate::apply::Failure;
use crate::observed::{Holder, PodName};
use crate::protocol::*;
use crate::reboot::Permission;

pub(super) const GPU: &str = "GPU-00000000-0000-0000-0000-000000000001";
const LOST: &str = "GPU-00000000-0000-0000-0000-000000000002";
pub(super) const PLUGIN: &str = "nvidia.com/gpu.deploy.device-plugin";
pub(super) const DCGM: &str = "nvidia.com/gpu.deploy.dcgm";

pub(super) fn failure(reason: &str) -> Failure {
    Failure { reason: reason.to_owned(), message: format!("{reason} happened") }
}

pub(super) fn pod(name: &str) -> Pod {
    Pod {
        namespace: "a".into(),
        name: name.into(),
        uid: name.into(),
        config_hash: None,
        phase: PodPhase::Running,
        qos: QosClass::BestEffort,
        deleting: false,
        keeper: Keeper::Other,
        deployed_by: Vec::new(),
        role: None,
        containers: Vec::new(),
    }
}

pub(super) fn named(pod: &Pod) -> PodName {
    PodName { namespace: pod.namespace.clone(), name: pod.name.clone() }
}

/// What happens to the Node while the GPUs are changed.
type Meanwhile = Box<dyn FnOnce(&mut NodeView)>;

/// The world around the machine.
pub(super) struct World {
    pub(super) machine: Protocol,
    pub(super) now: Instant,
    pub(super) node: NodeView,
    version: u32,
    pub(super) pods: Vec<Pod>,
    /// Pods of the user that use what would have to go.
    pub(super) users: BTreeSet<String>,
    /// Pods that do not end.
    pub(super) stubborn: BTreeSet<String>,
    pub(super) budget: bool,
    pub(super) api_up: bool,
    pub(super) forbidden: bool,
    pub(super) disk_full: bool,
    pub(super) disk: Option<NodeJournal>,
    /// What layouts there are, and what they resolve to.
    pub(super) file: BTreeMap<String, String>,
    /// What the GPU is divided into.
    pub(super) layout: String,
    /// A service of the host that holds the GPU, and whether it runs.
    pub(super) service: Option<bool>,
    /// How the next changes end; otherwise well.
    pub(super) ends: VecDeque<GpuEnd>,
    pub(super) care_fails: bool,
    /// There is another GPU, and it does not answer.
    pub(super) lost: bool,
    /// The next look ends what a crash has cut off.
    pub(super) recovers: bool,
    /// The GPU waits for a reboot.
    pub(super) waits: bool,
    pub(super) boot: u32,
    pub(super) policy: Policy,
    pub(super) log: Vec<Command>,
    /// Comes while the GPUs are changed.
    pub(super) meanwhile: Option<Meanwhile>,
    /// It is killed before this many further commands are done.
    pub(super) fuse: Option<usize>,
    pub(super) kubernetes: bool,
}

pub(super) fn policy() -> Policy {
    Policy {
        when_busy: WhenBusy::Refuse,
        wait: Duration::from_secs(60),
        reboot: Permission::Never,
        repair: true,
    }
}

impl World {
    pub(super) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
        let now = Instant::now();
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let labels = [
            label(PLUGIN, "true"),
            label(DCGM, "true"),
            label("nvidia.com/gpu.deploy.dcgm-exporter", "false"),
            label("nvidia.com/gpu.deploy.driver", "true"),
        ];
        let mut world = Self {
            machine: machine(None, 0, policy(), now, true),
            now,
            node: NodeView { labels: labels.into(), ..NodeView::default() },
            version: 0,
            pods: Vec::new(),
            users: BTreeSet::new(),
            stubborn: BTreeSet::new(),
            budget: false,
            api_up: true,
            forbidden: false,
            disk_full: false,
            disk: None,
            file: ["a", "b", "c"].map(|name| (name.to_owned(), format!("hash-{name}"))).into(),
            layout: "hash-none".into(),
            service: None,
            ends: VecDeque::new(),
            care_fails: false,
            lost: false,
            recovers: false,
            waits: false,
            boot: 0,
            policy: policy(),
            log: Vec::new(),
            meanwhile: None,
            fuse: None,
            kubernetes: true,
        };
        world.control();
        world
    }

    /// A DaemonSet controller does its part: Pods of parts that are switched on are there, others go.
    pub(super) fn control(&mut self) {
        for key in [PLUGIN, DCGM] {
            let name = key.rsplit('.').next().unwrap().to_owned();
            let wanted = self.node.labels.get(key).is_some_and(|value| value == "true");
            let there = self.pods.iter().any(|pod| pod.name == name);
            if wanted && !there {
                let deployed_by = vec![key.to_owned()];
                self.pods.push(Pod { keeper: Keeper::DaemonSet, deployed_by, ..pod(&name) });
            } else if !wanted && !self.stubborn.contains(&name) {
                self.pods.retain(|pod| pod.name != name);
            }
        }
    }

    pub(super) fn wish(&mut self, name: Option<&str>) {
        set(&mut self.node.labels, MIG_CONFIG, name);
        self.touch();
    }

    pub(super) fn when_busy(&mut self, word: &str) {
        set(&mut self.node.labels, WHEN_BUSY, Some(word));
        self.touch();
    }

    pub(super) fn touch(&mut self) {
        self.version += 1;
    }

    pub(super) fn user(&mut self, name: &str) {
        self.pods.push(pod(name));
        self.users.insert(name.to_owned());
    }

    pub(super) fn state(&self) -> Option<&str> {
        self.node.labels.get(STATE).map(String::as_str)
    }

    pub(super) fn status(&self) -> Option<Status> {
        Status::read(self.node.annotations.get(STATUS)?)
    }

    pub(super) fn reason(&self) -> String {
        self.status().map(|status| status.reason).unwrap_or_default()
    }

    /// Starts it anew with what is on disk.
    pub(super) fn restart(&mut self) {
        self.machine = machine(self.disk.clone(), self.boot, self.policy.clone(), self.now, self.kubernetes);
        self.fuse = None;
    }

    /// Lets it go on for this long, and until nothing is to be done at once.
    pub(super) fn run(&mut self, long: Duration) {
        let end = self.now + long;
        for _ in 0..5000 {
            if !self.turn(end) {
                self.now = end;
                return;
            }
        }
        panic!("it does not come to rest: {:?}", &self.log[self.log.len().saturating_sub(12)..]);
    }

    pub(super) fn rest(&mut self) {
        self.run(Duration::from_secs(5));
    }

    /// What the watches tell, and what follows; false when it is quiet until then.
    fn turn(&mut self, end: Instant) -> bool {
        self.control();
        self.users.retain(|name| self.pods.iter().any(|pod| pod.name == *name));
        let begun = self.log.len();
        self.say(Event::Woken);
        if !self.kubernetes || self.api_up {
            self.say(Event::Node(Some(self.node.clone())));
            self.say(Event::Pods(Arc::new(self.pods.clone())));
        }
        if self.log.len() > begun {
            return true;
        }
        match self.machine.next_wake() {
            Some(wake) if wake <= end => {
                self.now = wake.max(self.now + Duration::from_millis(1));
                true
            }
            _ => false,
        }
    }

    pub(super) fn say(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for command in self.machine.step(event, self.now) {
                if self.fuse == Some(0) {
                    self.restart();
                    return;
                }
                self.fuse = self.fuse.map(|fuse| fuse - 1);
                self.log.push(command.clone());
                events.extend(self.carry_out(command));
            }
        }
    }

    fn carry_out(&mut self, command: Command) -> Option<Event> {
        Some(match command {
            Command::Recover => Event::Recovered(None),
            Command::Look(declared) => Event::Looked(self.look(&declared)),
            Command::Journal(journal) => Event::Journalled(self.write(journal)),
            Command::ReadNode => {
                Event::NodeRead(self.ask().map(|()| (self.node.clone(), self.version.to_string())))
            }
            Command::ChangeNode(change) => Event::NodeChanged(self.change(&change)),
            Command::Evict(pods) => Event::Evicted(pods.into_iter().map(|name| self.evict(name)).collect()),
            Command::StopServices(_) => {
                assert!(!self.journal().services.is_empty(), "it is written down before");
                self.service = Some(false);
                Event::ServicesDone(Ok(()))
            }
            Command::StartServices(_) => {
                self.service = Some(true);
                Event::ServicesDone(Ok(()))
            }
            Command::Apply { .. } => return Some(Event::Applied(self.apply())),
            Command::Care => Event::CaredFor(match self.care_fails {
                true => Err(failure("CdiStale")),
                false => Ok("device files are there".into()),
            }),
            Command::Reboot => Event::RebootAsked(Ok(())),
            Command::StopSoon | Command::Tell(_) | Command::Happened(_) => return None,
        })
    }

    pub(super) fn journal(&self) -> NodeEntry {
        self.disk.clone().map(NodeEntry::from).unwrap_or_default()
    }

    fn write(&mut self, journal: NodeJournal) -> Result<(), Failure> {
        if self.disk_full {
            return Err(failure("JournalUnavailable"));
        }
        // As it is read again.
        let text = serde_json::to_string(&journal).unwrap();
        self.disk = Some(serde_json::from_str(&text).unwrap());
        Ok(())
    }

    fn look(&mut self, declared: &Declared) -> Result<Assessment, NotLooked> {
        let wrong = || NotLooked { failure: failure("UnknownLayout"), is_wrong: true };
        let hash = self.file.get(&declared.name).ok_or_else(wrong)?.clone();
        let mut holders: Vec<Holder> = self
            .users
            .iter()
            .map(|name| Holder::Pod(PodName { namespace: "a".into(), name: name.clone() }))
            .collect();
        let runs = self.service == Some(true);
        if runs {
            holders.push(Holder::Process { pid: 7, program: Some("nv-hostengine".into()), pod: None });
        }
        let outlook = match (hash == self.layout, holders.is_empty()) {
            _ if self.waits => Outlook::Unreadable {
                reason: "RebootRequired".into(),
                message: "it waits for a reboot".into(),
            },
            (true, _) => Outlook::AsWanted,
            (false, true) => Outlook::Change(3),
            (false, false) => Outlook::Blocked { message: "it is in use".into(), holders },
        };
        let mut gpus = vec![Assessed { gpu: GPU.parse().ok(), outlook }];
        if self.lost {
            let outlook = Outlook::Unreadable { reason: "Lost".into(), message: "it is lost".into() };
            gpus.push(Assessed { gpu: LOST.parse().ok(), outlook });
        }
        let services = runs.then(|| (7, "nvidia-dcgm.service".to_owned())).into_iter().collect();
        let recovered = std::mem::take(&mut self.recovers);
        let on_disk = Some(self.journal());
        Ok(Assessment { hash, gpus, services, on_disk, recovered, ..Assessment::default() })
    }

    fn ask(&self) -> Result<(), ApiFailure> {
        match self.api_up {
            true => Ok(()),
            false => Err(ApiFailure { failure: failure("Unreachable"), kind: ApiFailureKind::Later(None) }),
        }
    }

    fn change(&mut self, change: &NodeChange) -> Result<(), ApiFailure> {
        self.ask()?;
        if self.forbidden {
            return Err(ApiFailure { failure: failure("Forbidden"), kind: ApiFailureKind::Refused });
        }
        if change.version.as_ref().is_some_and(|version| *version != self.version.to_string()) {
            return Err(ApiFailure { failure: failure("Conflict"), kind: ApiFailureKind::Conflict });
        }
        for (key, value) in &change.labels {
            if value.as_deref() == Some(PAUSED) {
                let former = self.node.labels.get(key).unwrap();
                assert_eq!(self.journal().paused.get(key), Some(former), "it is written down before");
                assert_ne!(former, "false");
            }
            set(&mut self.node.labels, key, value.as_deref());
        }
        if change.unschedulable == Some(true) {
            assert!(self.journal().cordoned, "it is written down before");
        }
        for (key, value) in &change.annotations {
            set(&mut self.node.annotations, key, value.as_deref());
        }
        self.node.unschedulable = change.unschedulable.unwrap_or(self.node.unschedulable);
        match &change.status {
            Some(StatusChange::Write(status)) => {
                if let Some(label) = status.state.label() {
                    set(&mut self.node.labels, STATE, Some(label));
                }
                set(&mut self.node.annotations, STATUS, Some(&status.annotation("2026-01-01T00:00:00Z")));
            }
            Some(StatusChange::Remove) => {
                set(&mut self.node.labels, STATE, None);
                set(&mut self.node.annotations, STATUS, None);
            }
            None => {}
        }
        self.touch();
        Ok(())
    }

    fn evict(&mut self, name: PodName) -> (PodName, Eviction) {
        let is_it = |pod: &Pod| named(pod) == name;
        let pod = self.pods.iter().find(|pod| is_it(pod));
        let is_plugin = pod.is_some_and(|pod| pod.role == Some(Role::DevicePlugin));
        assert!(is_plugin || self.users.contains(&name.name), "only those on the GPU are evicted: {name}");
        if self.budget {
            return (name, Eviction::Later("the budget forbids it".into()));
        }
        if !self.stubborn.contains(&name.name) && !is_plugin {
            self.pods.retain(|pod| !is_it(pod));
            self.users.remove(&name.name);
        }
        (name, Eviction::Accepted)
    }

    fn apply(&mut self) -> Vec<GpuResult> {
        assert!(self.users.is_empty() && self.service != Some(true), "nothing in use is changed");
        assert!(self.journal().aftercare, "it is written down before");
        if self.kubernetes {
            let paused = [PLUGIN, DCGM].iter().filter(|key| self.journal().paused.contains_key(**key));
            let stays = self.pods.iter().any(|pod| pod.role == Some(Role::DevicePlugin));
            assert!(!stays || self.node.unschedulable, "nobody is given what is about to go");
            let gone =
                |key: &&str| !self.pods.iter().any(|pod| pod.deployed_by.contains(&(**key).to_owned()));
            assert!(paused.into_iter().all(gone), "the clients have gone");
        }
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile(&mut self.node);
            self.touch();
            let node = self.node.clone();
            let said = self.machine.step(Event::Node(Some(node)), self.now);
            self.log.extend(said);
        }
        let end = self.ends.pop_front().unwrap_or(GpuEnd::Reached);
        if end == GpuEnd::Reached {
            let name = match self.log.iter().rev().find(|command| matches!(command, Command::Look(_))) {
                Some(Command::Look(declared)) => declared.name.clone(),
                _ => panic!("it was looked at before"),
            };
            self.layout = self.file.get(&name).unwrap().clone();
        }
        let failure = failure("RolledBack");
        let of = |gpu: &str, end, reason: &str| GpuResult {
            gpu: Some(gpu.parse().unwrap()),
            end,
            reason: reason.to_owned(),
            message: failure.message.clone(),
        };
        let lost = self.lost.then(|| of(LOST, GpuEnd::NotBegun, "Lost"));
        [of(GPU, end, &failure.reason)].into_iter().chain(lost).collect()
    }

    pub(super) fn count(&self, is_it: impl Fn(&Command) -> bool) -> usize {
        self.log.iter().filter(|command| is_it(command)).count()
    }

    pub(super) fn states_told(&self) -> Vec<&'static str> {
        let mut told: Vec<&'static str> = self
            .log
            .iter()
            .filter_map(|command| match command {
                Command::ChangeNode(NodeChange { status: Some(StatusChange::Write(status)), .. }) => {
                    status.state.label()
                }
                _ => None,
            })
            .collect();
        told.dedup();
        told
    }

    /// Whether everything around the GPUs is as people have left it.
    pub(super) fn is_restored(&self) -> bool {
        let paused = self.node.labels.values().any(|value| value == PAUSED);
        !paused && !self.node.annotations.contains_key(CORDONED) && self.journal().is_clean()
    }
}

fn machine(
    journal: Option<NodeJournal>,
    boot: u32,
    policy: Policy,
    now: Instant,
    kubernetes: bool,
) -> Protocol {
    let boot_id = format!("boot-{boot}");
    let timing = Timing::default();
    Protocol::new(Setting { kubernetes, boot_id, policy, timing, seed: 1, journal }, now)
}

pub(super) fn set(map: &mut BTreeMap<String, String>, key: &str, value: Option<&str>) {
    match value {
        Some(value) => drop(map.insert(key.to_owned(), value.to_owned())),
        None => drop(map.remove(key)),
    }
}
