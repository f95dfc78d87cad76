//! The house keeps its shape: who may use whom, what a pure crate may touch, and where `unsafe` may live.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// Plain data and ids: used by all, uses nobody.
const VOCABULARY: &str = "inventory";
/// Decisions without I/O.
const PURE: [&str; 4] = ["topology", "partition", "limits", "health"];
/// All side effects.
const EDGES: [&str; 4] = ["nvml", "host", "cluster", "exporter"];
/// What a pure crate may use of others' work: no runtime, no file system, no clock.
const PURE_MAY_USE: [&str; 5] = ["serde", "serde-saphyr", "serde_json", "thiserror", "xxhash-rust"];
/// Where the workspace lint on `unsafe` may be lifted.
const UNSAFE_PLACES: [&str; 4] = ["nvml/src/", "simulator/src/", "simulator/tests/", "host/src/bpf"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().unwrap()
}

fn folder(package: &Package) -> String {
    package.manifest_path.parent().unwrap().file_name().unwrap().to_owned()
}

/// Folder names of the workspace crates that `package` depends on in builds that are shipped.
fn uses(package: &Package, names: &BTreeMap<String, String>) -> BTreeSet<String> {
    let shipped = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
    shipped.filter_map(|dependency| names.get(&dependency.name).cloned()).collect()
}

fn names(metadata: &Metadata) -> BTreeMap<String, String> {
    metadata.packages.iter().map(|p| (p.name.to_string(), folder(p))).collect()
}

fn may_use(user: &str) -> Option<BTreeSet<&'static str>> {
    let below_edges = || PURE.into_iter().chain([VOCABULARY]);
    Some(match user {
        VOCABULARY => BTreeSet::new(),
        pure if PURE.contains(&pure) => BTreeSet::from([VOCABULARY]),
        edge if EDGES.contains(&edge) => below_edges().collect(),
        "simulator" => BTreeSet::from([VOCABULARY]),
        "agent" => below_edges().chain(EDGES).chain(["simulator"]).collect(),
        "tests" | "benches" => below_edges().chain(EDGES).chain(["agent", "simulator", "benches"]).collect(),
        _ => return None,
    })
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let metadata = metadata();
    let names = names(&metadata);
    for package in &metadata.packages {
        let user = folder(package);
        let allowed =
            may_use(&user).unwrap_or_else(|| panic!("`{user}` is a new folder: give it a place here"));
        for used in uses(package, &names) {
            assert!(allowed.contains(used.as_str()), "`{user}` must not use `{used}`");
        }
    }
}

#[test]
fn the_agent_ships_without_the_simulator() {
    let metadata = metadata();
    let agent = metadata.packages.iter().find(|p| p.name.as_str() == "gpulet").unwrap();
    let simulator = agent.dependencies.iter().find(|d| d.name == "gpulet-simulator").unwrap();
    assert!(simulator.optional, "packages are built without the simulator, so it must be optional");
}

#[test]
fn pure_crates_touch_nothing_outside() {
    let metadata = metadata();
    let names = names(&metadata);
    let pure = |p: &&Package| folder(p) == VOCABULARY || PURE.contains(&folder(p).as_str());
    for package in metadata.packages.iter().filter(pure) {
        for dependency in package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal) {
            let known =
                names.contains_key(&dependency.name) || PURE_MAY_USE.contains(&dependency.name.as_str());
            assert!(known, "`{}` is pure and must not use `{}`", package.name, dependency.name);
        }
        let lints = std::fs::read_to_string(package.manifest_path.with_file_name("clippy.toml")).unwrap();
        assert!(
            lints.contains("std::time::Instant::now"),
            "`{}` must forbid reading the clock",
            package.name
        );
    }
}

#[test]
fn crates_are_named_for_their_folder_and_keep_the_lints() {
    for package in &metadata().packages {
        let (name, folder) = (package.name.to_string(), folder(package));
        let expected = if folder == "agent" { "gpulet".to_owned() } else { format!("gpulet-{folder}") };
        assert_eq!(name, expected);
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "`{name}` must take the workspace's lints");
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn unsafe_lives_in_three_crates() {
    let mut files = Vec::new();
    rust_files(&root(), &mut files);
    // The lint's name alone: an attribute that lifts it may stand on several lines. Put together, so as not to find this.
    let lint = format!("{}_code", "unsafe");
    let mut seen = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let place = file.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        if text.contains(&lint) {
            seen += 1;
            assert!(
                UNSAFE_PLACES.iter().any(|allowed| place.starts_with(allowed)),
                "{place} lifts the lint on unsafe"
            );
        }
    }
    assert!(seen > 0, "the search must find the places that do lift it");
}

#[test]
fn files_stay_readable() {
    let mut files = Vec::new();
    rust_files(&root(), &mut files);
    for file in files {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 600, "{} has {lines} lines: split it", file.display());
    }
}

/// `[text](target)` in a Markdown file, with targets outside the repository left out.
fn links(markdown: &str) -> Vec<String> {
    let targets = markdown.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let outside = |target: &&str| target.contains("://") || target.starts_with('#') || target.contains(' ');
    targets.filter(|target| !outside(target)).map(str::to_owned).collect()
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    let listed =
        std::process::Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output().unwrap();
    let pages = String::from_utf8(listed.stdout).unwrap();
    let mut seen = 0;
    for page in pages.lines().map(|page| root().join(page)) {
        for link in links(&std::fs::read_to_string(&page).unwrap()) {
            let (file, _) = link.split_once('#').unwrap_or((&link, ""));
            assert!(page.with_file_name(file).exists(), "{} links to {link}", page.display());
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} links");
}
