//! A program that ends with whoever started it.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, mpsc};

/// A running program; killed when dropped, and by the kernel when this process ends in any way.
#[derive(Debug)]
pub(crate) struct Process {
    child: Mutex<Child>,
    log: PathBuf,
    // The kernel ties the program to the thread that started it, so that one stays for as long as the program.
    _keeper: mpsc::Sender<()>,
}

impl Process {
    /// Starts `command`, with what it says in the file `log`.
    pub(crate) fn start(command: Command, log: PathBuf) -> Self {
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let mut tied = Command::new("setpriv");
        tied.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
        tied.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let (keeper, dropped) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = sender.send(tied.spawn());
            let _ = dropped.recv();
        });
        let child = receiver.recv().unwrap().expect("setpriv of util-linux starts it");
        Self { child: Mutex::new(child), log, _keeper: keeper }
    }

    /// Panics with the end of its log when it has ended.
    pub(crate) fn assert_runs(&self) {
        if let Some(status) = self.child.lock().unwrap().try_wait().unwrap() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            panic!(
                "{}: it ended: {status}\n{}",
                self.log.display(),
                lines[lines.len().saturating_sub(20)..].join("\n")
            );
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A port of the loopback on which nobody listens. It is none of those that the kernel gives to outgoing connections, so
/// that it can be had again after the program on it was stopped.
pub(crate) fn free_port() -> u16 {
    let ports = 20_000..32_000;
    loop {
        let random = RandomState::new().hash_one(std::process::id());
        let port = ports.start + u16::try_from(random % u64::from(ports.end - ports.start)).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
