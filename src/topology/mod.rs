//! What a node's PCIe tree means: how near devices are to each other, and what their links carry.
//! The same from what nvidia-smi printed, where the tree is not at hand.

mod affinity;
mod limit;
mod path;
mod smi;
mod sockets;
pub mod words;

pub use affinity::{Affinity, Endpoint, Nearest, affinity};
pub use limit::{
    LinkOnPath, PayloadSize, PcieLimit, capable_rate, links_on_path, payload_capable, pcie_limit,
    rates_with,
};
pub use path::{PathClass, path_class};
pub use smi::{MAX_TEXT, TopoDevice, TopoError, TopoLink, TopoMatrix, TopoNote, read};
pub use sockets::Sockets;
