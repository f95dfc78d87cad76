//! NVLinks.

use gpulet_inventory::link::{NvLink, RemoteKind};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::{Cause, Reading};

use super::Asked;
use super::fields::{self, Batch};
use super::identity::pci_address;
use super::slow::enabled;
use crate::constants::NVLINK_MAX_LINKS;
use crate::plausible::number;
use crate::raw::symbol;

/// Reads the links, and keeps what stays while a link's state does.
pub(crate) struct LinksReader {
    links: Vec<Known>,
    counters: Batch,
}

/// One link.
struct Known {
    active: bool,
    version: Reading<u32>,
    remote_kind: Reading<RemoteKind>,
    remote_pci: Reading<PciAddress>,
    transmitted: usize,
    received: usize,
}

impl LinksReader {
    /// Nothing known yet.
    pub(crate) fn new() -> Self {
        Self { links: Vec::new(), counters: Batch::new() }
    }

    /// Reads all links. The first that the driver does not know ends them; a GPU without any is unsupported.
    pub(crate) fn read(&mut self, asked: &mut Asked<'_>) -> Reading<Vec<NvLink>> {
        let mut active = Vec::with_capacity(self.links.len());
        for link in 0..NVLINK_MAX_LINKS {
            match asked.get_at(&symbol::NVLINK_STATE, symbol::NVLINK_STATE.name, link, enabled) {
                Reading::Supported(state) => active.push(state),
                Reading::Unsupported(answer) if link == 0 => return Reading::Unsupported(answer),
                Reading::Unsupported(_) => break,
                Reading::Failed(answer) => return Reading::Failed(answer),
            }
        }
        for (link, active) in (0..NVLINK_MAX_LINKS).zip(active.iter().copied()) {
            self.learn(asked, link, active);
        }
        self.counters.read(asked);
        let links = (0..NVLINK_MAX_LINKS).zip(self.links.iter().take(active.len()));
        Reading::Supported(links.map(|(link, known)| self.link(link, known)).collect())
    }

    /// Asks what stays while a link is up (or down), unless that is known.
    fn learn(&mut self, asked: &mut Asked<'_>, link: u32, active: bool) {
        let at = link as usize;
        if let Some(known) = self.links.get(at) {
            if known.active == active && known.is_complete() {
                return;
            }
            // What it refused while it was down it may answer now.
            asked.capabilities.forget(link, concerns_link);
        }
        let place = self.links.get(at).map(|known| (known.transmitted, known.received));
        let (transmitted, received) = place.unwrap_or_else(|| {
            let add = |counters: &mut Batch, field| counters.add(field, link);
            (
                add(&mut self.counters, fields::NVLINK_TRANSMITTED),
                add(&mut self.counters, fields::NVLINK_RECEIVED),
            )
        });
        let known = Known {
            active,
            version: asked.get_at(&symbol::NVLINK_VERSION, symbol::NVLINK_VERSION.name, link, number),
            remote_kind: asked.get_at(
                &symbol::NVLINK_REMOTE_TYPE,
                symbol::NVLINK_REMOTE_TYPE.name,
                link,
                kind,
            ),
            remote_pci: asked.get_at(
                &symbol::NVLINK_REMOTE_PCI,
                symbol::NVLINK_REMOTE_PCI.name,
                link,
                |info| pci_address(&info),
            ),
            transmitted,
            received,
        };
        match self.links.get_mut(at) {
            Some(place) => *place = known,
            None => self.links.push(known),
        }
    }

    fn link(&self, link: u32, known: &Known) -> NvLink {
        NvLink {
            link,
            active: known.active,
            version: known.version.clone(),
            remote_kind: known.remote_kind.clone(),
            remote_pci: known.remote_pci.clone(),
            transmitted_bytes: bytes(self.counters.value(known.transmitted), fields::NVLINK_TRANSMITTED.name),
            received_bytes: bytes(self.counters.value(known.received), fields::NVLINK_RECEIVED.name),
        }
    }
}

impl Known {
    /// Whether nothing of it failed. What the switch at the other end is becomes known when it has come up.
    fn is_complete(&self) -> bool {
        let unknown = matches!(self.remote_kind, Reading::Supported(RemoteKind::Unknown));
        let failed = matches!(self.version, Reading::Failed(_))
            || matches!(self.remote_kind, Reading::Failed(_))
            || matches!(self.remote_pci, Reading::Failed(_));
        let unsettled = failed || (unknown && self.active);
        !unsettled
    }
}

fn concerns_link(call: &'static str) -> bool {
    [
        symbol::NVLINK_VERSION.name,
        symbol::NVLINK_REMOTE_TYPE.name,
        symbol::NVLINK_REMOTE_PCI.name,
        fields::NVLINK_TRANSMITTED.name,
        fields::NVLINK_RECEIVED.name,
    ]
    .contains(&call)
}

/// `nvmlIntNvLinkDeviceType_t`
fn kind(code: u32) -> Result<RemoteKind, Cause> {
    Ok(match code {
        0 => RemoteKind::Gpu,
        1 => RemoteKind::Npu,
        2 => RemoteKind::Switch,
        _ => RemoteKind::Unknown,
    })
}

/// The driver counts KiB.
fn bytes(kib: Reading<u64>, name: &'static str) -> Reading<u64> {
    fields::checked(kib, name, |kib| kib.checked_mul(1024).ok_or(Cause::Implausible))
}

#[cfg(test)]
mod tests {
    use gpulet_inventory::reading::Answer;

    use super::*;
    use crate::code;

    #[test]
    fn counters_are_bytes() {
        assert_eq!(bytes(Reading::Supported(3), "x"), Reading::Supported(3072));
        let answer = Answer { call: "x", cause: Cause::Implausible };
        assert_eq!(bytes(Reading::Supported(u64::MAX / 2), "x"), Reading::Failed(answer));
        let refused = Answer { call: "x", cause: Cause::Code(code::NOT_SUPPORTED) };
        assert_eq!(bytes(Reading::Unsupported(refused), "x"), Reading::Unsupported(refused));
    }

    #[test]
    fn kinds_are_those_of_the_header() {
        let kinds = [0, 1, 2, 255].map(|code| kind(code).unwrap());
        assert_eq!(kinds, [RemoteKind::Gpu, RemoteKind::Npu, RemoteKind::Switch, RemoteKind::Unknown]);
    }
}
