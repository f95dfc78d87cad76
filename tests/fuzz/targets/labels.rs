//! Labels and annotations of a Node, a line each, the value after the first `=`.

#![no_main]

use std::collections::BTreeMap;

use gpulet_fuzz::{divisions, facts};
use gpulet_partition::layouts;
use gpulet_partition::overrides::Overrides;
use gpulet_partition::protocol::{Declared, MIG_CONFIG, WhenBusy};
use gpulet_partition::resolve::resolve;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut said: BTreeMap<String, String> = text
        .split('\n')
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    said.entry(MIG_CONFIG.to_owned()).or_insert_with(|| "all-1g.5gb".to_owned());
    let Some(declared) = Declared::read(&said, &said, WhenBusy::default()) else { return };
    if let Err(error) = &declared.when_busy {
        assert!(!error.to_string().is_empty());
    }
    let overrides = Overrides::parse(declared.overrides.as_deref().unwrap_or(text));
    let divisions = divisions();
    let facts = facts(&divisions);
    let file = layouts::generated(&facts);
    if let Ok(desired) = resolve(&file, &declared.name, &facts, &Overrides::default()) {
        assert_eq!((desired.name, desired.hash.len()), (declared.name.clone(), 16));
    }
    match overrides {
        Ok(overrides) => {
            if let Err(problems) = resolve(&file, &declared.name, &facts, &overrides) {
                assert!(!problems.to_string().is_empty());
            }
        }
        Err(problems) => assert!(problems.count() > 0),
    }
});
