//! What an RDMA device and its ports say of themselves: who made it, which driver, which subnet.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Fact;

/// Who an RDMA device is, apart from its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The maker's name of the chip, such as `MT4129` (hca_type).
    pub hca_type: Fact<String>,
    /// The maker's name of the board with its settings, such as `MT_0000000838` (board_id, the PSID).
    pub board_id: Fact<String>,
    /// What it is to verbs (node_type).
    pub node_type: Fact<NodeType>,
    /// What its operator or driver calls it (node_desc).
    pub node_desc: Fact<String>,
    /// Its own GUID (node_guid).
    pub node_guid: Fact<Guid>,
    /// The GUID that all functions of one card share (sys_image_guid).
    pub card: Fact<Guid>,
    /// Version of the driver's module, which the kernel's own drivers seldom state.
    pub driver_version: Fact<String>,
    /// Where the driver is from.
    pub driver_origin: Fact<DriverOrigin>,
}

/// What a device is to verbs (drivers/infiniband/core/sysfs.c, node_type_show).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeType {
    /// A channel adapter: InfiniBand or RoCE.
    ChannelAdapter,
    /// iWARP: RDMA over TCP.
    Rnic,
    /// Cisco's, over Ethernet or UDP.
    UsNic,
    /// A protocol of the maker's own, such as EFA's.
    Unspecified,
    /// A switch or router.
    Other,
}

/// Where a kernel module is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverOrigin {
    /// It came with the kernel.
    Kernel,
    /// It was built outside the kernel's tree.
    OutOfTree,
    /// Built outside the kernel's tree, with NVIDIA's compatibility module beside it: MLNX_OFED or DOCA.
    Ofed,
}

impl fmt::Display for DriverOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kernel => "of the kernel",
            Self::OutOfTree => "out of tree",
            Self::Ofed => "of MLNX_OFED or DOCA",
        })
    }
}

/// A 64-bit globally unique identifier of InfiniBand, as an EUI-64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Guid(u64);

impl FromStr for Guid {
    type Err = &'static str;

    /// `1070:fd03:00e5:b1e2`; all zero is none.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "not a GUID such as `1070:fd03:00e5:b1e2`";
        let groups: Vec<_> = text.split(':').collect();
        let is_group =
            |group: &&str| group.len() == 4 && group.bytes().all(|byte| byte.is_ascii_hexdigit());
        if groups.len() != 4 || !groups.iter().all(is_group) {
            return Err(EXPECTED);
        }
        match u64::from_str_radix(&groups.concat(), 16).map_err(|_| EXPECTED)? {
            0 => Err("the driver states none"),
            guid => Ok(Self(guid)),
        }
    }
}

impl TryFrom<String> for Guid {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Guid> for String {
    fn from(guid: Guid) -> Self {
        guid.to_string()
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| self.0 >> shift & 0xffff);
        f.pad(&format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}"))
    }
}

/// The lanes that a port's link runs on, as beside its rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    /// How many.
    pub count: u8,
    /// What InfiniBand calls the speed of each, such as `NDR`; the kernel leaves some out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<String>,
}

impl fmt::Display for Lanes {
    /// `4X NDR`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.speed {
            Some(speed) => f.pad(&format!("{}X {speed}", self.count)),
            None => f.pad(&format!("{}X", self.count)),
        }
    }
}

/// What the subnet manager of an InfiniBand port has set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subnet {
    /// LID of the subnet manager (sm_lid).
    pub manager_lid: Fact<u16>,
    /// How many low bits of the LID it leaves to choose a path by (lid_mask_count).
    pub lid_mask_bits: Fact<u8>,
    /// The partitions that the port is in, as keys; the highest bit is full membership (pkeys).
    pub partitions: Fact<Vec<u16>>,
}

/// How a port sends RoCE where an application does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoceDefaults {
    /// Traffic class of all queue pairs, whatever they ask for (`tc` of MLNX_OFED).
    pub traffic_class: Fact<u8>,
    /// Type of service of rdma_cm's connections (configfs, rdma_cm).
    pub tos: Fact<u8>,
    /// GID type of rdma_cm's connections (configfs, rdma_cm), such as `RoCE v2`.
    pub gid_type: Fact<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_sixteen_digits_and_not_none() {
        let text = "1070:fd03:00e5:b1e2";
        let guid: Guid = text.parse().unwrap();
        assert_eq!(guid.to_string(), text);
        let json = serde_json::to_string(&guid).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Guid>(&json).unwrap(), guid);
        for torn in [
            "",
            "1070:fd03:00e5",
            "1070:fd03:00e5:b1e",
            "1070:fd03:00e5:+b1e",
            "0000:0000:0000:0000",
            "1070:fd03:00e5:b1e2:",
        ] {
            assert!(torn.parse::<Guid>().is_err(), "{torn}");
        }
    }
}
