//! The table of CUDA driver functions, opened at run time: a node without a GPU has no libcuda.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::os::unix::{Library as DynamicLibrary, RTLD_LOCAL, RTLD_NOW};

use super::error::CudaError;

/// The longest name of an error that is kept, in characters; cuda.h has none of half that length.
const MAX_NAME: usize = 80;

/// `CUdeviceptr`.
pub(super) type DevicePointer = u64;
/// `CUcontext`.
pub(super) type ContextHandle = *mut c_void;

/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
pub(super) const DMA_BUF_FD: c_int = 1;
/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`.
pub(super) const SYNC_MEMOPS: c_int = 6;
/// `CU_POINTER_ATTRIBUTE_IS_MANAGED`.
pub(super) const IS_MANAGED: c_int = 8;

/// `cuMemGetHandleForAddressRange`: handle, address, size, type, flags.
pub(super) type HandleForRange =
    unsafe extern "C" fn(*mut c_void, DevicePointer, usize, c_int, c_ulonglong) -> c_int;

/// A function that the library does not have, and what the loader says.
struct Missing {
    function: &'static str,
    source: libloading::Error,
}

/// Declares a table: each entry names the C function and its signature (cuda.h of CUDA 12).
macro_rules! function_table {
    ($(#[$doc:meta])* $table:ident: $( $field:ident = $name:literal : $signature:ty; )*) => {
        $(#[$doc])*
        pub(super) struct $table {
            $( pub(super) $field: $signature, )*
        }

        impl $table {
            /// Looks up each of them; the first that is missing is named.
            fn find(library: &DynamicLibrary) -> Result<Self, Missing> {
                $(
                    // SAFETY: the symbol is the named function, whose C prototype is the signature.
                    let found = unsafe { library.get::<$signature>($name.to_bytes_with_nul()) };
                    let $field = *found.map_err(|source| Missing {
                        function: text($name),
                        source,
                    })?;
                )*
                Ok(Self { $( $field, )* })
            }
        }
    };
}

function_table! {
    /// What is said of the GPUs, from CUDA 6 on.
    Devices:
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

function_table! {
    /// What allocates memory of a GPU and copies it, from CUDA 11 on.
    Memory:
    retain_context = c"cuDevicePrimaryCtxRetain":
        unsafe extern "C" fn(*mut ContextHandle, c_int) -> c_int;
    release_context = c"cuDevicePrimaryCtxRelease_v2": unsafe extern "C" fn(c_int) -> c_int;
    use_context = c"cuCtxSetCurrent": unsafe extern "C" fn(ContextHandle) -> c_int;
    allocate = c"cuMemAlloc_v2": unsafe extern "C" fn(*mut DevicePointer, usize) -> c_int;
    free = c"cuMemFree_v2": unsafe extern "C" fn(DevicePointer) -> c_int;
    to_device = c"cuMemcpyHtoD_v2":
        unsafe extern "C" fn(DevicePointer, *const c_void, usize) -> c_int;
    from_device = c"cuMemcpyDtoH_v2":
        unsafe extern "C" fn(*mut c_void, DevicePointer, usize) -> c_int;
    set_attribute = c"cuPointerSetAttribute":
        unsafe extern "C" fn(*const c_void, c_int, DevicePointer) -> c_int;
    get_attribute = c"cuPointerGetAttribute":
        unsafe extern "C" fn(*mut c_void, c_int, DevicePointer) -> c_int;
    allocate_pinned = c"cuMemHostAlloc":
        unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int;
    free_pinned = c"cuMemFreeHost": unsafe extern "C" fn(*mut c_void) -> c_int;
}

fn text(name: &'static CStr) -> &'static str {
    name.to_str().unwrap_or("a function")
}

/// The driver's library. Never unloaded: it may have threads and contexts of its own.
pub(super) struct Library {
    /// What tells of GPUs.
    pub(super) devices: Devices,
    /// What has to do with their memory, or the name of the function that is missing.
    memory: Result<Memory, &'static str>,
    /// From CUDA 11.7; without it there is no dma-buf.
    pub(super) handle_for_range: Option<HandleForRange>,
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
        let devices = Devices::find(&library).map_err(|missing| CudaError::Lacks {
            file: file.to_owned(),
            function: missing.function,
            source: missing.source,
        })?;
        let memory = Memory::find(&library).map_err(|missing| missing.function);
        let name = c"cuMemGetHandleForAddressRange".to_bytes_with_nul();
        // SAFETY: the symbol is the named function, whose C prototype is the signature.
        let found = unsafe { library.get::<HandleForRange>(name) };
        let handle_for_range = found.ok().map(|found| *found);
        std::mem::forget(library);
        Ok(Self {
            devices,
            memory,
            handle_for_range,
        })
    }

    /// The functions for memory.
    pub(super) fn memory(&self) -> Result<&Memory, CudaError> {
        let lacks = |function: &&'static str| CudaError::TooOld { function };
        self.memory.as_ref().map_err(lacks)
    }

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
        let known =
            unsafe { (self.devices.error_name)(code, &raw mut name) } == 0 && !name.is_null();
        if !known {
            return "an error without a name".to_owned();
        }
        // SAFETY: a string of the library that ends in NUL and lives as long as it.
        let name = unsafe { CStr::from_ptr(name) };
        name.to_string_lossy().chars().take(MAX_NAME).collect()
    }
}
