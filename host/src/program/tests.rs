use std::fs;
use std::process::Command as Process;

use super::*;
use crate::partition::made_up::{MadeUp, is_root};

/// Long enough for anything that ends.
const LONG: Duration = Duration::from_secs(60);

fn run(tree: &MadeUp, arguments: &[&str], deadline: Duration) -> Result<Output, ProgramError> {
    Program::find(&tree.root(), "tool").unwrap().run(arguments, deadline)
}

#[test]
fn what_it_writes_and_how_it_ends_is_told() {
    let tree = MadeUp::new();
    tree.program("usr/bin/tool", "echo out $1; echo err >&2; exit $2");
    let output = run(&tree, &["one", "0"], LONG).unwrap();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out one\n", "err\n"));
    let error = run(&tree, &["two", "3"], LONG).unwrap_err();
    assert_eq!(error.reason(), "ProgramFailed");
    assert_eq!(error.to_string(), "/usr/bin/tool two 3 failed (exit code 3); it said: err out two");
}

#[test]
fn it_has_no_input_and_no_end_of_output() {
    let tree = MadeUp::new();
    tree.program(
        "usr/bin/tool",
        "cat; head -c 3000000 /dev/zero | tr '\\0' x; printf '\\033[31mred\\n' >&2; exit 1",
    );
    let error = run(&tree, &[], LONG).unwrap_err();
    let ProgramError::Failed { said, .. } = &error else { panic!("{error:?}") };
    assert!(said.starts_with("?[31mred x") && said.chars().count() == TOLD, "{said}");
}

#[test]
fn what_does_not_end_is_killed_with_all_that_it_started() {
    let tree = MadeUp::new();
    tree.program("usr/bin/tool", "sleep 1000 & echo $! > \"$1\"; echo waiting; wait");
    let child = tree.at("child");
    let error = run(&tree, &[child.to_str().unwrap()], Duration::from_secs(2)).unwrap_err();
    assert_eq!(error.reason(), "ProgramTimedOut");
    assert!(error.to_string().contains("did not end within 2 s and was killed; it said: waiting"), "{error}");
    let pid = fs::read_to_string(child).unwrap();
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    // Gone, or waiting for whoever adopted it to notice.
    let is_gone = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    assert!(
        (0..200).any(|_| is_gone() || {
            thread::sleep(Duration::from_millis(20));
            false
        }),
        "it lives on"
    );
}

#[test]
fn something_left_behind_is_not_waited_for() {
    let tree = MadeUp::new();
    tree.program("usr/bin/tool", "sleep 1000 & echo $!");
    let output = run(&tree, &[], LONG).unwrap();
    let killed = Process::new("kill").arg(output.stdout.trim()).status().unwrap();
    assert!(killed.success(), "it had ended by itself");
}

#[test]
fn one_that_cannot_be_run_is_none() {
    let tree = MadeUp::new();
    tree.file("usr/bin/tool", "no program").directory("usr/sbin/tool");
    let error = Program::find(&tree.root(), "tool").unwrap_err();
    assert_eq!(error.reason(), "ProgramNotFound");
    assert!(error.to_string().contains("there is no program tool below"), "{error}");
    // A link is followed as on the node, and not out of it.
    let outside = tree.outside().join("tool");
    tree.program("opt/tool", "echo inside").link("usr/local/bin/tool", "/opt/tool");
    fs::copy(tree.at("opt/tool"), &outside).unwrap();
    tree.link("bin/tool", &outside);
    assert_eq!(run(&tree, &[], LONG).unwrap().stdout, "inside\n");
    assert!(Program::at(&tree.root(), "bin/tool").is_none());
}

#[test]
fn one_that_the_kernel_refuses_is_told() {
    let tree = MadeUp::new();
    tree.file("usr/bin/tool", "\u{7f}ELF nonsense");
    fs::set_permissions(tree.at("usr/bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let error = run(&tree, &[], LONG).unwrap_err();
    assert_eq!(error.reason(), "ProgramNotStarted");
    assert!(error.to_string().starts_with("/usr/bin/tool cannot be started"), "{error}");
}

/// Copies the shell into the tree, with the libraries that it is made of.
fn with_shell(tree: &MadeUp) {
    let copy = |from: &Path| {
        let to = tree.at(from.to_str().unwrap().trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    };
    copy(Path::new("/bin/sh"));
    let libraries = Process::new("ldd").arg("/bin/sh").output().unwrap().stdout;
    let libraries = String::from_utf8(libraries).unwrap();
    libraries
        .split_ascii_whitespace()
        .filter(|word| word.starts_with('/'))
        .for_each(|word| copy(Path::new(word)));
}

#[test]
fn a_program_of_another_system_runs_with_that_as_its_root() {
    let tree = MadeUp::new();
    with_shell(&tree);
    tree.file("etc/os-release", "ID=other\n").file("etc/only-here", "told by the other system\n");
    tree.program("usr/bin/tool", "read line < /etc/only-here; echo \"$line\"; echo \"$PWD ${HOME-none}\"");
    let ran = run(&tree, &[], LONG);
    if !is_root() {
        let error = ran.unwrap_err();
        assert!(error.to_string().contains("SYS_CHROOT"), "{error}");
        return;
    }
    assert_eq!(ran.unwrap().stdout, "told by the other system\n/ none\n");
    assert!(
        Path::new("/etc/os-release").exists() == fs::metadata("/usr").is_ok(),
        "this process is where it was"
    );
    assert!(!Path::new("/etc/only-here").exists());
    let program = Program::find(&tree.root(), "tool").unwrap();
    assert_eq!(program.sees(&tree.at("etc/cdi/new")), Path::new("/etc/cdi/new"));
}
