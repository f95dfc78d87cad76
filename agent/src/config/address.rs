//! Where to listen.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A port, on one address of the machine or on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    /// The address; absent: all of them, IPv6 and IPv4.
    pub(crate) ip: Option<IpAddr>,
    /// The port; 0 lets the kernel choose a free one.
    pub(crate) port: u16,
}

/// Why a text is not an address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an address to listen on; expected :PORT, IP:PORT or [IPv6]:PORT, such as :9410 or 127.0.0.1:9410"
)]
pub(crate) struct ParseListenAddressError {
    text: String,
}

impl FromStr for ListenAddress {
    type Err = ParseListenAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseListenAddressError { text: text.chars().take(64).collect() };
        if let Some(port) = text.strip_prefix(':') {
            let plain = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            let port = plain.then(|| port.parse().ok()).flatten().ok_or_else(error)?;
            return Ok(Self { ip: None, port });
        }
        let address: SocketAddr = text.parse().map_err(|_| error())?;
        Ok(Self { ip: Some(address.ip()), port: address.port() })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(ip) => SocketAddr::new(ip, self.port).fmt(f),
            None => write!(f, ":{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_print_alike() {
        for text in [":9410", "127.0.0.1:0", "[::1]:9410", "0.0.0.0:1"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", ":", "9410", ":+1", ":65536", "localhost:9410", "::1:9410", "127.0.0.1"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
