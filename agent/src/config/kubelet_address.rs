//! Where the kubelet answers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// The kubelet's own port (its `--port`).
const PORT: u16 = 10250;

/// An address of the kubelet, with the port on which it answers by HTTPS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KubeletAddress(SocketAddr);

/// Why a text is no address of a kubelet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no address of a kubelet; expected IP, IP:PORT or [IPv6]:PORT, such as 127.0.0.1 or 10.0.0.7:10250"
)]
pub(crate) struct ParseKubeletAddressError {
    text: String,
}

impl Default for KubeletAddress {
    /// This machine, as it is seen from its own network.
    fn default() -> Self {
        Self((Ipv4Addr::LOCALHOST, PORT).into())
    }
}

impl FromStr for KubeletAddress {
    type Err = ParseKubeletAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // An IPv6 address without a port has no brackets: as the API tells the address of a node.
        let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
        let address = ip.or_else(|_| text.parse());
        address.map(Self).map_err(|_| ParseKubeletAddressError { text: text.chars().take(64).collect() })
    }
}

impl fmt::Display for KubeletAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_may_be_left_out() {
        let read = |text: &str| text.parse::<KubeletAddress>().map(|address| address.to_string());
        assert_eq!(read("10.0.0.7").unwrap(), "10.0.0.7:10250");
        assert_eq!(read("10.0.0.7:443").unwrap(), "10.0.0.7:443");
        assert_eq!(read("fd00::7").unwrap(), "[fd00::7]:10250");
        assert_eq!(read("[fd00::7]:443").unwrap(), "[fd00::7]:443");
        assert_eq!(KubeletAddress::default().to_string(), "127.0.0.1:10250");
        for wrong in ["", ":10250", "node-a", "10.0.0.7:", "10.0.0.7:99999", "https://10.0.0.7"] {
            assert!(read(wrong).unwrap_err().to_string().contains("expected IP"), "{wrong}");
        }
    }
}
