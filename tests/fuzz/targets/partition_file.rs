//! A partition file: whatever it says, it is refused or resolved, and what is resolved is planned.

#![no_main]

use gpulet_fuzz::{divisions, facts};
use gpulet_partition::overrides::Overrides;
use gpulet_partition::resolve::resolve;
use gpulet_partition::{export, file, plan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let divisions = divisions();
    let facts = facts(&divisions);
    let parsed = match file::parse(text) {
        Ok(parsed) => parsed,
        Err(problems) => {
            assert!(problems.count() > 0 && !problems.to_string().is_empty());
            return;
        }
    };
    for name in parsed.layouts.keys() {
        match resolve(&parsed, name, &facts, &Overrides::default()) {
            Ok(desired) => {
                let planned = plan::plan(&desired.wanted(), &divisions);
                assert_eq!(planned.refusals().next(), None, "what is resolved fits on GPUs that no one uses");
            }
            Err(problems) => assert!(!problems.to_string().is_empty()),
        }
    }
    assert!(file::parse(&export::file(&facts)).is_ok());
});
