//! The code that speaks the kubelet's protocols is kept, not made at every build; it must be what their descriptions make.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::{Path, PathBuf};

use tonic_prost_build::Builder;

fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What a description makes, with these services and no other.
fn made(folder: &Path, file: &str, services: &[&str], configure: impl FnOnce(Builder) -> Builder) -> String {
    let mut described = protox::compile([folder.join(file)], [folder]).unwrap();
    for file in &mut described.file {
        let all = file.service.len();
        file.service.retain(|service| services.contains(&service.name()));
        if file.service.len() < all {
            // Comments are found by the services' places, which have changed.
            file.source_code_info = None;
        }
    }
    let made = tempfile::tempdir().unwrap();
    let package = format!("{}.rs", described.file[0].package());
    let builder = tonic_prost_build::configure().build_client(false).build_transport(false);
    configure(builder).out_dir(made.path()).compile_fds(described).unwrap();
    std::fs::read_to_string(made.path().join(package)).unwrap()
}

fn is_kept(made: &str, kept: &str) {
    let path = home().join(kept);
    if std::env::var_os("GPULET_BLESS").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == made,
        "{kept} is not what its description makes; make it anew: \
         GPULET_BLESS=1 cargo test -p gpulet-simulator --test kubelet_proto"
    );
}

#[test]
fn the_kept_code_of_pod_resources_is_what_its_description_makes() {
    let folder = home().join("../cluster/proto");
    let made = made(&folder, "podresources.proto", &["PodResourcesLister"], |builder| builder);
    is_kept(&made, "src/kubelet/pod_resources/v1.rs");
}

/// In two files, since no file is to be longer than one likes to read.
#[test]
fn the_kept_code_of_device_plugins_is_what_its_description_makes() {
    let folder = home().join("proto");
    let messages = made(&folder, "deviceplugin.proto", &["Registration"], |builder| builder);
    is_kept(&messages, "src/device_plugin/v1beta1/messages.rs");
    let elsewhere = "crate::device_plugin::v1beta1::messages";
    let service = made(&folder, "deviceplugin.proto", &["DevicePlugin"], |builder| {
        builder.extern_path(".v1beta1", elsewhere)
    });
    is_kept(&service, "src/device_plugin/v1beta1/service.rs");
}
