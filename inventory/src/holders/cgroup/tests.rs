use proptest::prelude::*;

use super::*;

const UID: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";
const HASH: &str = "36b6d6be73b1065af369b3985edafa09";

fn id() -> String {
    "9a".repeat(32)
}

fn pod_of(uid: &str, container: Option<String>) -> Option<CgroupOwner> {
    Some(CgroupOwner::Pods(vec![PodGroup { uid: uid.to_owned(), container }]))
}

fn host(unit: &str) -> Option<CgroupOwner> {
    Some(CgroupOwner::Host(HostUnit::new(unit)))
}

#[test]
fn each_way_in_which_a_container_lies() {
    let (id, slice) = (id(), UID.replace('-', "_"));
    let burstable = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice");
    for (name, path) in [
        ("containerd, systemd", format!("{burstable}/cri-containerd-{id}.scope")),
        ("guaranteed", format!("/kubepods.slice/kubepods-pod{slice}.slice/cri-containerd-{id}.scope")),
        ("CRI-O", format!("{burstable}/crio-{id}.scope")),
        ("CRI-O with crun", format!("{burstable}/crio-{id}.scope/container")),
        ("docker", format!("{burstable}/docker-{id}.scope")),
        ("podman", format!("{burstable}/libpod-{id}.scope")),
        ("cgroupfs, guaranteed", format!("/kubepods/pod{UID}/{id}")),
        ("cgroupfs, best effort", format!("/kubepods/besteffort/pod{UID}/{id}")),
        ("cgroupfs, CRI-O", format!("/kubepods/burstable/pod{UID}/crio-{id}")),
        (
            "a cgroup root of one's own",
            format!(
                "/x.slice/x-kubepods.slice/x-kubepods-burstable.slice/x-kubepods-burstable-pod{slice}.slice/cri-containerd-{id}.scope"
            ),
        ),
        (
            "kubelet and runtime disagree",
            format!(
                "/system.slice/containerd.service/kubepods-burstable-pod{slice}.slice:cri-containerd:{id}"
            ),
        ),
        ("nested groups", format!("{burstable}/cri-containerd-{id}.scope/system.slice/cron.service")),
        ("removed", format!("{burstable}/cri-containerd-{id}.scope (deleted)")),
        (
            "seen from another namespace",
            format!("/../../kubepods-pod{slice}.slice/cri-containerd-{id}.scope"),
        ),
        (
            "kind on podman",
            format!(
                "/machine.slice/libpod-{}.scope/container/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{slice}.slice/cri-containerd-{id}.scope",
                "b".repeat(64)
            ),
        ),
    ] {
        assert_eq!(CgroupOwner::of(&format!("0::{path}\n")), pod_of(UID, Some(id.clone())), "{name}");
    }
}

#[test]
fn all_pods_of_a_path_are_kept_the_outermost_first() {
    let (outer, other) = (UID.replace('0', "f"), "c".repeat(64));
    let group =
        |uid: &str, container: &str| PodGroup { uid: uid.to_owned(), container: Some(container.to_owned()) };
    let node = format!("/kubepods/burstable/pod{outer}/{other}/kubelet/kubepods/pod{UID}/{}", id());
    let expected = vec![group(&outer, &other), group(UID, &id())];
    assert_eq!(CgroupOwner::of(&format!("0::{node}\n")), Some(CgroupOwner::Pods(expected)));
    // However many a Pod makes below itself, it stays the first.
    let many = format!("0::/kubepods/pod{outer}/{other}{}\n", format!("/pod{UID}").repeat(100));
    let Some(CgroupOwner::Pods(groups)) = CgroupOwner::of(&many) else { panic!("{many}") };
    assert_eq!((&groups[0], groups.len()), (&group(&outer, &other), MAX_PODS));
}

#[test]
fn a_pod_without_a_container() {
    let (id, slice) = (id(), UID.replace('-', "_"));
    for (name, path) in [
        ("kata", format!("/kubepods/burstable/pod{UID}/kata_{id}")),
        ("conmon", format!("/kubepods.slice/kubepods-pod{slice}.slice/crio-conmon-{id}.scope")),
        ("the Pod's own group", format!("/kubepods.slice/kubepods-pod{slice}.slice")),
        ("another runtime's group", format!("/kubepods/pod{UID}/payload")),
    ] {
        assert_eq!(CgroupOwner::of(&format!("0::{path}\n")), pod_of(UID, None), "{name}");
    }
    // The one process of gVisor's sandbox lies where the pause container would.
    let sandbox = format!("0::/kubepods/pod{UID}/{id}\n");
    assert_eq!(CgroupOwner::of(&sandbox), pod_of(UID, Some(id.clone())));
    let static_pod = format!(
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{HASH}.slice/cri-containerd-{id}.scope"
    );
    assert_eq!(CgroupOwner::of(&static_pod), pod_of(HASH, Some(id)));
}

#[test]
fn the_line_that_says_most() {
    let id = id();
    let at = format!("/kubepods/burstable/pod{UID}/{id}");
    let version_1 = format!(
        "12:cpu,cpuacct:{at}\n11:memory:{at}\n10:devices:/\n1:name=systemd:/system.slice/containerd.service\n"
    );
    assert_eq!(CgroupOwner::of(&version_1), pod_of(UID, Some(id.clone())));
    let hybrid = format!("4:memory:{at}\n1:name=systemd:{at}\n0::/\n");
    assert_eq!(CgroupOwner::of(&hybrid), pod_of(UID, Some(id)));
    let service = "3:cpuset:/\n1:name=systemd:/system.slice/dcgm.service\n0::/\n";
    assert_eq!(CgroupOwner::of(service), host("dcgm.service"));
}

#[test]
fn units_of_the_host() {
    for (path, unit) in [
        ("/system.slice/nvidia-persistenced.service", "nvidia-persistenced.service"),
        ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/ollama.service", "user@1000.service"),
        ("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "slurmstepd.scope"),
        ("/system.slice/containerd.service/kubepods-burstable.slice", "containerd.service"),
        ("/init.scope", "init.scope"),
        ("/docker/abc", "docker/abc"),
        ("/user.slice", "user.slice"),
        ("/a\u{1b}[31m b", "a?[31m?b"),
        ("/..", "/"),
        ("/", "/"),
    ] {
        assert_eq!(CgroupOwner::of(&format!("0::{path}\n")), host(unit), "{path}");
    }
    for short in [&UID[1..], &HASH[1..], "s", ""] {
        let path = format!("0::/kubepods/tripod{UID}/pod{short}.slice");
        assert!(matches!(CgroupOwner::of(&path), Some(CgroupOwner::Host(_))), "{path}");
    }
}

#[test]
fn what_is_no_such_text() {
    for text in ["", "\n", "0:", "0::", "::/x", "x::/x", "0:memory", "kubepods"] {
        assert_eq!(CgroupOwner::of(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_understood_or_refused(text in "([0-9]{0,2}:(memory|cpu|)?:/?(pod|kubepods|[-_:./a-f0-9]{0,40}){0,4}\n?){0,4}.{0,9}") {
        let _ = CgroupOwner::of(&text);
    }

    #[test]
    fn every_pod_is_found_wherever_it_lies(
        uid in "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}",
        id in "[0-9a-f]{64}",
        above in "(/[a-z]{1,9}(\\.slice)?){0,3}",
        before in "|kubepods-|x-kubepods-burstable-|a_",
        runtime in "cri-containerd|crio|docker|libpod",
        below in "(/[a-z.]{1,9}){0,2}",
        deleted: bool,
    ) {
        let tail = if deleted { " (deleted)" } else { "" };
        let underscored = uid.replace('-', "_");
        for path in [
            format!("{above}/{before}pod{underscored}.slice/{runtime}-{id}.scope{below}{tail}"),
            format!("{above}/{before}pod{uid}/{id}{below}{tail}"),
            format!("{above}/{before}pod{underscored}.slice:{runtime}:{id}{tail}"),
        ] {
            let own = PodGroup { uid: uid.clone(), container: Some(id.clone()) };
            let told = CgroupOwner::of(&format!("0::{path}\n"));
            prop_assert_eq!(told, Some(CgroupOwner::Pods(vec![own.clone()])), "{}", path);
            // Whatever lies below, the Pod is the outermost.
            let made = path.strip_suffix(" (deleted)").unwrap_or(&path);
            let told = CgroupOwner::of(&format!("0::{made}/kubepods/pod{UID}/{id}\n"));
            let groups = match &told {
                Some(CgroupOwner::Pods(groups)) => groups.as_slice(),
                _ => &[],
            };
            prop_assert_eq!(groups.first(), Some(&own), "{}", made);
        }
    }
}
