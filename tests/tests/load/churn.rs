//! Pods that come and go on every node, ten starts a minute, as an API server and a kubelet tell of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpulet_tests::{Client, Stage};

/// Between two starts on a node: ten a minute.
const BETWEEN: Duration = Duration::from_secs(6);
/// How long a Pod lives.
const LIFE: Duration = Duration::from_secs(14);
/// Who asks the API server at the same time.
const THREADS: usize = 8;

/// Pods that come and go until all are gone. Waits for that when dropped.
pub(crate) struct Churn {
    done: Arc<Done>,
    threads: Vec<JoinHandle<()>>,
}

/// How many Pods have begun and ended.
#[derive(Default)]
struct Done {
    started: AtomicU64,
    ended: AtomicU64,
}

struct Step {
    at: Duration,
    node: String,
    pod: String,
    stage: Stage,
}

impl Churn {
    /// Begins; the last Pod starts after `time`.
    pub(crate) fn start(admin: &Client, nodes: &[String], time: Duration) -> Self {
        let done = Arc::new(Done::default());
        let begun = Instant::now();
        let mut threads = Vec::new();
        for (number, nodes) in nodes.chunks(nodes.len().div_ceil(THREADS)).enumerate() {
            let offset = BETWEEN.mul_f64(number as f64 / THREADS as f64);
            let steps = steps(nodes, offset, time);
            let (done, admin) = (Arc::clone(&done), admin.clone());
            threads.push(std::thread::spawn(move || {
                for Step { at, node, pod, stage } in steps {
                    std::thread::sleep(at.saturating_sub(begun.elapsed()));
                    admin.take_pod(&pod, &node, stage);
                    match stage {
                        Stage::Running => done.started.fetch_add(1, Ordering::Relaxed),
                        Stage::Gone => done.ended.fetch_add(1, Ordering::Relaxed),
                        _ => 0,
                    };
                }
            }));
        }
        Self { done, threads }
    }

    /// How many Pods have started and ended so far.
    pub(crate) fn done(&self) -> (u64, u64) {
        (self.done.started.load(Ordering::Relaxed), self.done.ended.load(Ordering::Relaxed))
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Everything that is to be done on `nodes`, in order.
fn steps(nodes: &[String], offset: Duration, time: Duration) -> Vec<Step> {
    let mut steps = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let mut begin = offset + BETWEEN.mul_f64(number as f64 / nodes.len() as f64);
        for pod in 0.. {
            if begin > time {
                break;
            }
            let name = format!("{node}-{pod}");
            let stages = Stage::START.into_iter().zip([0, 500, 1500]);
            let end = LIFE.as_millis() as u64;
            let stages = stages.chain(Stage::END.into_iter().zip([end, end + 1000, end + 1500]));
            steps.extend(stages.map(|(stage, after)| Step {
                at: begin + Duration::from_millis(after),
                node: node.clone(),
                pod: name.clone(),
                stage,
            }));
            begin += BETWEEN;
        }
    }
    steps.sort_by_key(|step| step.at);
    steps
}

/// Does something for each node, for some at a time.
pub(crate) fn in_parallel(nodes: &[String], act: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for nodes in nodes.chunks(nodes.len().div_ceil(THREADS)) {
            let act = &act;
            scope.spawn(move || nodes.iter().for_each(|node| act(node)));
        }
    });
}
