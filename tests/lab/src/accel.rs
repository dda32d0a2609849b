//! Whether KVM is there and works: /dev/kvm may exist, and a kernel still hang under it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::kernel::Kernel;
use crate::options::Accel;
use crate::qemu;

/// How long a kernel has to reach its init under KVM; where it works that takes about a second.
const DEADLINE: Duration = Duration::from_secs(10);

/// Whether this user may open /dev/kvm.
pub fn kvm_opens() -> bool {
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok()
}

/// Settles [`Accel::Auto`], trying KVM once for each kernel release and remembering the answer in `cache`.
///
/// # Errors
/// Never so far; a trial that cannot be made counts as KVM not working.
pub fn settle(
    asked: Accel,
    cache: &Path,
    kernel: &Kernel,
    initramfs: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Accel> {
    if asked != Accel::Auto {
        return Ok(asked);
    }
    if !kvm_opens() {
        return Ok(Accel::Tcg);
    }
    // The answer holds for this kernel on this host's kernel.
    let host = fs::read_to_string("/proc/version").unwrap_or_default();
    let question = format!("{} on {}", kernel.release, host.trim());
    let memory = cache.join("kvm");
    if let Ok(text) = fs::read_to_string(&memory)
        && let Some(answer) = text.strip_prefix(&format!("{question}: "))
    {
        return Ok(if answer.trim() == "works" {
            Accel::Kvm
        } else {
            Accel::Tcg
        });
    }
    say("trying KVM (once)");
    let works = boots(cache, kernel, initramfs);
    let answer = if works { "works" } else { "hangs" };
    say(&format!("KVM {answer} here"));
    let _ = fs::write(&memory, format!("{question}: {answer}\n"));
    Ok(if works { Accel::Kvm } else { Accel::Tcg })
}

/// Boots the kernel to the first line of its init under KVM.
fn boots(cache: &Path, kernel: &Kernel, initramfs: &Path) -> bool {
    let console = cache.join(format!("kvm-trial.{}", std::process::id()));
    let mut command = qemu::command();
    command
        .args(qemu::machine_args(
            Accel::Kvm,
            &kernel.image,
            initramfs,
            "lab.probe=1",
        ))
        .args(["-m", "256", "-serial"])
        .arg(format!("file:{}", console.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        return false;
    };
    let start = Instant::now();
    let mut seen = false;
    while !seen && start.elapsed() < DEADLINE {
        thread::sleep(Duration::from_millis(50));
        let ended = !matches!(child.try_wait(), Ok(None));
        seen = fs::read_to_string(&console).is_ok_and(|text| text.contains("LAB INIT"));
        if ended {
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    let _ = fs::remove_file(&console);
    seen
}
