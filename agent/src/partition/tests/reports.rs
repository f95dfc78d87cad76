//! What is told of a plan.

use gpulet_partition::apply::Failure;
use gpulet_partition::desired::{Wanted, WantedInstance};
use gpulet_partition::observed::GpuDivision;
use gpulet_partition::plan::plan;
use gpulet_partition::resolve::{Cause, Desired, Problem, Problems};
use serde_json::{Value, json};

use super::super::report::{Report, Verdict, text};
use super::super::{Looked, UnreadGpu};
use super::{division, looked, process, uuid};

fn seen(division: GpuDivision) -> Looked {
    Looked { driver_version: "580.1".to_owned(), gpus: vec![looked(division)], unread: Vec::new() }
}

fn whole(profile: u32) -> WantedInstance {
    let computes = vec![super::profile(profile).compute_profiles[0].id];
    WantedInstance { profile, computes }
}

fn report(looked: &Looked, wanted: Option<Wanted>) -> Report {
    let desired = Desired {
        name: "mine".to_owned(),
        hash: "abc".to_owned(),
        gpus: vec![(uuid(1), wanted)],
        warnings: Vec::new(),
    };
    Report::of("/etc/x.yaml", &desired, looked, &plan(&desired.wanted(), &looked.divisions()))
}

fn json_of(report: &Report) -> Value {
    serde_json::from_str(&report.json()).unwrap()
}

#[test]
fn what_stays_goes_and_comes() {
    let mut division = division();
    division.instances[0].computes[0].holders.push(process(5));
    let looked = seen(division);
    let report = report(&looked, Some(Wanted::On(vec![whole(19), whole(19), whole(19)])));
    assert_eq!(report.verdict, Verdict::Changes);
    let text = text(&report, false);
    for line in [
        "Layout mine (/etc/x.yaml, hash abc)\n",
        "\nGPU 0  NVIDIA Test 80GB  0000:11:00.0  GPU-00000000-0000-0000-0000-000000000001: to change\n",
        "\n  MIG mode  on\n",
        "\n  keep      1g.10gb at 0:1, used by process 5\n",
        "\n  destroy   3g.40gb at 4:4\n",
        "\n  create    1g.10gb at ",
        "\n  ends      GPU instance 3g.40gb at 4:4, which no one uses\n",
        "\n  room      for another 3g.40gb\n",
        "\nTo do: 1 to change. `gpulet apply` does it.\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    let json = json_of(&report);
    let gpu = &json["gpus"][0];
    assert_eq!(gpu["mode"], json!({"current": true, "pending": true, "wanted": true}));
    assert_eq!(gpu["keep"][0]["holders"][0]["pid"], 5);
    assert_eq!(gpu["destroy"][0]["whole"], true);
    let actions: Vec<&str> =
        gpu["steps"].as_array().unwrap().iter().map(|step| step["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        [
            "destroy-compute",
            "destroy-instance",
            "create-instance",
            "create-compute",
            "create-instance",
            "create-compute"
        ]
    );
}

/// The shape is a promise: this fails when a key goes.
#[test]
fn the_json_has_its_documented_keys() {
    let looked = seen(division());
    let json = json_of(&report(&looked, Some(Wanted::On(vec![whole(9)]))));
    let keys = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(sorted(keys(&json)), "driver_version gpus hash layout problems source verdict warnings");
    let gpu = &json["gpus"][0];
    assert_eq!(
        sorted(keys(gpu)),
        "create destroy disruptions index keep largest_placeable message mode model pci_bus_id reason reset steps uuid verdict"
    );
    let instance = "compute_instances holders profile profile_id size start whole";
    assert_eq!(sorted(keys(&gpu["keep"][0])), instance);
    assert_eq!(sorted(keys(&gpu["destroy"][0])), instance);
    assert_eq!(sorted(keys(&gpu["keep"][0]["compute_instances"][0])), "profile size start");
    assert_eq!(sorted(keys(&gpu["steps"][0])), "action message");
    assert_eq!(sorted(keys(&gpu["disruptions"][0])), "holders what");
    let undeclared = json_of(&Report::undeclared());
    assert_eq!((&undeclared["layout"], &undeclared["verdict"]), (&Value::Null, &json!("left-alone")));
}

#[test]
fn what_is_there_is_nothing_to_do() {
    let looked = seen(division());
    let there = report(&looked, Some(Wanted::On(vec![whole(9), whole(19)])));
    assert_eq!(there.verdict, Verdict::AsWanted);
    assert!(text(&there, false).ends_with("Nothing to do: 1 as wanted.\n"));
    // What nothing is asked of is told as it is.
    let alone = report(&looked, None);
    assert_eq!((alone.verdict, alone.gpus[0].verdict), (Verdict::AsWanted, Verdict::LeftAlone));
    assert_eq!(alone.gpus[0].keep.len(), 2);
}

#[test]
fn a_change_of_mode_is_told_with_its_reset_and_who_is_in_the_way() {
    let mut off = division();
    off.instances.clear();
    off.mode = Some(gpulet_inventory::mig::MigMode { current: false, pending: false });
    let wanted = || Some(Wanted::On(vec![whole(0)]));
    let free = text(&report(&seen(off.clone()), wanted()), false);
    assert!(
        free.contains("MIG mode  off, is turned on; the GPU is reset if the driver asks for it"),
        "{free}"
    );
    assert!(free.contains("ends      the whole GPU: its MIG mode changes, which no one uses"), "{free}");
    off.mode.as_mut().unwrap().pending = true;
    let pending = text(&report(&seen(off.clone()), wanted()), false);
    assert!(
        pending.contains("MIG mode  off (and on after a reset), is turned on; the GPU is reset"),
        "{pending}"
    );

    off.holders.push(process(5));
    let blocked = report(&seen(off), wanted());
    assert_eq!(blocked.verdict, Verdict::Blocked);
    let gpu = &json_of(&blocked)["gpus"][0];
    assert_eq!(gpu["reason"], "Blocked");
    assert_eq!(gpu["disruptions"][0]["holders"][0]["message"], "process 5");
    assert!(text(&blocked, true).contains("\x1b[1;31mblocked\x1b[0m"));
}

/// One that does not answer is told once, whether it is wanted or not, and keeps no other from being planned.
#[test]
fn a_gpu_that_does_not_answer() {
    let failure = Failure { reason: "GpuLost".to_owned(), message: "it is lost".to_owned() };
    let mut looked = seen(division());
    looked.unread.push(UnreadGpu { uuid: Some(uuid(2)), pci: None, failure });
    let desired = Desired {
        name: "mine".to_owned(),
        hash: "abc".to_owned(),
        gpus: vec![(uuid(1), Some(Wanted::On(vec![whole(9), whole(19)]))), (uuid(2), Some(Wanted::Off))],
        warnings: Vec::new(),
    };
    let report = Report::of("generated", &desired, &looked, &plan(&desired.wanted(), &looked.divisions()));
    let verdicts: Vec<Verdict> = report.gpus.iter().map(|gpu| gpu.verdict).collect();
    assert_eq!(verdicts, [Verdict::AsWanted, Verdict::Unreadable]);
    assert_eq!(report.verdict, Verdict::Unreadable);
    assert!(text(&report, false).contains("why       it is lost (GpuLost)"));
}

#[test]
fn a_layout_that_cannot_be_had_is_told_with_line_and_reason() {
    let cause = Cause::TooMany { profile: "3g.40gb".to_owned(), wanted: 3, most: 2 };
    let place = gpulet_partition::file::Place { line: 4, path: "mig-configs.mine[0]".to_owned() };
    let problems = Problems(vec![Problem { place, gpus: Vec::new(), cause }]);
    let report = Report::unresolved("/etc/x.yaml", "mine", &problems, &seen(division()));
    assert_eq!(report.verdict, Verdict::Infeasible);
    let json = json_of(&report);
    assert_eq!(json["problems"][0]["line"], 4);
    assert_eq!(json["problems"][0]["reason"], "TooMany");
    assert!(text(&report, false).contains("line 4: mig-configs.mine[0]: "), "{}", text(&report, false));
    let unknown = Problems(vec![Problem {
        place: gpulet_partition::file::Place::default(),
        gpus: Vec::new(),
        cause: Cause::UnknownLayout { name: "mine".to_owned(), known: Vec::new() },
    }]);
    assert_eq!(Report::unresolved("x", "mine", &unknown, &seen(division())).verdict, Verdict::Invalid);
}
