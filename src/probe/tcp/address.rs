//! The addresses of both ends: the NIC's own, and the peer's, which is checked before it is used.

use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener};
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, Socket, Type};

use crate::model::{Endpoint, Fact, PortPlace};
use crate::probe::error::ProbeError;

/// Connections that may wait beside those that are wanted.
const BACKLOG: usize = 16;

/// This end's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Local {
    pub ip: IpAddr,
    /// The number of the interface; 0 where it is not known.
    scope: u32,
    interface: Option<String>,
}

impl Local {
    /// The NIC's address; a probe over another would not be one of the NIC.
    pub fn of(place: &PortPlace) -> Result<Self, ProbeError> {
        let ip = match &place.address {
            Fact::Known { value, .. } => *value,
            Fact::Unknown { why } => {
                let why = format!("the NIC has no address for TCP: {why}");
                return Err(ProbeError::Spec { why });
            }
        };
        let interface = place.interface.value().cloned();
        let number = |name: &String| if_nametoindex(name.as_str()).ok();
        let scope = interface.as_ref().and_then(number).unwrap_or(0);
        Ok(Self {
            ip,
            scope,
            interface,
        })
    }

    fn at(&self, ip: IpAddr, port: u16) -> SocketAddr {
        match ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, port, 0, self.scope).into()
            }
            ip => SocketAddr::new(ip, port),
        }
    }

    /// A socket bound to the address, on a port of the kernel's choice.
    ///
    /// It is bound to the interface, too: where two NICs are in one subnet, the kernel would send by
    /// the first. Before Linux 5.7 only root may do that; without, routes decide.
    fn socket(&self) -> Result<Socket, ProbeError> {
        let kind = Domain::for_address(self.at(self.ip, 0));
        let socket = Socket::new(kind, Type::STREAM, Some(Protocol::TCP));
        let socket = socket.map_err(ProbeError::Tcp)?;
        if let Some(interface) = &self.interface {
            match socket.bind_device(Some(interface.as_bytes())) {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
                other => other.map_err(|error| self.no_bind(&error))?,
            }
        }
        let bound = socket.bind(&self.at(self.ip, 0).into());
        bound.map_err(|error| self.no_bind(&error))?;
        Ok(socket)
    }

    fn no_bind(&self, error: &std::io::Error) -> ProbeError {
        let interface = self.interface.as_deref().unwrap_or("an unknown interface");
        let why = format!("cannot use {} on {interface} for TCP: {error}", self.ip);
        ProbeError::Spec { why }
    }

    /// Awaits so many connections.
    pub fn listen(&self, connections: usize) -> Result<TcpListener, ProbeError> {
        let socket = self.socket()?;
        let backlog = i32::try_from(connections + BACKLOG).unwrap_or(i32::MAX);
        socket.listen(backlog).map_err(ProbeError::Tcp)?;
        socket.set_nonblocking(true).map_err(ProbeError::Tcp)?;
        Ok(socket.into())
    }

    /// Connects to the peer.
    pub fn connect(&self, peer: &Peer, patience: Duration) -> Result<Socket, ProbeError> {
        let socket = self.socket()?;
        let to = self.at(peer.ip, peer.port);
        let connected = socket.connect_timeout(&to.into(), patience);
        connected.map_err(|error| ProbeError::Peer {
            why: format!("no TCP connection from {} to {to}: {error}", self.ip),
        })?;
        Ok(socket)
    }
}

/// The peer, as far as it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peer {
    ip: IpAddr,
    port: u16,
    pub token: String,
}

impl Peer {
    pub fn ip(&self) -> IpAddr {
        self.ip
    }
}

/// Checks what the peer says of itself. `listens`: whether it must have a port.
pub(super) fn checked(
    endpoint: &Endpoint,
    local: &Local,
    listens: bool,
) -> Result<Peer, ProbeError> {
    let refused = |why: String| Err(ProbeError::Peer { why });
    let Some(tcp) = &endpoint.tcp else {
        return refused("it has no TCP address".to_owned());
    };
    let ip = tcp.address;
    if ip.is_ipv4() != local.ip.is_ipv4() {
        let ours = local.ip;
        return refused(format!("{ip} and {ours} are not of one family"));
    }
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    // A loopback address would be a service of this node, not the peer.
    let stray = ip.is_loopback() && !local.ip.is_loopback();
    if ip.is_unspecified() || ip.is_multicast() || broadcast || stray {
        return refused(format!("{ip} is the address of no NIC"));
    }
    if listens && tcp.port == 0 {
        return refused("it listens on no TCP port".to_owned());
    }
    Ok(Peer {
        ip,
        port: tcp.port,
        token: tcp.token.clone(),
    })
}
