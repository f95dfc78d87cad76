//! What the file's reader takes and what it says about what it does not take.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use gpulet_partition::protocol::WhenBusy;
use gpulet_partition::reboot::Permission;

use crate::config::drift::Drift;
use crate::config::level::LogFormat;
use crate::config::publish::Publish;
use crate::config::settings::Partition;

fn lines(text: &str) -> Vec<(u64, String)> {
    parse(text).unwrap_err().first.into_iter().map(|problem| (problem.line, problem.message)).collect()
}

#[test]
fn an_empty_file_is_the_defaults() {
    for text in ["", "\n\n", "# nothing but a comment\n", "sampling:\n", "web:\n  address:\n", "{}"] {
        assert_eq!(parse(text).unwrap(), Settings::default(), "{text:?}");
    }
}

#[test]
fn every_key_is_taken() {
    let text = "
node-name: gpu-7
log:
  level: warn,gpulet_nvml=debug
  format: json
sampling:
  interval: 500ms
  slow-interval: 1m
  deadline: 3s
web:
  address: 127.0.0.1:1234
  max-connections: 5
  max-header-bytes: 9000
  header-timeout: 1s
  request-timeout: 2s
topology:
  expected-profile: /etc/gpulet/topology.yaml
kubernetes:
  kubeconfig: /etc/gpulet/kubeconfig
  publish: never
  take-over: true
  file: /run/nrt.yaml
kubelet:
  root: /var/lib/k0s/kubelet
  socket: /run/kubelet.sock
  address: 10.0.0.7
  interval: 7s
labels:
  nvidia.com/mig.config: all-1g.10gb.me
  gpulet.dev/when-busy: wait
partition:
  file: /etc/mig/config.yaml
  when-busy: drain
  reboot: once
  drift: repair
  wait: 10m
";
    let settings = parse(text).unwrap();
    assert_eq!(settings.node_name.unwrap().to_string(), "gpu-7");
    assert_eq!(settings.log.level.to_string(), "warn,gpulet_nvml=debug");
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.sampling.interval, Duration::from_millis(500));
    assert_eq!(settings.sampling.slow_interval, Duration::from_secs(60));
    assert_eq!(settings.sampling.deadline, Duration::from_secs(3));
    assert_eq!(settings.web.address.to_string(), "127.0.0.1:1234");
    assert_eq!((settings.web.limits.connections, settings.web.limits.header_bytes), (5, 9000));
    assert_eq!(settings.web.limits.header_timeout, Duration::from_secs(1));
    assert_eq!(settings.web.limits.request_timeout, Duration::from_secs(2));
    let profile = settings.topology.expected_profile.unwrap();
    assert_eq!(profile.display().to_string(), "/etc/gpulet/topology.yaml");
    let kubernetes = Kubernetes {
        kubeconfig: Some("/etc/gpulet/kubeconfig".into()),
        publish: Publish::Never,
        take_over: true,
        file: "/run/nrt.yaml".into(),
    };
    assert_eq!(settings.kubernetes, kubernetes);
    let kubelet = Kubelet {
        root: "/var/lib/k0s/kubelet".into(),
        socket: Some("/run/kubelet.sock".into()),
        address: "10.0.0.7:10250".parse().unwrap(),
        interval: Duration::from_secs(7),
    };
    assert_eq!(settings.kubelet, kubelet);
    let labels = [("nvidia.com/mig.config", "all-1g.10gb.me"), ("gpulet.dev/when-busy", "wait")];
    assert_eq!(settings.labels, labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let partition = Partition {
        file: Some("/etc/mig/config.yaml".into()),
        when_busy: WhenBusy::Drain,
        reboot: Permission::Once,
        drift: Drift::Repair,
        wait: Duration::from_secs(600),
    };
    assert_eq!(settings.partition, partition);
}

#[test]
fn all_errors_are_told_at_once_each_with_its_line() {
    let text = "
node-name: Not_A_Name
sampling:
  interval: fast
  deadline: 3
  colour: red
web:
  max-connections: many
  address: localhost
plugins: []
log: loud
topology: {expected-profile: topology.yaml}
kubernetes: {publish: maybe, take-over: 1}
labels: {nvidia.com/mig.config: all-1g.10gb+me, gpulet.dev/when-busy: later, colour: red}
partition: {file: partition.yaml, when-busy: [], reboot: always, drift: 1, wait: 0s}
";
    let problems = lines(text);
    let told: Vec<u64> = problems.iter().map(|(line, _)| *line).collect();
    assert_eq!(told, [2, 4, 5, 6, 8, 9, 10, 11, 12, 13, 13, 14, 14, 14, 15, 15, 15, 15, 15], "{problems:#?}");
    let says = |line: u64, part: &str| {
        let (_, message) = problems.iter().find(|(at, _)| *at == line).unwrap();
        assert!(message.contains(part), "line {line}: {message}");
    };
    says(2, "node-name: `Not_A_Name`");
    says(4, "sampling.interval: `fast` is not a duration");
    says(5, "`3` is not a duration; expected whole numbers with units");
    says(6, "unknown key `sampling.colour`; known here: interval, slow-interval, deadline");
    says(8, "`many` is not a whole number from 1 to 10000");
    says(9, "`localhost` is not an address");
    says(
        10,
        "unknown key `plugins`; known here: node-name, log, sampling, web, topology, kubernetes, kubelet, labels, \
         partition",
    );
    says(11, "`log` must be a section of keys, not `loud`");
    let at_13: Vec<&String> =
        problems.iter().filter(|(at, _)| *at == 13).map(|(_, message)| message).collect();
    assert_eq!(at_13[0], "kubernetes.publish: `maybe` is not auto, always or never");
    assert_eq!(at_13[1], "kubernetes.take-over: `1` is not true or false");
    says(12, "topology.expected-profile: `topology.yaml` is not a path that begins with /");
    says(14, "labels.nvidia.com/mig.config: `all-1g.10gb+me` is no value of a label");
    says(15, "partition.file: `partition.yaml` is not a path that begins with /");
    let has = |part: &str| {
        assert!(problems.iter().any(|(_, message)| message.contains(part)), "{part}: {problems:#?}")
    };
    has("labels.gpulet.dev/when-busy: \"later\" is none of");
    has("unknown key `labels.colour`");
    has("partition.reboot: `always` is not never or once");
    has("partition.drift: `1` is not report or repair");
    has("partition.wait: `0s` is not between 1s and 168h");
}

#[test]
fn what_yaml_takes_for_something_else_is_told_how_to_be_a_text() {
    let problems = lines("labels: {nvidia.com/mig.config: off}\n");
    let message =
        "labels.nvidia.com/mig.config: `false` is not a text; if it is meant as one, put it in quotes";
    assert_eq!(problems, [(1, message.to_owned())]);
}

#[test]
fn a_key_that_is_no_text_does_not_hide_the_other_errors() {
    let problems = lines("~: 1\nweb: {colour: red}\n5: 1\ntrue: 1\n1.5: 1\nlog:\n  : x\n");
    let says = |line: u64, part: &str| {
        let found = problems.iter().any(|(at, message)| *at == line && message.contains(part));
        assert!(found, "line {line} does not say {part}: {problems:#?}");
    };
    says(1, "unknown key `null`");
    says(2, "unknown key `web.colour`");
    says(3, "unknown key `5`");
    says(4, "unknown key `true`");
    says(5, "unknown key `1.5`");
    says(7, "unknown key `log.null`");
    assert_eq!(problems.len(), 6, "{problems:#?}");
}

#[test]
fn of_many_errors_the_first_are_told_and_the_rest_is_counted() {
    let mut text = String::new();
    for number in 0..10_000 {
        text.push_str(&format!("key-{number}: 1\n"));
    }
    text.push_str("web: {colour: red}\n");
    let problems = parse(&text).unwrap_err();
    assert_eq!((problems.first.len(), problems.more), (50, 9951));
    let told: Vec<u64> = problems.first.iter().map(|problem| problem.line).collect();
    assert_eq!(told, (1..=50).collect::<Vec<u64>>());
}

#[test]
fn bounds_and_what_two_keys_say_together() {
    assert_eq!(
        lines("sampling:\n  interval: 1ms\n")[0].1,
        "sampling.interval: `1ms` is not between 100ms and 1h"
    );
    let problems = lines("sampling:\n  interval: 30s\n  slow-interval: 20s\n");
    assert_eq!(
        problems,
        [(3, "sampling.slow-interval: slow-interval (20s) must not be shorter than interval (30s)".into())]
    );
    let problems = lines("sampling:\n  interval: 30s\n");
    assert_eq!((problems.len(), problems[0].0), (1, 2), "the default slow-interval is shorter: {problems:?}");
}

#[test]
fn what_is_no_yaml_is_told_with_its_line() {
    let problems = lines("web:\n  address: \":1\"\n  address: \":2\"\n");
    assert_eq!(problems[0].0, 3, "a key twice: {problems:?}");
    let problems = lines("web:\n  address: [\n");
    assert!(problems[0].0 >= 2 && problems[0].1.starts_with("not YAML"), "{problems:?}");
    assert!(lines("- a\n- b\n")[0].1.contains("the file must be a section of keys, not a list"));
}

/// The annotated example: what a person copies.
const EXAMPLE: &str = include_str!("../../../../docs/gpulet.example.yaml");

#[test]
fn the_example_is_valid_and_says_the_defaults() {
    assert_eq!(parse(EXAMPLE).unwrap(), Settings::default());
}

/// Uncommented, the example sets every key, to its default where it has one.
#[test]
fn the_example_names_every_key_with_its_default() {
    let uncommented: String = EXAMPLE.lines().map(|line| format!("{}\n", uncomment(line))).collect();
    let settings = parse(&uncommented).unwrap();
    assert!(settings.node_name.is_some(), "node-name is in the example");
    assert!(settings.topology.expected_profile.is_some(), "topology.expected-profile is in the example");
    assert!(settings.kubernetes.kubeconfig.is_some(), "kubernetes.kubeconfig is in the example");
    assert_eq!(settings.labels.len(), 2, "both labels are in the example");
    assert!(settings.partition.file.is_some(), "partition.file is in the example");
    assert_eq!(settings.kubelet.socket.as_ref(), Some(&Kubelet::default().socket()));
    let topology = TopologySettings::default();
    let kubernetes = Kubernetes { kubeconfig: None, ..settings.kubernetes.clone() };
    let kubelet = Kubelet { socket: None, ..settings.kubelet.clone() };
    let partition = Partition { file: None, ..settings.partition.clone() };
    let labels = Settings::default().labels;
    let without_defaults =
        Settings { node_name: None, topology, kubernetes, kubelet, labels, partition, ..settings };
    assert_eq!(without_defaults, Settings::default());
    let yaml::Node { value: Value::Map(top), .. } = yaml::document(&uncommented).unwrap() else {
        panic!("no keys")
    };
    let mut named: Vec<String> = Vec::new();
    for (key, node) in &top {
        match &node.value {
            Value::Map(entries) => {
                named.extend(entries.iter().map(|(entry, _)| format!("{}.{}", key.name, entry.name)));
            }
            _ => named.push(key.name.clone()),
        }
    }
    assert_eq!(named, known_keys());
}

/// `#key: value` is a key that is commented out; `# words` is a comment.
fn uncomment(line: &str) -> String {
    let trimmed = line.trim_start();
    let indent = &line[..line.len() - trimmed.len()];
    match trimmed.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => format!("{indent}{rest}"),
        _ => line.to_owned(),
    }
}

/// Every key that the reader knows, as it says itself when it meets one that it does not know.
fn known_keys() -> Vec<String> {
    let names = |text: &str| -> Vec<String> {
        let message = lines(text).remove(0).1;
        let (_, known) = message.split_once("known here: ").unwrap();
        known.split(", ").map(str::to_owned).collect()
    };
    let mut keys = Vec::new();
    for key in names("nonsense: 1\n") {
        match parse(&format!("{key}: {{nonsense: 1}}\n")) {
            Err(problems) if problems.first[0].message.contains("known here") => {
                let inner = names(&format!("{key}: {{nonsense: 1}}\n"));
                keys.extend(inner.into_iter().map(|inner| format!("{key}.{inner}")));
            }
            _ => keys.push(key),
        }
    }
    keys
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(text in "(node-name|sampling|web|[a-z:{}\\[\\] \n&*!|>-]){0,30}") {
        let _ = parse(&text);
    }
}
