use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use gpulet_inventory::mig::Placement;
use gpulet_partition::journal::Phase;
use gpulet_partition::layout::{LaidCompute, LaidInstance, Layout, Need};
use gpulet_partition::protocol::{NodeEntry, NodeJournal};
use gpulet_partition::step::{InstanceAt, Step};
use nix::fcntl::renameat;
use proptest::prelude::*;
use tempfile::TempDir;

use super::files::beside;
use super::*;

const GPU: &str = "GPU-8f6d2c3a-0000-1111-2222-333344445555";

/// What a child process is to do, and where.
const CHILD: &str = "GPULET_TEST_STORE_CHILD";
const CHILD_DIRECTORY: &str = "GPULET_TEST_STORE_DIRECTORY";

fn gpu() -> GpuUuid {
    GPU.parse().unwrap()
}

/// Two journals that tell each other apart by their number.
fn journal(instances: u32) -> Journal {
    let laid = |start| {
        let at = InstanceAt { profile: 19, placement: Placement { start, size: 1 } };
        LaidInstance { at, computes: vec![LaidCompute { profile: 0, placement: None }] }
    };
    let former = Layout { mode: true, instances: (0..instances).map(laid).collect() };
    let wanted = Layout { mode: false, instances: Vec::new() };
    Journal::V1(Entry {
        gpu: gpu(),
        former,
        wanted,
        phase: Phase::Forward,
        next: Need::Step(Step::SetMode(false)),
        restore_persistence: true,
    })
}

fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::new(directory.path());
    (directory, store)
}

fn names(store: &Store) -> Vec<String> {
    store.names().unwrap().into_iter().filter(|name| !matches!(name.as_str(), "." | "..")).collect()
}

#[test]
fn what_is_written_is_read_until_it_is_removed() {
    let (directory, store) = store();
    assert_eq!(store.journal(&gpu()).unwrap(), None);
    assert!(store.journals().unwrap().is_empty());
    store.remove_journal(&gpu()).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "reading makes nothing");
    for instances in [2, 7, 0] {
        store.write_journal(&journal(instances)).unwrap();
        assert_eq!(store.journal(&gpu()).unwrap(), Some(journal(instances)));
    }
    let found = store.journals().unwrap();
    assert_eq!((found.len(), found[0].gpu.as_ref()), (1, Some(&gpu())));
    assert_eq!(names(&store), [format!("{GPU}.json")], "nothing else is left");
    store.remove_journal(&gpu()).unwrap();
    assert!(store.journals().unwrap().is_empty());
}

#[test]
fn the_node_has_a_journal_of_its_own() {
    let (_directory, store) = store();
    assert_eq!(store.node::<NodeJournal>().unwrap(), None);
    let paused = [("nvidia.com/gpu.deploy.dcgm".to_owned(), "true".to_owned())].into();
    let node = NodeJournal::V1(NodeEntry { paused, cordoned: true, ..NodeEntry::default() });
    store.write_node(&node).unwrap();
    assert_eq!(store.node::<NodeJournal>().unwrap(), Some(node));
    assert!(store.journals().unwrap().is_empty(), "it is none of a GPU's");
    store.remove_node::<NodeJournal>().unwrap();
    assert_eq!(store.node::<NodeJournal>().unwrap(), None);
    fs::write(store.folder.join(NODE), "{\"version\": \"2\"}").unwrap();
    for error in [
        store.node::<NodeJournal>().unwrap_err(),
        store.write_node(&NodeJournal::V1(NodeEntry::default())).unwrap_err(),
        store.remove_node::<NodeJournal>().unwrap_err(),
    ] {
        assert_eq!(error.reason(), "JournalUnreadable");
    }
    assert_eq!(fs::read_to_string(store.folder.join(NODE)).unwrap(), "{\"version\": \"2\"}");
}

/// Puts `bytes` in the journal's place; what reading gives, after making sure that nobody changes or removes what cannot be
/// understood.
fn read_of(store: &Store, bytes: &[u8]) -> Option<Journal> {
    let path = store.folder.join(file_of(&gpu()));
    fs::create_dir_all(&store.folder).unwrap();
    fs::write(&path, bytes).unwrap();
    let error = match store.journal(&gpu()) {
        Ok(journal) => return journal,
        Err(error) => error,
    };
    assert_eq!(error.reason(), "JournalUnreadable");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert!(error.to_string().contains("remove the file"), "{error}");
    for refused in [store.write_journal(&journal(1)), store.remove_journal(&gpu())] {
        assert_eq!(refused.unwrap_err().reason(), "JournalUnreadable");
    }
    let found = store.journals().unwrap();
    assert_eq!((found.len(), found[0].gpu.clone()), (1, Some(gpu())));
    assert_eq!(found[0].journal.as_ref().unwrap_err().reason(), "JournalUnreadable");
    assert_eq!(fs::read(&path).unwrap(), bytes, "what is not understood stays as it is");
    None
}

#[test]
fn what_is_not_understood_is_told_and_left_alone() {
    let (_directory, store) = store();
    let whole = serde_json::to_string(&journal(3)).unwrap();
    assert_eq!(read_of(&store, whole.as_bytes()), Some(journal(3)));
    let of_another = whole.replace("GPU-8f6d", "GPU-9f6d");
    let newer = whole.replace("\"version\":\"1\"", "\"version\":\"2\"");
    let large = format!("{whole}{}", " ".repeat(2 << 20));
    for text in ["", "{}", "null", "[]", of_another.as_str(), newer.as_str(), large.as_str()] {
        assert_eq!(read_of(&store, text.as_bytes()), None, "{}", &text[..text.len().min(40)]);
    }
}

#[test]
fn a_file_of_no_gpu_is_told() {
    let (_directory, store) = store();
    fs::create_dir_all(&store.folder).unwrap();
    fs::write(store.folder.join("gpu0.json"), "{}").unwrap();
    fs::write(store.folder.join("notes.txt"), "mine").unwrap();
    let found = store.journals().unwrap();
    assert_eq!((found.len(), found[0].gpu.as_ref()), (1, None));
    assert!(found[0].journal.as_ref().unwrap_err().to_string().contains("gpu0.json"));
}

#[test]
fn links_and_pipes_are_not_followed() {
    let (directory, store) = store();
    let (outside, place) = (directory.path().join("outside"), store.folder.join(file_of(&gpu())));
    fs::write(&outside, serde_json::to_string(&journal(3)).unwrap()).unwrap();
    fs::create_dir_all(&store.folder).unwrap();
    symlink(&outside, &place).unwrap();
    let error = store.write_journal(&journal(1)).unwrap_err();
    assert_eq!(error.reason(), "JournalUnavailable");
    assert!(error.to_string().contains(GPU), "{error}");
    fs::remove_file(&place).unwrap();
    nix::unistd::mkfifo(&place, Mode::S_IRWXU).unwrap();
    assert_eq!(
        store.journal(&gpu()).unwrap_err().reason(),
        "JournalUnavailable",
        "nobody waits for a writer"
    );
    fs::remove_dir_all(&store.folder).unwrap();
    symlink(directory.path(), &store.folder).unwrap();
    assert_eq!(store.write_journal(&journal(1)).unwrap_err().reason(), "JournalUnavailable");
    assert!(store.journals().is_err());
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

proptest! {
    #[test]
    fn a_journal_that_is_cut_off_is_whole_or_told(instances in 0_u32..7, cut: prop::sample::Index) {
        let (_directory, store) = store();
        store.write_journal(&journal(instances)).unwrap();
        let bytes = fs::read(store.folder.join(file_of(&gpu()))).unwrap();
        let kept = &bytes[..cut.index(bytes.len())];
        let is_whole = bytes.len() - kept.len() <= 1;
        prop_assert_eq!(read_of(&store, kept), is_whole.then(|| journal(instances)));
    }

    #[test]
    fn any_bytes_are_understood_or_told(
        at: prop::sample::Index,
        byte: u8,
        garbage in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
    ) {
        let (_directory, store) = store();
        let mut bytes = garbage.unwrap_or_else(|| serde_json::to_vec(&journal(2)).unwrap());
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read_of(&store, &bytes);
    }
}

/// Starts this test program again, which then does as `child` says.
fn child(does: &str, directory: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "partition::store::tests::as_a_child_that_is_killed", "--nocapture"]);
    command.env(CHILD, does).env(CHILD_DIRECTORY, directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Waits until it says that it is there, and kills it.
fn kill_when_ready(mut child: Child) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.contains("ready"));
    assert!(ready, "it ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// No test by itself: what the children of the tests below do.
#[test]
fn as_a_child_that_is_killed() {
    let Some(does) = std::env::var_os(CHILD) else { return };
    let store = Store::new(Path::new(&std::env::var_os(CHILD_DIRECTORY).unwrap()));
    let bytes = serde_json::to_vec(&journal(7)).unwrap();
    let (name, folder) = (file_of(&gpu()), open_folder(&store.folder).unwrap());
    match does.to_str().unwrap() {
        "half" => {
            prepare(&folder, &name, &bytes[..bytes.len() / 2]).unwrap();
        }
        "written" => prepare(&folder, &name, &bytes).unwrap(),
        "renamed" => {
            prepare(&folder, &name, &bytes).unwrap();
            renameat(&folder, beside(&name).as_str(), &folder, name.as_str()).unwrap();
        }
        _ => {
            println!("\nready");
            for instances in (0..7).cycle() {
                store.write_journal(&journal(instances)).unwrap();
            }
        }
    }
    println!("\nready");
    let _ = std::io::stdin().lines().next();
}

#[test]
fn killed_between_write_and_rename_the_old_one_is_there() {
    for (does, there) in [("half", 1), ("written", 1), ("renamed", 7)] {
        let (directory, store) = store();
        store.write_journal(&journal(1)).unwrap();
        kill_when_ready(child(does, directory.path()));
        assert_eq!(store.journal(&gpu()).unwrap(), Some(journal(there)), "{does}");
        assert_eq!(store.journals().unwrap().len(), 1, "what was begun beside it is no journal");
        store.write_journal(&journal(2)).unwrap();
        assert_eq!(store.journal(&gpu()).unwrap(), Some(journal(2)), "{does}");
        assert_eq!(names(&store).len(), 1, "nothing else is left after {does}");
    }
}

#[test]
fn killed_at_any_time_one_of_them_is_there() {
    let (directory, store) = store();
    store.write_journal(&journal(0)).unwrap();
    for _ in 0..15 {
        kill_when_ready(child("all", directory.path()));
        let there = store.journal(&gpu()).unwrap();
        assert!((0..7).any(|instances| there == Some(journal(instances))), "{there:?}");
    }
}
