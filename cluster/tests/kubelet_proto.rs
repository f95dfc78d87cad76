//! The code that speaks with the kubelet is kept, not made at every build; it must be what its description makes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;

#[test]
fn the_kept_code_is_what_the_description_makes() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (proto, made) = (home.join("proto"), tempfile::tempdir().unwrap());
    let described = protox::compile([proto.join("podresources.proto")], [&proto]).unwrap();
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .out_dir(made.path())
        .compile_fds(described)
        .unwrap();
    let made = std::fs::read_to_string(made.path().join("v1.rs")).unwrap();
    let kept = home.join("src/kubelet/pod_resources/v1.rs");
    if std::env::var_os("GPULET_BLESS").is_some() {
        std::fs::write(&kept, &made).unwrap();
    }
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(
        kept == made,
        "podresources.proto makes other code than is kept; make it anew: \
         GPULET_BLESS=1 cargo test -p gpulet-cluster --test kubelet_proto"
    );
}
