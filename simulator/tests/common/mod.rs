//! A node and the real wrapper on it.

use gpulet_simulator::{ClockMode, SimulatedNode};
use nvml_wrapper::Nvml;
use tempfile::TempDir;

/// A node in a directory of its own, which goes when it is dropped.
pub(crate) struct TestNode {
    pub(crate) node: SimulatedNode,
    _dir: TempDir,
}

impl TestNode {
    pub(crate) fn start(name: &str) -> Self {
        let dir = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
        let node = SimulatedNode::start(name, dir.path(), ClockMode::Stepped).unwrap();
        Self { node, _dir: dir }
    }

    /// Opens the node's driver as any program would.
    pub(crate) fn nvml(&self) -> Nvml {
        self.try_nvml().unwrap()
    }

    pub(crate) fn try_nvml(&self) -> Result<Nvml, nvml_wrapper::error::NvmlError> {
        Nvml::builder().lib_path(self.node.library().as_os_str()).init()
    }
}
