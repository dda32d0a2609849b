//! How fast a GPU's memory is copied to and from the host's: a slow link of the GPU shows there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::gpu::{CudaDevice, CudaError, GpuMemory, PinnedMemory};
use crate::model::{CopyRates, Fact, Gbps, PciAddress};

/// One copy: large enough that starting it does not count (some microseconds of some hundred).
const BYTES: usize = 16 << 20;
/// How long each way is measured.
const TIME: Duration = Duration::from_millis(50);

/// What was measured, by GPU.
static MEASURED: Mutex<BTreeMap<PciAddress, Fact<CopyRates>>> = Mutex::new(BTreeMap::new());

/// The rates of a GPU, measured once in the life of the process, and never of two GPUs at a time: they
/// share the host's memory.
pub(super) fn copy_rates(gpu: &CudaDevice) -> Fact<CopyRates> {
    let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = measured.get(gpu.address()) {
        return known.clone();
    }
    let rates = match measure(gpu) {
        Ok(rates) => Fact::known(rates, "cuMemcpyHtoD and cuMemcpyDtoH, 16 MiB at a time"),
        Err(error) => Fact::unknown(error.to_string()),
    };
    measured.insert(gpu.address().clone(), rates.clone());
    rates
}

fn measure(gpu: &CudaDevice) -> Result<CopyRates, CudaError> {
    let memory = GpuMemory::new(gpu, BYTES)?;
    let pinned = PinnedMemory::new(gpu, BYTES)?;
    Ok(CopyRates {
        to_gpu: timed(|| pinned.push(&memory, 0, BYTES))?,
        from_gpu: timed(|| pinned.pull(&memory, 0, BYTES))?,
    })
}

/// The rate of a copy, made again and again. The first, on which the GPU may wake its link, is left out.
fn timed(copy: impl Fn() -> Result<(), CudaError>) -> Result<Gbps, CudaError> {
    copy()?;
    let (began, mut bytes) = (Instant::now(), 0_u64);
    while bytes == 0 || began.elapsed() < TIME {
        copy()?;
        bytes += BYTES as u64;
    }
    let bits = bytes as f64 * 8.0;
    Ok(Gbps(bits / began.elapsed().as_secs_f64() / 1e9))
}
