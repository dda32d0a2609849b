//! What a node's PCIe tree means: how near devices are to each other, and what their links carry.

mod affinity;
mod limit;
mod path;
mod sockets;

pub use affinity::{Affinity, Endpoint, Nearest, affinity};
pub use limit::{
    LinkOnPath, PayloadSize, PcieLimit, links_on_path, payload_capable, pcie_limit, rates_with,
};
pub use path::{PathClass, path_class};
pub use sockets::Sockets;
