//! The table of libibverbs functions, opened with dlopen and dlvsym.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::OnceLock;

use ibverbs_sys as ffi;
use libloading::os::unix::{Library as DynamicLibrary, RTLD_LOCAL, RTLD_NOW};
use nix::libc;

use super::error::{VerbsError, load_error};

/// The soname that rdma-core has kept since 2006.
const SONAME: &str = "libibverbs.so.1";

/// Declares the table: each entry names the C function, its symbol version and its signature.
///
/// The signature is checked against the crate's bindings by an unnamed constant, which is
/// evaluated by the compiler and emits no code, so the function is not linked.
macro_rules! function_table {
    ($( $version:literal $field:ident = $name:ident : $signature:ty; )*) => {
        /// libibverbs as found on this node. Never unloaded: its providers stay registered.
        pub struct Library {
            $( pub(super) $field: $signature, )*
            /// `ibv_reg_mr_iova2`, from rdma-core 29; needed for relaxed ordering.
            pub(super) reg_mr_iova2: Option<RegMrIova2>,
            /// `ibv_reg_dmabuf_mr`, from rdma-core 34; needed for other devices' memory.
            pub(super) reg_dmabuf_mr: Option<RegDmabufMr>,
        }

        $( const _: $signature = ffi::$name; )*

        impl Library {
            fn from_handle(handle: *mut c_void) -> Result<Self, VerbsError> {
                $(
                    let found = versioned_symbol(
                        handle,
                        c_name(concat!(stringify!($name), "\0")),
                        c_name(concat!($version, "\0")),
                    )?;
                    // SAFETY: the symbol is the named function at the named version, whose
                    // C prototype is the signature (the constant above checks it against the
                    // bindings made from the header).
                    let $field = unsafe { std::mem::transmute::<*mut c_void, $signature>(found) };
                )*
                let reg_mr_iova2 = versioned_symbol(handle, c"ibv_reg_mr_iova2", c"IBVERBS_1.8")
                    .ok()
                    // SAFETY: as above.
                    .map(|p| unsafe { std::mem::transmute::<*mut c_void, RegMrIova2>(p) });
                let reg_dmabuf_mr = versioned_symbol(handle, c"ibv_reg_dmabuf_mr", c"IBVERBS_1.12")
                    .ok()
                    // SAFETY: as above.
                    .map(|p| unsafe { std::mem::transmute::<*mut c_void, RegDmabufMr>(p) });
                Ok(Self { $( $field, )* reg_mr_iova2, reg_dmabuf_mr })
            }
        }
    };
}

/// `ibv_reg_mr_iova2`.
type RegMrIova2 =
    unsafe extern "C" fn(*mut ffi::ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ffi::ibv_mr;
const _: RegMrIova2 = ffi::ibv_reg_mr_iova2;

/// `ibv_reg_dmabuf_mr`: domain, offset, length, address for the peer, file descriptor, access.
type RegDmabufMr =
    unsafe extern "C" fn(*mut ffi::ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ffi::ibv_mr;
const _: RegDmabufMr = ffi::ibv_reg_dmabuf_mr;

function_table! {
    "IBVERBS_1.1" get_device_list = ibv_get_device_list:
        unsafe extern "C" fn(*mut c_int) -> *mut *mut ffi::ibv_device;
    "IBVERBS_1.1" free_device_list = ibv_free_device_list:
        unsafe extern "C" fn(*mut *mut ffi::ibv_device);
    "IBVERBS_1.1" get_device_name = ibv_get_device_name:
        unsafe extern "C" fn(*mut ffi::ibv_device) -> *const std::ffi::c_char;
    "IBVERBS_1.1" open_device = ibv_open_device:
        unsafe extern "C" fn(*mut ffi::ibv_device) -> *mut ffi::ibv_context;
    "IBVERBS_1.1" close_device = ibv_close_device:
        unsafe extern "C" fn(*mut ffi::ibv_context) -> c_int;
    "IBVERBS_1.1" query_device = ibv_query_device:
        unsafe extern "C" fn(*mut ffi::ibv_context, *mut ffi::ibv_device_attr) -> c_int;
    "IBVERBS_1.1" query_port = ibv_query_port:
        unsafe extern "C" fn(*mut ffi::ibv_context, u8, *mut ffi::_compat_ibv_port_attr) -> c_int;
    "IBVERBS_1.1" query_gid = ibv_query_gid:
        unsafe extern "C" fn(*mut ffi::ibv_context, u8, c_int, *mut ffi::ibv_gid) -> c_int;
    "IBVERBS_1.1" alloc_pd = ibv_alloc_pd:
        unsafe extern "C" fn(*mut ffi::ibv_context) -> *mut ffi::ibv_pd;
    "IBVERBS_1.1" dealloc_pd = ibv_dealloc_pd:
        unsafe extern "C" fn(*mut ffi::ibv_pd) -> c_int;
    "IBVERBS_1.1" reg_mr = ibv_reg_mr:
        unsafe extern "C" fn(*mut ffi::ibv_pd, *mut c_void, usize, c_int) -> *mut ffi::ibv_mr;
    "IBVERBS_1.1" dereg_mr = ibv_dereg_mr:
        unsafe extern "C" fn(*mut ffi::ibv_mr) -> c_int;
    "IBVERBS_1.0" create_comp_channel = ibv_create_comp_channel:
        unsafe extern "C" fn(*mut ffi::ibv_context) -> *mut ffi::ibv_comp_channel;
    "IBVERBS_1.0" destroy_comp_channel = ibv_destroy_comp_channel:
        unsafe extern "C" fn(*mut ffi::ibv_comp_channel) -> c_int;
    "IBVERBS_1.1" create_cq = ibv_create_cq:
        unsafe extern "C" fn(
            *mut ffi::ibv_context, c_int, *mut c_void, *mut ffi::ibv_comp_channel, c_int,
        ) -> *mut ffi::ibv_cq;
    "IBVERBS_1.1" destroy_cq = ibv_destroy_cq:
        unsafe extern "C" fn(*mut ffi::ibv_cq) -> c_int;
    "IBVERBS_1.1" get_cq_event = ibv_get_cq_event:
        unsafe extern "C" fn(
            *mut ffi::ibv_comp_channel, *mut *mut ffi::ibv_cq, *mut *mut c_void,
        ) -> c_int;
    "IBVERBS_1.1" ack_cq_events = ibv_ack_cq_events:
        unsafe extern "C" fn(*mut ffi::ibv_cq, c_uint);
    "IBVERBS_1.1" create_qp = ibv_create_qp:
        unsafe extern "C" fn(*mut ffi::ibv_pd, *mut ffi::ibv_qp_init_attr) -> *mut ffi::ibv_qp;
    "IBVERBS_1.1" modify_qp = ibv_modify_qp:
        unsafe extern "C" fn(*mut ffi::ibv_qp, *mut ffi::ibv_qp_attr, c_int) -> c_int;
    "IBVERBS_1.1" destroy_qp = ibv_destroy_qp:
        unsafe extern "C" fn(*mut ffi::ibv_qp) -> c_int;
}

impl Library {
    /// The library of this node, opened once per process.
    ///
    /// # Errors
    /// [`VerbsError::NotInstalled`] or [`VerbsError::NotLoadable`] when it cannot be opened,
    /// [`VerbsError::SymbolMissing`] when it is too old.
    pub fn get() -> Result<&'static Self, VerbsError> {
        static OPENED: OnceLock<Library> = OnceLock::new();
        if let Some(library) = OPENED.get() {
            return Ok(library);
        }
        let library = Self::open(SONAME)?;
        Ok(OPENED.get_or_init(|| library))
    }

    /// Opens a library by file name; `get` is this with the well-known soname.
    pub(super) fn open(file: &str) -> Result<Self, VerbsError> {
        // SAFETY: loading runs the library's initialisers; libibverbs' own are safe to run at
        // any time, and the name is fixed by this module.
        let opened = unsafe { DynamicLibrary::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
        let library = opened.map_err(load_error)?;
        // `into_raw` forgets the handle, so the library is never closed and the function
        // pointers stay valid for the life of the process.
        Self::from_handle(library.into_raw())
    }
}

/// A C string from a literal that ends in NUL; anything else yields an empty name.
fn c_name(literal: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(literal.as_bytes()).unwrap_or_default()
}

fn versioned_symbol(
    handle: *mut c_void,
    name: &'static CStr,
    version: &'static CStr,
) -> Result<*mut c_void, VerbsError> {
    // SAFETY: the handle came from dlopen and is never closed; both strings end in NUL.
    let found = unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) };
    if found.is_null() {
        return Err(VerbsError::SymbolMissing {
            symbol: name.to_string_lossy().into_owned(),
            version: version.to_string_lossy().into_owned(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_loaders_reason() {
        let Err(error) = Library::open("libibverbs-not-there.so.1") else {
            panic!("opened a library that does not exist")
        };
        let text = error.to_string();
        assert!(text.contains("libibverbs.so.1 is not installed"), "{text}");
        assert!(text.contains("cannot open shared object file"), "{text}");
    }

    #[test]
    fn a_file_that_is_no_library_is_not_called_missing() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let Err(error) = Library::open(&file.path().to_string_lossy()) else {
            panic!("opened an empty file")
        };
        assert!(matches!(error, VerbsError::NotLoadable { .. }), "{error}");
        assert!(error.to_string().contains("file too short"), "{error}");
    }

    #[test]
    fn a_library_without_the_symbols_is_refused() {
        let Err(error) = Library::open("libc.so.6") else {
            panic!("libc was taken for libibverbs")
        };
        assert!(matches!(error, VerbsError::SymbolMissing { .. }), "{error}");
        assert!(error.to_string().contains("ibv_get_device_list"), "{error}");
    }

    #[test]
    fn the_table_is_complete_on_a_node_with_the_library() {
        match Library::get() {
            Ok(_) => {}
            Err(VerbsError::NotInstalled { reason, .. }) => {
                eprintln!("SKIPPED: libibverbs is not installed here: {reason}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}
