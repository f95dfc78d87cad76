//! Listening on a TCP port, and saying clearly why not.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use crate::config::address::ListenAddress;

/// A port that is listened on.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    wanted: ListenAddress,
    address: SocketAddr,
}

/// Why a port cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    /// Someone else does.
    #[error(
        "cannot listen on {address}: another program uses port {} (`ss -ltnp 'sport = :{}'` shows which); choose another with \
         --listen, GPULET_LISTEN or `web.address` in the configuration file",
        address.port,
        address.port
    )]
    InUse {
        /// What was wanted.
        address: ListenAddress,
    },
    /// Only root may.
    #[error(
        "cannot listen on {address}: ports below 1024 are for root; choose another with --listen, GPULET_LISTEN or `web.address`"
    )]
    NotPermitted {
        /// What was wanted.
        address: ListenAddress,
    },
    /// The machine does not have the address.
    #[error(
        "cannot listen on {address}: no interface of this machine has that address (`ip address` shows them)"
    )]
    NotHere {
        /// What was wanted.
        address: ListenAddress,
    },
    /// Something else.
    #[error("cannot listen on {address}")]
    Failed {
        /// What was wanted.
        address: ListenAddress,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl ListenError {
    /// The stable word for this error.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "AddressInUse",
            Self::NotPermitted { .. } => "NoPermission",
            Self::NotHere { .. } => "AddressNotAvailable",
            Self::Failed { .. } => "ListenFailed",
        }
    }

    fn new(address: ListenAddress, source: io::Error) -> Self {
        match source.kind() {
            ErrorKind::AddrInUse => Self::InUse { address },
            ErrorKind::PermissionDenied => Self::NotPermitted { address },
            ErrorKind::AddrNotAvailable => Self::NotHere { address },
            _ => Self::Failed { address, source },
        }
    }
}

impl Listener {
    /// Listens on `wanted`.
    pub(crate) fn bind(wanted: ListenAddress) -> Result<Self, ListenError> {
        let bound = match wanted.ip {
            Some(ip) => bind(ip, wanted.port),
            // One IPv6 socket takes IPv4 too. Machines without IPv6 refuse it with one of several errors.
            None => match bind(Ipv6Addr::UNSPECIFIED.into(), wanted.port) {
                Err(error) if error.kind() != ErrorKind::AddrInUse => {
                    bind(Ipv4Addr::UNSPECIFIED.into(), wanted.port)
                }
                other => other,
            },
        };
        let (socket, address) = bound.map_err(|source| ListenError::new(wanted, source))?;
        Ok(Self { socket, wanted, address })
    }

    /// What was asked for.
    pub(crate) fn wanted(&self) -> ListenAddress {
        self.wanted
    }

    /// What it came to: the port that the kernel chose, for one.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Another handle of the socket.
    pub(crate) fn socket(&self) -> io::Result<TcpListener> {
        self.socket.try_clone()
    }
}

fn bind(ip: IpAddr, port: u16) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = TcpListener::bind(SocketAddr::new(ip, port))?;
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named_with_the_ways_out() {
        let first = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_ne!(first.address().port(), 0);
        let again = ListenAddress { ip: Some(first.address().ip()), port: first.address().port() };
        let error = Listener::bind(again).unwrap_err();
        assert_eq!(error.reason(), "AddressInUse");
        let text = error.to_string();
        let port = first.address().port().to_string();
        assert!(text.contains(&port) && text.contains("--listen") && text.contains("web.address"), "{text}");
    }

    #[test]
    fn all_addresses_take_ipv4_too() {
        let listener = Listener::bind(":0".parse().unwrap()).unwrap();
        let port = listener.address().port();
        std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    }

    #[test]
    fn an_address_of_another_machine_is_told() {
        // Kept for documentation (RFC 5737): no machine has it.
        let error = Listener::bind("192.0.2.1:0".parse().unwrap()).unwrap_err();
        assert_eq!(error.reason(), "AddressNotAvailable");
    }
}
