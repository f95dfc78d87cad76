//! Descriptions of small nodes that have the GPUs that a test is about.

use std::fmt::Write;

/// A GPU of such a node.
#[derive(Debug, Clone)]
pub struct Gpu {
    board: &'static str,
    instances: Option<Vec<String>>,
}

impl Gpu {
    /// A whole one of this board.
    pub fn whole(board: &'static str) -> Self {
        Self { board, instances: None }
    }

    /// One in MIG mode without instances.
    pub fn empty(board: &'static str) -> Self {
        Self::divided(board, &[])
    }

    /// One in MIG mode with these instances: profile and first unit; each has one compute instance, the whole of it.
    pub fn divided(board: &'static str, instances: &[(&str, u32)]) -> Self {
        let text = |(profile, start): &(&str, u32)| format!("{{profile: {profile}, start: {start}}}");
        Self { board, instances: Some(instances.iter().map(text).collect()) }
    }

    /// One more instance, with compute instances of so many slices each; with none it is an orphan.
    #[must_use]
    pub fn with(mut self, profile: &str, start: u32, computes: &[u32]) -> Self {
        let text = format!("{{profile: {profile}, start: {start}, compute: {computes:?}}}");
        self.instances.get_or_insert_default().push(text);
        self
    }
}

/// A description with these GPUs, in this order, each below a root port of its own.
pub(super) fn of(gpus: &[Gpu], driver: &str) -> String {
    let mut text = format!(
        "about: GPUs to be divided\ndriver: {driver}\n\
         cpu: {{model: Test CPU, packages: 1, cores-per-package: 4, threads-per-core: 1}}\n\
         numa:\n- {{id: 0, cpus: '0-3', memory: 64GiB, distances: [10]}}\n\
         pci:\n- root: 0000:10\n  numa: 0\n  devices:\n"
    );
    for (index, gpu) in gpus.iter().enumerate() {
        let (port, bus) = (index + 1, index + 0x11);
        let mig = gpu.instances.as_ref().map_or_else(String::new, |instances| {
            format!(", mig: {{instances: [{}]}}", instances.join(", "))
        });
        let board = gpu.board;
        writeln!(
            text,
            "  - bridge: {{at: 10:{port:02x}.0, devices: [gpu: {{at: {bus:02x}:00.0, board: {board}{mig}}}]}}"
        )
        .unwrap();
    }
    text
}
