//! What an annotation may say.

use proptest::prelude::*;

use super::*;
use crate::file::Target;

#[test]
fn gpus_are_named_by_index_uuid_and_address() {
    let text = r#"{"0": {"mig-enabled": true, "mig-devices": {"1g.10gb+me": 1, "3g.40gb": 1}},
                   "GPU-00000000-0000-0000-0000-000000000001": {"mig-enabled": false},
                   "0000:3b:00.0": {"mig-enabled": true, "mig-devices": {}}}"#;
    let Overrides { entries } = Overrides::parse(text).unwrap();
    let targets: Vec<String> = entries
        .iter()
        .map(|entry| match &entry.devices {
            Devices::These(targets) => targets[0].to_string(),
            Devices::All => panic!("{entry:?}"),
        })
        .collect();
    assert_eq!(targets, ["0", "GPU-00000000-0000-0000-0000-000000000001", "0000:3b:00.0"]);
    assert_eq!(entries[0].devices, Devices::These(vec![Target::Index(0)]));
    assert_eq!(entries[1].division, AskedDivision::Off);
    assert_eq!(entries[2].division, AskedDivision::On(Vec::new()));
    assert_eq!(entries[0].place.to_string(), "annotation gpulet.dev/mig-config: 0");
}

#[test]
fn nothing_says_nothing() {
    for text in ["", "  \n", "{}", "null"] {
        assert_eq!(Overrides::parse(text).unwrap(), Overrides::default(), "{text:?}");
    }
}

#[test]
fn everything_that_is_wrong_is_told() {
    let text = r#"{"all": {"mig-enabled": true}, "1": {"colour": 1, "mig-enabled": 1}, "2": 3, "-1": {"mig-enabled": false}}"#;
    let told = Overrides::parse(text).unwrap_err().to_string();
    for part in [
        "all: `all` is no GPU",
        "all: `mig-devices` is missing",
        "unknown key `1.colour`",
        "1.mig-enabled: `1` is not true or false",
        "2: `3` is not a map",
        "-1: `-1` is no GPU",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    for wrong in ["[]", "1", "{\"0\"", "{\"0\": {\"mig-enabled\": false}, \"0\": {\"mig-enabled\": false}}"] {
        assert!(Overrides::parse(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = Overrides::parse(&text);
    }
}
