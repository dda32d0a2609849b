//! RDMA devices: their list, opening one, its limits, ports and GIDs.

use std::ffi::CStr;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as ffi;

use crate::model::{Gid, LinkLayer, PortState};

use super::error::{Failure, VerbsError, call_error};
use super::explain::{Operation, Situation, memlock_limit};
use super::sys::Library;

/// Path MTU: payload bytes per packet (`enum ibv_mtu`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathMtu {
    /// 256 bytes.
    Mtu256 = 1,
    /// 512 bytes.
    Mtu512 = 2,
    /// 1024 bytes.
    Mtu1024 = 3,
    /// 2048 bytes.
    Mtu2048 = 4,
    /// 4096 bytes.
    Mtu4096 = 5,
}

impl PathMtu {
    const ALL: [Self; 5] = [
        Self::Mtu256,
        Self::Mtu512,
        Self::Mtu1024,
        Self::Mtu2048,
        Self::Mtu4096,
    ];

    /// Its size in bytes.
    pub fn bytes(self) -> u32 {
        128 << (self as u32)
    }

    /// The MTU of exactly `bytes` bytes, if there is one.
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }

    /// From the number in `ibv_port_attr`.
    fn from_verbs(number: ffi::ibv_mtu) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mtu| *mtu as ffi::ibv_mtu == number)
    }
}

/// A port as the verbs see it. Its rate is not here: `query_port` does not know the newest speeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Port number, from 1.
    pub number: u8,
    /// Its state.
    pub state: PortState,
    /// The MTU in force on the link, in RDMA payload bytes.
    pub active_mtu: PathMtu,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// What it speaks.
    pub link_layer: LinkLayer,
    /// Longest message in bytes.
    pub max_message_bytes: u32,
}

/// What a device can do at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Work requests outstanding on one queue of a queue pair.
    pub work_requests: u32,
    /// Entries of one completion queue.
    pub completion_entries: u32,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Bytes of one memory region.
    pub region_bytes: u64,
    /// RDMA reads of a queue pair that are answered, and may be in flight, at a time.
    pub reads: u8,
}

/// The lesser of what a queue pair answers and what it has in flight; every device does one.
fn reads(answered: i32, in_flight: i32) -> u8 {
    u8::try_from(answered.min(in_flight).clamp(1, 255)).unwrap_or(1)
}

/// An open device, shared by everything made on it.
pub(super) struct Context {
    pub(super) library: &'static Library,
    pub(super) raw: NonNull<ffi::ibv_context>,
    pub(super) name: String,
}

// SAFETY: libibverbs is thread-safe (ibverbs(7), rdma-core Documentation/libibverbs.md: "all
// calls are thread-safe"), and the struct itself holds no interior state of ours.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by `open_device`, closed once; whatever was made on it holds an Arc of
        // it and is gone.
        unsafe { (self.library.close_device)(self.raw.as_ptr()) };
    }
}

impl Context {
    /// The situation of this device for explanations.
    pub(super) fn situation(&self) -> Situation {
        Situation {
            device: self.name.clone(),
            memlock: memlock_limit(),
            ..Situation::default()
        }
    }

    /// Explains an error met on this device.
    pub(super) fn failure(&self, source: io::Error, operation: Operation) -> Failure {
        Failure::new(source, operation, &self.situation())
    }
}

/// The kernel's list of devices, freed on drop.
struct DeviceList {
    library: &'static Library,
    first: NonNull<*mut ffi::ibv_device>,
    count: usize,
}

impl DeviceList {
    fn new(library: &'static Library) -> Result<Self, VerbsError> {
        let mut count = 0;
        // SAFETY: `count` is a valid place for the number of devices.
        let list = unsafe { (library.get_device_list)(&mut count) };
        let Some(first) = NonNull::new(list) else {
            return Err(list_error(io::Error::last_os_error()));
        };
        Ok(Self {
            library,
            first,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    fn devices(&self) -> &[*mut ffi::ibv_device] {
        // SAFETY: libibverbs returned an array of `count` pointers, valid until it is freed.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }

    fn name(&self, device: *mut ffi::ibv_device) -> String {
        // SAFETY: `device` is an entry of this list; its name is a NUL-terminated array in it.
        let name = unsafe { CStr::from_ptr((self.library.get_device_name)(device)) };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the list came from `get_device_list` and is freed once. Devices opened from it
        // stay valid (ibv_free_device_list(3)).
        unsafe { (self.library.free_device_list)(self.first.as_ptr()) };
    }
}

/// The list is NULL: without kernel support with ENOSYS, else for another reason.
fn list_error(source: io::Error) -> VerbsError {
    if source.raw_os_error() == Some(nix::libc::ENOSYS) {
        return VerbsError::NoKernelSupport { source };
    }
    let situation = Situation {
        device: "the kernel".into(),
        ..Situation::default()
    };
    VerbsError::ListDevices(Failure::new(source, Operation::ListDevices, &situation))
}

/// The names of the RDMA devices that libibverbs can drive on this node.
///
/// # Errors
/// The library is missing or too old, or the kernel has no RDMA support.
pub fn device_names() -> Result<Vec<String>, VerbsError> {
    let list = DeviceList::new(Library::get()?)?;
    Ok(list.devices().iter().map(|d| list.name(*d)).collect())
}

/// An open RDMA device. Clones share it; it is closed with the last of what was made on it.
#[derive(Clone)]
pub struct Device {
    pub(super) context: Arc<Context>,
}

impl Device {
    /// Opens the device called `name`, such as `mlx5_0` or `rxe0`.
    ///
    /// # Errors
    /// The library or the device is missing, or this user may not open it.
    pub fn open(name: &str) -> Result<Self, VerbsError> {
        let library = Library::get()?;
        let list = DeviceList::new(library)?;
        let Some(device) = list.devices().iter().find(|d| list.name(**d) == name) else {
            let present = list.devices().iter().map(|d| list.name(*d)).collect();
            return Err(VerbsError::DeviceNotFound {
                name: name.to_owned(),
                present,
            });
        };
        // SAFETY: `device` is an entry of the list, which is still alive.
        let raw = unsafe { (library.open_device)(*device) };
        let Some(raw) = NonNull::new(raw) else {
            let source = io::Error::last_os_error();
            let situation = Situation {
                device: name.to_owned(),
                ..Situation::default()
            };
            let failure = Failure::new(source, Operation::OpenDevice, &situation);
            return Err(VerbsError::OpenDevice {
                device: name.to_owned(),
                failure,
            });
        };
        Ok(Self {
            context: Arc::new(Context {
                library,
                raw,
                name: name.to_owned(),
            }),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.context.name
    }

    /// Whether it speaks iWARP, whose queue pairs only the RDMA connection manager can connect.
    pub fn is_iwarp(&self) -> bool {
        // SAFETY: the context is open, and libibverbs keeps its device as long (ibv_open_device(3)).
        let transport = unsafe { (*self.context.raw.as_ref().device).transport_type };
        transport == ffi::IBV_TRANSPORT_IWARP
    }

    /// What it can do at most.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn limits(&self) -> Result<DeviceLimits, VerbsError> {
        let mut attributes = ffi::ibv_device_attr::default();
        // SAFETY: the context is open; `attributes` is a valid place for the answer.
        let returned = unsafe {
            (self.context.library.query_device)(self.context.raw.as_ptr(), &mut attributes)
        };
        if returned != 0 {
            return Err(VerbsError::QueryDevice {
                device: self.context.name.clone(),
                failure: self.context.failure(call_error(returned), Operation::Query),
            });
        }
        let unsigned = |n: i32| u32::try_from(n).unwrap_or(0);
        Ok(DeviceLimits {
            work_requests: unsigned(attributes.max_qp_wr),
            completion_entries: unsigned(attributes.max_cqe),
            queue_pairs: unsigned(attributes.max_qp),
            region_bytes: attributes.max_mr_size,
            reads: reads(attributes.max_qp_rd_atom, attributes.max_qp_init_rd_atom),
        })
    }

    /// The port with this number, from 1.
    ///
    /// # Errors
    /// There is no such port, or what it answers is outside the specification.
    pub fn port(&self, number: u8) -> Result<Port, VerbsError> {
        let mut attributes = ffi::ibv_port_attr::default();
        // SAFETY: the context is open. The symbol's argument type is the older, shorter struct
        // whose fields are the first ones of `ibv_port_attr`, so the place is large enough.
        let returned = unsafe {
            (self.context.library.query_port)(
                self.context.raw.as_ptr(),
                number,
                (&raw mut attributes).cast(),
            )
        };
        let port = if returned == 0 {
            decode_port(number, &attributes)
        } else {
            None
        };
        port.ok_or_else(|| VerbsError::QueryPort {
            device: self.context.name.clone(),
            port: number,
            failure: self.context.failure(
                // Answered, but with numbers that mean nothing: EINVAL like the kernel's own check.
                call_error(if returned == 0 {
                    nix::libc::EINVAL
                } else {
                    returned
                }),
                Operation::Query,
            ),
        })
    }

    /// The port with this number, if it carries traffic.
    ///
    /// # Errors
    /// As [`Device::port`], and [`VerbsError::PortNotActive`].
    pub fn active_port(&self, number: u8) -> Result<Port, VerbsError> {
        let port = self.port(number)?;
        if port.state != PortState::Active {
            return Err(VerbsError::PortNotActive {
                device: self.context.name.clone(),
                port: number,
                state: port.state,
            });
        }
        Ok(port)
    }

    /// The GID at `index` in the table of `port`.
    ///
    /// # Errors
    /// The table has no such index, or the entry is empty.
    pub fn gid(&self, port: u8, index: u8) -> Result<Gid, VerbsError> {
        let mut gid = ffi::ibv_gid::default();
        // SAFETY: the context is open; `gid` is a valid place for the answer.
        let returned = unsafe {
            (self.context.library.query_gid)(
                self.context.raw.as_ptr(),
                port,
                i32::from(index),
                &mut gid,
            )
        };
        let device = self.context.name.clone();
        if returned != 0 {
            let failure = self.context.failure(call_error(returned), Operation::Query);
            return Err(VerbsError::QueryGid {
                device,
                port,
                index,
                failure,
            });
        }
        // SAFETY: both members of the union are 16 plain bytes.
        let gid = Gid::from_bytes(unsafe { gid.raw });
        if gid.is_empty() {
            return Err(VerbsError::GidEmpty {
                device,
                port,
                index,
            });
        }
        Ok(gid)
    }
}

/// The port that the attributes describe, unless its MTU or state is not one.
fn decode_port(number: u8, attributes: &ffi::ibv_port_attr) -> Option<Port> {
    use ffi::ibv_port_state as state;
    Some(Port {
        number,
        state: match attributes.state {
            state::IBV_PORT_ACTIVE => PortState::Active,
            state::IBV_PORT_DOWN => PortState::Down,
            state::IBV_PORT_INIT => PortState::Init,
            state::IBV_PORT_ARMED => PortState::Armed,
            state::IBV_PORT_ACTIVE_DEFER => PortState::ActiveDefer,
            _ => return None,
        },
        active_mtu: PathMtu::from_verbs(attributes.active_mtu)?,
        lid: attributes.lid,
        // Unspecified is what providers older than RoCE say: InfiniBand (verbs.h).
        link_layer: match u32::from(attributes.link_layer) {
            ffi::IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            _ => LinkLayer::InfiniBand,
        },
        max_message_bytes: attributes.max_msg_sz,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtus_carry_their_sizes() {
        let sizes = PathMtu::ALL.map(PathMtu::bytes);
        assert_eq!(sizes, [256, 512, 1024, 2048, 4096]);
        assert_eq!(PathMtu::from_bytes(1024), Some(PathMtu::Mtu1024));
        assert_eq!(PathMtu::from_bytes(1500), None);
        assert_eq!(
            PathMtu::from_verbs(ffi::IBV_MTU_4096),
            Some(PathMtu::Mtu4096)
        );
        assert_eq!(PathMtu::from_verbs(0), None);
    }

    #[test]
    fn a_list_that_is_null_with_enosys_is_a_kernel_without_rdma() {
        let error = list_error(io::Error::from_raw_os_error(nix::libc::ENOSYS));
        assert!(matches!(error, VerbsError::NoKernelSupport { .. }));
        assert!(error.to_string().contains("ib_uverbs"), "{error}");
        let error = list_error(io::Error::from_raw_os_error(nix::libc::EPERM));
        assert!(matches!(error, VerbsError::ListDevices(_)), "{error}");
    }

    #[test]
    fn a_port_that_is_down_is_decoded_as_down_and_an_mtu_of_zero_is_refused() {
        let mut attributes = ffi::ibv_port_attr {
            state: ffi::ibv_port_state::IBV_PORT_DOWN,
            active_mtu: ffi::IBV_MTU_1024,
            link_layer: 2,
            ..Default::default()
        };
        let port = decode_port(1, &attributes).expect("a port");
        assert_eq!(port.state, PortState::Down);
        assert_eq!(port.link_layer, LinkLayer::Ethernet);
        attributes.active_mtu = 0;
        assert_eq!(decode_port(1, &attributes), None);
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error_and_no_panic() {
        match Device::open("no_such_device") {
            Ok(_) => panic!("opened a device that does not exist"),
            Err(
                VerbsError::DeviceNotFound { .. }
                | VerbsError::NoKernelSupport { .. }
                | VerbsError::NotInstalled { .. },
            ) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
