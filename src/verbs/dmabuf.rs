//! Whether a device registers the memory of other devices by dma-buf, without any such memory.

use std::io;

use nix::libc;

use crate::model::Fact;

use super::device::Device;
use super::memory::ProtectionDomain;
use super::sys::Library;

/// The call that tells, as the source of the fact.
const CALL: &str = "ibv_reg_dmabuf_mr with no file descriptor";

/// Whether `device` and its kernel driver take a dma-buf.
///
/// Asks for the registration of file descriptor -1, which never succeeds: what does not know
/// dma-buf says so before it looks at the descriptor, all others say that it is a bad one.
pub fn takes_dmabuf(device: &str) -> Fact<bool> {
    match Library::get() {
        Ok(library) if library.reg_dmabuf_mr.is_none() => {
            Fact::unknown("libibverbs.so.1 has no ibv_reg_dmabuf_mr: it is older than rdma-core 34")
        }
        Ok(_) => match Device::open(device).and_then(|device| ProtectionDomain::new(&device)) {
            Ok(domain) => answer(&domain),
            Err(error) => Fact::unknown(error.to_string()),
        },
        Err(error) => Fact::unknown(error.to_string()),
    }
}

fn answer(domain: &ProtectionDomain) -> Fact<bool> {
    let library = domain.handle.context.library;
    let Some(register) = library.reg_dmabuf_mr else {
        return Fact::unknown("libibverbs.so.1 has no ibv_reg_dmabuf_mr");
    };
    /// A length of nothing is refused before the descriptor is looked at.
    const LENGTH: usize = 4096;
    // SAFETY: the protection domain is allocated; no memory of ours is named.
    let region = unsafe { register(domain.handle.raw.as_ptr(), 0, LENGTH, 0, -1, 0) };
    let error = io::Error::last_os_error();
    if region.is_null() {
        return meaning(&error);
    }
    // SAFETY: registered just now, let go once; nothing was made on it.
    unsafe { (library.dereg_mr)(region) };
    Fact::unknown(format!("{CALL}: it was accepted, which means nothing"))
}

/// What the error number tells.
fn meaning(error: &io::Error) -> Fact<bool> {
    match error.raw_os_error() {
        Some(libc::EBADF) => Fact::known(true, CALL),
        Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT) => {
            Fact::known(false, format!("{CALL}: {error}"))
        }
        _ => Fact::unknown(format!("{CALL}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_number_tells_who_refused() {
        let of = |number| meaning(&io::Error::from_raw_os_error(number));
        assert_eq!(of(libc::EBADF).value(), Some(&true));
        assert_eq!(of(libc::EOPNOTSUPP).value(), Some(&false));
        assert_eq!(of(libc::EPROTONOSUPPORT).value(), Some(&false));
        for other in [libc::EINVAL, libc::ENOMEM, libc::EPERM] {
            assert!(of(other).why_unknown().is_some(), "{other}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_not_one_that_cannot() {
        assert!(takes_dmabuf("no_such_device").why_unknown().is_some());
    }
}
