//! What only libibverbs knows of a node, as facts for the survey.

use std::ffi::{CStr, c_void};

use nix::libc;

use crate::model::Fact;

use super::device::Device;
use super::sys::Library;

/// The path MTU in bytes that `port` (from 1) of `device` runs at.
pub fn active_mtu(device: &str, port: u8) -> Fact<u32> {
    match Device::open(device).and_then(|device| device.port(port)) {
        Ok(port) => Fact::known(port.active_mtu.bytes(), "ibv_query_port"),
        Err(error) => Fact::unknown(error.to_string()),
    }
}

/// The file that libibverbs was loaded from, or why it could not be.
pub fn library() -> Fact<String> {
    let library = match Library::get() {
        Ok(library) => library,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let symbol = library.get_device_list as *const c_void;
    // SAFETY: any address may be asked about; `found` is a valid place for the answer.
    let known = unsafe { libc::dladdr(symbol, found.as_mut_ptr()) } != 0;
    // SAFETY: all-zero bytes are a valid `Dl_info`, and so is what dladdr wrote.
    let name = unsafe { found.assume_init() }.dli_fname;
    if !known || name.is_null() {
        return Fact::unknown("libibverbs is loaded, but the loader does not say from which file");
    }
    // SAFETY: dladdr's file name ends in NUL and lives as long as the library, which is never
    // unloaded.
    let name = unsafe { CStr::from_ptr(name) };
    Fact::known(name.to_string_lossy().into_owned(), "dladdr")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_file_is_there_or_the_reason_is_said() {
        match library() {
            Fact::Known { value, .. } => {
                assert!(value.contains("libibverbs.so.1"), "{value}");
                assert!(std::path::Path::new(&value).exists(), "{value}");
            }
            Fact::Unknown { why } => assert!(why.contains("libibverbs.so.1"), "{why}"),
        }
    }

    #[test]
    fn the_mtu_of_no_device_is_unknown_with_the_reason() {
        let fact = active_mtu("no_such_device", 1);
        let why = fact.why_unknown().expect("unknown");
        assert!(
            why.contains("no_such_device")
                || why.contains("RDMA support")
                || why.contains("libibverbs.so.1"),
            "{why}"
        );
    }
}
