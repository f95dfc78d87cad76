//! The image that is built for the DaemonSet: what is in it, and that the program runs on that alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn build(program: &str, name: &str, out: &Path) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../daemonset/image/build");
    Command::new(script).args([program, name]).arg(out).output().unwrap()
}

fn unpack(archive: &Path, into: &Path) {
    std::fs::create_dir_all(into).unwrap();
    let status = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(into).status().unwrap();
    assert!(status.success());
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The file of a blob, whose name is the digest of what is in it.
fn blob(layout: &Path, descriptor: &Value) -> std::path::PathBuf {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let path = layout.join("blobs/sha256").join(digest);
    assert_eq!(path.metadata().unwrap().len(), descriptor["size"].as_u64().unwrap());
    let summed = Command::new("sha256sum").arg(&path).output().unwrap();
    assert!(String::from_utf8(summed.stdout).unwrap().starts_with(digest));
    path
}

#[test]
#[ignore = "needs root, to change it"]
fn the_program_runs_on_what_is_in_the_image() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let program = gpulet_tests::gpulet().get_program().to_str().unwrap().to_owned();
    let built = build(&program, "gpulet:0.1.0", &at("image.tar"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    unpack(&at("image.tar"), &at("layout"));

    let index = json(&at("layout/index.json"));
    let manifest = &index["manifests"][0];
    assert_eq!(manifest["annotations"]["io.containerd.image.name"], "docker.io/library/gpulet:0.1.0");
    let manifest = json(&blob(&at("layout"), manifest));
    let config = json(&blob(&at("layout"), &manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/gpulet");
    unpack(&blob(&at("layout"), &manifest["layers"][0]), &at("root"));

    let inside =
        Command::new("chroot").arg(at("root")).args(["/usr/bin/gpulet", "--version"]).output().unwrap();
    let outside = gpulet_tests::gpulet().arg("--version").output().unwrap();
    assert!(inside.status.success(), "{}", String::from_utf8_lossy(&inside.stderr));
    assert_eq!(inside.stdout, outside.stdout);

    build(&program, "gpulet:0.1.0", &at("again.tar"));
    assert!(
        std::fs::read(at("image.tar")).unwrap() == std::fs::read(at("again.tar")).unwrap(),
        "the same to the byte"
    );
}

#[test]
fn what_cannot_be_built_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("image.tar");
    for (program, name, reason) in
        [("/nowhere", "gpulet:1", "no such program"), ("/bin/true", "gpulet", "no tag")]
    {
        let output = build(program, name, &out);
        assert!(!output.status.success() && !out.exists());
        assert!(String::from_utf8_lossy(&output.stderr).contains(reason));
    }
}
