//! Where a PCI function is, and how near two are, read from sysfs.

use super::*;

/// A PCI function as sysfs shows it: root, bridges, NUMA node.
pub(super) struct Seen {
    pub(super) root: String,
    pub(super) bridges: Vec<String>,
    pub(super) numa: String,
    pub(super) cpus: String,
}

impl Seen {
    pub(super) fn at(written: &Written, device: &Path) -> Self {
        let real = fs::canonicalize(device).unwrap();
        let root = fs::canonicalize(written.path("sys/devices")).unwrap();
        let parts = real.strip_prefix(root).unwrap().components();
        let mut parts: Vec<String> = parts.map(|c| c.as_os_str().to_string_lossy().into()).collect();
        parts.pop();
        // A root may be below directories of its own.
        let first = parts.iter().rposition(|part| part.starts_with("pci")).unwrap();
        let bridges = parts.split_off(first + 1);
        let file = |name: &str| fs::read_to_string(real.join(name)).unwrap().trim().to_owned();
        Self { root: parts.join("/"), bridges, numa: file("numa_node"), cpus: file("local_cpulist") }
    }

    /// The level as `nvidia-smi topo -m` names it. A switch is an upstream and a downstream port.
    pub(super) fn level(&self, other: &Self) -> &'static str {
        if self.root != other.root {
            return if self.numa == other.numa { "NODE" } else { "SYS" };
        }
        let shared = self.bridges.iter().zip(&other.bridges).take_while(|(a, b)| a == b).count();
        match (shared, self.bridges.len().max(other.bridges.len()) - shared) {
            (0, _) => "PHB",
            (_, 0 | 1) => "PIX",
            _ => "PXB",
        }
    }
}

/// A device of the matrix.
pub(super) struct Device {
    /// `GPU0`, `NIC3`.
    pub(super) label: String,
    /// RDMA device of an adapter.
    pub(super) rdma: Option<String>,
    pub(super) seen: Seen,
}

/// GPUs in PCI order, then RDMA devices in the natural order of their names; SR-IOV functions are none of their own.
pub(super) fn devices(written: &Written) -> Vec<Device> {
    let bus = "sys/bus/pci/devices";
    let is_gpu = |at: &&String| {
        let file = |name: &str| written.read(&format!("{bus}/{at}/{name}"));
        file("vendor") == "0x10de" && file("class").starts_with("0x03")
    };
    let addresses = written.list(bus);
    let gpus = addresses.iter().filter(is_gpu).enumerate().map(|(index, at)| Device {
        label: format!("GPU{index}"),
        rdma: None,
        seen: Seen::at(written, &written.path(bus).join(at)),
    });
    let class = "sys/class/infiniband";
    let number =
        |name: &String| name.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u32>().unwrap();
    let mut names = written.list(class);
    names.retain(|name| !written.path(&format!("{class}/{name}/device/physfn")).exists());
    names.sort_by_key(|name| (number(name), name.clone()));
    let nics = names.into_iter().enumerate().map(|(index, name)| Device {
        label: format!("NIC{index}"),
        seen: Seen::at(written, &written.path(class).join(&name).join("device")),
        rdma: Some(name),
    });
    gpus.chain(nics).collect()
}
