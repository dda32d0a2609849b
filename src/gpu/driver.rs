//! The table of CUDA driver functions, opened at run time: a node without a GPU has no libcuda.

use std::ffi::{CStr, c_char, c_int, c_uint};

use libloading::os::unix::{Library as DynamicLibrary, RTLD_LOCAL, RTLD_NOW};

use super::error::CudaError;

/// The longest name of an error that is kept, in characters; cuda.h has none of half that length.
const MAX_NAME: usize = 80;

/// Declares the table: each entry names the C function and its signature (cuda.h of CUDA 12).
macro_rules! function_table {
    ($( $field:ident = $name:literal : $signature:ty; )*) => {
        /// The driver's library. Never unloaded: it may have threads of its own.
        pub(super) struct Library {
            $( pub(super) $field: $signature, )*
        }

        impl Library {
            /// Opens a library by its file name, and looks up what is needed of it.
            pub(super) fn open(file: &str) -> Result<Self, CudaError> {
                // SAFETY: the driver's library may be loaded by anyone at any time; its initialisers
                // ask nothing of the caller.
                let library = unsafe { DynamicLibrary::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
                let library = library.map_err(|source| CudaError::Load {
                    file: file.to_owned(),
                    source,
                })?;
                $(
                    // SAFETY: the symbol is the named function, whose C prototype is the signature.
                    let found = unsafe { library.get::<$signature>($name.to_bytes_with_nul()) };
                    let $field = *found.map_err(|source| CudaError::Lacks {
                        file: file.to_owned(),
                        function: text($name),
                        source,
                    })?;
                )*
                std::mem::forget(library);
                Ok(Self { $( $field, )* })
            }
        }
    };
}

function_table! {
    init = c"cuInit": unsafe extern "C" fn(c_uint) -> c_int;
    driver_version = c"cuDriverGetVersion": unsafe extern "C" fn(*mut c_int) -> c_int;
    error_name = c"cuGetErrorName": unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    device_count = c"cuDeviceGetCount": unsafe extern "C" fn(*mut c_int) -> c_int;
    device = c"cuDeviceGet": unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
    device_name = c"cuDeviceGetName": unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    device_pci = c"cuDeviceGetPCIBusId": unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    device_attribute = c"cuDeviceGetAttribute":
        unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
    device_memory = c"cuDeviceTotalMem_v2": unsafe extern "C" fn(*mut usize, c_int) -> c_int;
}

fn text(name: &'static CStr) -> &'static str {
    name.to_str().unwrap_or("a function")
}

impl Library {
    /// What a call's answer means.
    pub(super) fn done(&self, call: &'static str, code: c_int) -> Result<(), CudaError> {
        match code {
            0 => Ok(()),
            code => Err(CudaError::Call {
                call,
                code,
                name: self.name_of(code),
            }),
        }
    }

    /// The name that the library has for an error, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    fn name_of(&self, code: c_int) -> String {
        let mut name = std::ptr::null();
        // SAFETY: `name` may be written; what it points to afterwards is static, or NULL.
        let known = unsafe { (self.error_name)(code, &raw mut name) } == 0 && !name.is_null();
        if !known {
            return "an error without a name".to_owned();
        }
        // SAFETY: a string of the library that ends in NUL and lives as long as it.
        let name = unsafe { CStr::from_ptr(name) };
        name.to_string_lossy().chars().take(MAX_NAME).collect()
    }
}
