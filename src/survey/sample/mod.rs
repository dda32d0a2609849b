//! Reads the counters of every port once a second at little cost: files are opened once and read
//! again from their start.

mod layout;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use super::interfaces::Interfaces;
use super::netlink::Kernel;
use super::root::Root;
use super::{Sources, Survey, device, parse};
use crate::model::{PortLayout, PortReading, RdmaDevice, Sample, SampleLayout};

/// The most ports watched: a node with more has them as virtual functions.
const MAX_PORTS: usize = 32;

/// The most files held open. With 1024 descriptors for a process this leaves room for a run.
const MAX_FILES: usize = 768;

/// The longest text of a counter: 20 digits and a line break.
const MAX_TEXT: usize = 32;

/// The counters of a node's ports, held open.
#[derive(Debug)]
pub struct Sampler {
    root: Root,
    epoch: Instant,
    layout: SampleLayout,
    files: Vec<Vec<File>>,
    devices: Option<Vec<String>>,
    broken: bool,
}

impl Sampler {
    /// Looks for ports below `root` and opens what counts on them.
    pub fn open(root: &Root) -> Self {
        let mut sampler = Self {
            root: root.clone(),
            epoch: Instant::now(),
            layout: SampleLayout::default(),
            files: Vec::new(),
            devices: None,
            broken: false,
        };
        sampler.look();
        sampler
    }

    /// What its samples are made of.
    pub fn layout(&self) -> &SampleLayout {
        &self.layout
    }

    /// Reads every counter.
    pub fn sample(&mut self) -> Sample {
        let mut ports = Vec::with_capacity(self.files.len());
        self.broken = false;
        for files in &self.files {
            let elapsed = self.epoch.elapsed().as_micros();
            let values: Vec<_> = files.iter().map(read).collect();
            self.broken |= !values.is_empty() && values.iter().all(Option::is_none);
            ports.push(PortReading {
                at_us: u64::try_from(elapsed).unwrap_or(u64::MAX),
                values,
            });
        }
        Sample { ports }
    }

    /// Looks for ports again where devices came or went, or a port answers no more; whether the
    /// layout is another since.
    pub fn refresh(&mut self) -> bool {
        if !self.broken && self.devices == names(&self.root) {
            return false;
        }
        let before = std::mem::take(&mut self.layout);
        self.look();
        before != self.layout
    }

    fn look(&mut self) {
        self.devices = names(&self.root);
        let sources = Sources::default();
        let survey = Survey {
            root: &self.root,
            sources: &sources,
            interfaces: Interfaces::unknown("not needed".into()),
            // Nothing of what netlink tells is needed.
            kernel: Kernel::Snapshot,
        };
        let found = device::devices(&survey);
        let every = found.value().map_or(0, |devices| count(devices));
        let mut files = Vec::new();
        let ports = found.map(|devices| open(&self.root, &devices, &mut files));
        let kept = ports.value().map_or(0, Vec::len);
        self.layout = SampleLayout {
            ports,
            left_out: u32::try_from(every.saturating_sub(kept)).unwrap_or(u32::MAX),
        };
        self.files = files;
    }
}

fn names(root: &Root) -> Option<Vec<String>> {
    root.list(&root.path("sys/class/infiniband")).ok()
}

fn count(devices: &[RdmaDevice]) -> usize {
    devices.iter().map(|device| device.ports.len()).sum()
}

/// Opens what counts on each port; what cannot be opened is left out of the layout.
fn open(root: &Root, devices: &[RdmaDevice], files: &mut Vec<Vec<File>>) -> Vec<PortLayout> {
    let mut left = MAX_FILES;
    let mut layouts = Vec::new();
    let ports = devices
        .iter()
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    for (device, port) in ports.take(MAX_PORTS) {
        let mut layout = layout::of_port(device, port);
        if layout.series.len() > left {
            break;
        }
        let mut opened = Vec::with_capacity(layout.series.len());
        layout.series.retain(|series| {
            let file = root.open(Path::new(&series.from)).ok();
            let is_open = file.is_some();
            opened.extend(file);
            is_open
        });
        left -= opened.len();
        files.push(opened);
        layouts.push(layout);
    }
    layouts
}

/// What a counter stands at. Reading a sysfs file from its start asks the driver anew.
fn read(file: &File) -> Option<u64> {
    let mut text = [0; MAX_TEXT];
    let len = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    parse::counter(text.trim()).ok()
}
