//! Network interfaces and RDMA devices of the NICs (source: `net` and `infiniband` in the PCI function's directory).

use gpulet_inventory::host::{Nic, PciKind, Rdma, RdmaPort};

use super::pci::Function;
use crate::reader::Directory;
use crate::text::{Unexpected, number, thousandths};

/// The most interfaces of a NIC that are read. Those of its virtual functions stand beside its own.
const MAX_INTERFACES: usize = 1024;

/// The most ports of an RDMA device that are read. It too has one for each virtual function.
const MAX_PORTS: usize = 1024;

/// The longest names that the kernel gives, without the zero at their end (`IFNAMSIZ`, `IB_DEVICE_NAME_MAX`).
const INTERFACE_NAME_BYTES: usize = 15;
const RDMA_NAME_BYTES: usize = 63;

/// The NICs among `functions`, in their order.
pub(super) fn read(functions: &[Function<'_>]) -> Vec<Nic> {
    let nics = functions.iter().filter(|function| function.device.kind == PciKind::Nic);
    nics.map(|function| Nic {
        pci: function.device.address,
        interfaces: interfaces(function),
        rdma: rdma(&function.directory),
    })
    .collect()
}

fn interfaces(function: &Function<'_>) -> Vec<String> {
    let names = |directory: &Directory<'_>| {
        let net = directory.below("net")?;
        let names = net.names_up_to(MAX_INTERFACES);
        Some(names.iter().map(|name| net.shown(name, INTERFACE_NAME_BYTES)).collect())
    };
    // A virtual machine's interface belongs to the virtio device on the PCI function.
    let virtio = || match function.device.driver.as_deref() {
        Some("virtio-pci") => {
            let children = function.directory.names();
            let mut children = children.iter().filter(|name| name.starts_with("virtio"));
            children.find_map(|name| names(&function.directory.below(name)?))
        }
        _ => None,
    };
    names(&function.directory).or_else(virtio).unwrap_or_default()
}

fn rdma(function: &Directory<'_>) -> Option<Rdma> {
    let devices = function.below("infiniband")?;
    let mut names = devices.names().into_iter();
    let name = names.next()?;
    let device = devices.below(&name)?;
    let name = devices.shown(&name, RDMA_NAME_BYTES);
    if let Some(second) = names.next() {
        devices.odd(&second, format!("a second RDMA device beside {name}"));
    }
    Some(Rdma { node_guid: device.read("node_guid", word), ports: ports(&device), name })
}

fn ports(device: &Directory<'_>) -> Vec<RdmaPort> {
    let Some(directory) = device.below("ports") else { return Vec::new() };
    let port = |name: String| {
        let parsed = number(&name).map(u32::try_from);
        let Ok(Ok(number)) = parsed else {
            directory.odd(&name, Unexpected::new(&name, "the number of a port"));
            return None;
        };
        let port = directory.below(&name)?;
        Some(RdmaPort {
            number,
            state: port.read("state", state),
            rate_mbps: port.read("rate", rate),
            link_layer: port.read("link_layer", word),
        })
    };
    let mut ports: Vec<_> = directory.names_up_to(MAX_PORTS).into_iter().filter_map(port).collect();
    ports.sort_by_key(|port| port.number);
    ports
}

/// One word of at most 64 visible characters.
fn word(text: &str) -> Result<String, Unexpected> {
    let fits = (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| text.to_owned()).ok_or_else(|| Unexpected::new(text, "one word"))
}

/// The word in `4: ACTIVE`.
fn state(text: &str) -> Result<String, Unexpected> {
    let expected = || Unexpected::new(text, "a state such as 4: ACTIVE");
    let (_, state) = text.split_once(": ").ok_or_else(expected)?;
    word(state).map_err(|_| expected())
}

/// Megabits per second of `400 Gb/sec (4X NDR)`.
fn rate(text: &str) -> Result<u64, Unexpected> {
    thousandths(text, "Gb/sec").ok_or_else(|| Unexpected::new(text, "a rate such as 400 Gb/sec (4X NDR)"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn states_and_rates() {
        assert_eq!(state("4: ACTIVE").unwrap(), "ACTIVE");
        assert_eq!(state("1: DOWN").unwrap(), "DOWN");
        assert!(["ACTIVE", "4:", "4: ", "4: TWO WORDS"].iter().all(|text| state(text).is_err()));
        assert_eq!(rate("400 Gb/sec (4X NDR)"), Ok(400_000));
        assert_eq!(rate("2.5 Gb/sec (1X SDR)"), Ok(2_500));
        assert!(["", "400", "400 GT/s"].iter().all(|text| rate(text).is_err()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9]{0,3}:? ?.{0,70}") {
            let _ = (state(&text), rate(&text), word(&text));
        }
    }
}
