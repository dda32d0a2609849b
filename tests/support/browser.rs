//! A headless Chromium that is spoken to over a pipe by the DevTools protocol: what a page says, asks for
//! and looks like. A message is JSON and ends with a NUL.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Emulated machines are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Keeps it from the network and from this user's files.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--remote-debugging-pipe",
];

/// Whether a browser is here.
pub fn is_here() -> bool {
    Command::new("chromium")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    next: u64,
    /// Whatever the page did since it was opened, by the names of the protocol.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads from descriptor 3 and writes to 4.
        let mut child = Command::new("sh")
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 1>&2 2>/dev/null",
                "sh",
                "chromium",
            ])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let (send, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(message) = message else { return };
                let message = serde_json::from_slice(&message).expect("a message of the browser");
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            input: child.stdin.take().unwrap(),
            child,
            messages,
            session: None,
            next: 0,
            events: Vec::new(),
            _profile: profile,
        };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let targets = self.ask("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().unwrap();
        let page = targets.iter().find(|target| target["type"] == "page");
        let page = page.expect("a page")["targetId"].clone();
        let session = self.ask(
            "Target.attachToTarget",
            json!({"targetId": page, "flatten": true}),
        );
        self.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.ask(&format!("{domain}.enable"), json!({}));
        }
        // Without a window nothing has the focus.
        self.ask(
            "Emulation.setFocusEmulationEnabled",
            json!({"enabled": true}),
        );
    }

    /// Asks for something and waits for the answer; what happens meanwhile is kept.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        loop {
            let message = self.message();
            if message["id"] == self.next {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    fn message(&mut self) -> Value {
        let message = self.messages.recv_timeout(PATIENCE);
        let message = message.expect("the browser is silent");
        if message.get("method").is_some() {
            self.events.push(message.clone());
        }
        message
    }

    /// Opens a file and waits until all of it is there.
    pub fn open(&mut self, page: &Path) {
        self.events.clear();
        self.ask(
            "Page.navigate",
            json!({"url": format!("file://{}", page.display())}),
        );
        let began = Instant::now();
        while !self.did("Page.loadEventFired") {
            assert!(began.elapsed() < PATIENCE, "the page does not load");
            self.message();
        }
        // Whatever it does on its own; a page without scripts has no timers to wait by.
        std::thread::sleep(Duration::from_millis(200));
        self.evaluate("0");
    }

    pub fn did(&self, event: &str) -> bool {
        self.events.iter().any(|message| message["method"] == event)
    }

    /// What JavaScript in the page gives.
    pub fn evaluate(&mut self, script: &str) -> Value {
        let wanted = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", wanted);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{script}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// How wide the window is, in CSS pixels, and whether it is dark.
    pub fn look(&mut self, width: u32, dark: bool) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// What the page complained of, and what it asked the network for.
    pub fn complaints(&self) -> Vec<&Value> {
        let wrong = |message: &&Value| match message["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded") => true,
            Some("Page.javascriptDialogOpening") => true,
            Some("Network.requestWillBeSent") => {
                let url = message["params"]["request"]["url"]
                    .as_str()
                    .unwrap_or_default();
                !url.starts_with("file:///") && !url.starts_with("data:")
            }
            _ => false,
        };
        self.events.iter().filter(wrong).collect()
    }

    /// How many files the page asked for, itself included.
    pub fn requests(&self) -> usize {
        let is_file = |message: &&Value| {
            let url = message["params"]["request"]["url"].as_str();
            message["method"] == "Network.requestWillBeSent"
                && url.is_some_and(|url| url.starts_with("file:"))
        };
        self.events.iter().filter(is_file).count()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        let close = json!({"id": 0, "method": "Browser.close"});
        let mut bytes = serde_json::to_vec(&close).unwrap_or_default();
        bytes.push(0);
        let _ = self.input.write_all(&bytes);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
