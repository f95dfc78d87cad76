//! The command line: what can be asked of the program.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::commands::Asked;
use crate::config::address::ListenAddress;
use crate::config::duration::Span;
use crate::config::kubelet_address::KubeletAddress;
use crate::config::level::{LogFormat, LogLevel};
use crate::config::node_name::NodeName;
use crate::config::publish::Publish;
use crate::config::{Overrides, Source};

/// One small privileged program per node that knows its GPUs, divides them as declared and reports on them.
#[derive(Debug, Parser)]
#[command(
    name = "gpulet",
    version = crate::build::version(),
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 done; 1 failed; 2 `plan`: there is something to change; 3 not possible on this hardware; \
                  4 not permitted or in use; 64 usage or configuration.\n\
                  Precedence of settings: flag, environment, configuration file, default."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Configuration file [default: /etc/gpulet/config.yaml, which may be absent]
    #[arg(long, global = true, value_name = "FILE", env = "GPULET_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Where the node's file system is: /sys, /proc, /dev and /run are looked up below it; or a bundle of `collect`
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "GPULET_HOST_ROOT",
        hide_env_values = true,
        default_value = "/"
    )]
    pub(crate) host_root: PathBuf,
    /// Directory of what is kept between runs, and of the control socket
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "GPULET_STATE_DIR",
        hide_env_values = true,
        default_value = "/var/lib/gpulet"
    )]
    pub(crate) state_dir: PathBuf,
    /// The driver's library, libnvidia-ml.so.1 [default: looked for where drivers put it]
    #[arg(long, global = true, value_name = "PATH", env = "GPULET_NVML_LIBRARY", hide_env_values = true)]
    pub(crate) nvml_library: Option<PathBuf>,
    /// Form of log messages [default: the journal under systemd, text on a terminal, else JSON]
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        env = "GPULET_LOG_FORMAT",
        hide_env_values = true
    )]
    pub(crate) log_format: Option<LogFormat>,
    /// Which messages are logged: off, error, warn, info, debug, trace, and PART=LEVEL after commas [default: info]
    #[arg(long, global = true, value_name = "LEVEL", env = "GPULET_LOG_LEVEL", hide_env_values = true)]
    pub(crate) log_level: Option<LogLevel>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon
    Run(Daemon),
    /// Print where GPUs and NICs sit, how near they are to each other, and what is wrong with that
    #[command(
        after_help = "With --host-root BUNDLE, a file that `gpulet collect` made, it prints that machine's."
    )]
    Topo {
        /// Form of the output
        #[arg(
            short,
            long,
            value_enum,
            value_name = "FORM",
            env = "GPULET_OUTPUT",
            hide_env_values = true,
            default_value_t
        )]
        output: TopologyForm,
        /// Keep the topology as the expected profile in FILE, for `topology.expected-profile`
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
        /// With `-o nrt`: print how each `available` came about, Pod by Pod, instead of the object
        #[arg(long)]
        why: bool,
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        kubelet: Kubelet,
    },
    /// Print which GPUs belong together best
    #[command(
        after_help = "LIST: GPUs with commas between them, by index (0,2-3), label, UUID or PCI address.\n\
                            Exit code 3: there is no such set."
    )]
    Best {
        /// How many GPUs
        #[arg(long, value_name = "N", value_parser = count)]
        gpus: usize,
        /// GPUs to choose from [default: all that answer]
        #[arg(long, value_name = "LIST")]
        free: Option<String>,
        /// GPUs that must be among them
        #[arg(long, value_name = "LIST")]
        must: Option<String>,
        /// Form of the output
        #[arg(
            short,
            long,
            value_enum,
            value_name = "FORM",
            env = "GPULET_OUTPUT",
            hide_env_values = true,
            default_value_t
        )]
        output: Form,
    },
    /// Print what would change to divide the GPUs as wanted; changes nothing
    #[command(
        after_help = "Exit codes: 0 nothing to do; 1 a GPU does not answer; 2 there is something to change; 3 it cannot be had \
                            on this hardware; 4 something in use is in the way; 64 what is asked is wrong."
    )]
    Plan {
        #[command(flatten)]
        asked: Division,
        /// Form of the output
        #[arg(
            short,
            long,
            value_enum,
            value_name = "FORM",
            env = "GPULET_OUTPUT",
            hide_env_values = true,
            default_value_t
        )]
        output: Form,
    },
    /// Divide the GPUs as wanted, once; finishes or takes back first what was cut off before
    #[command(
        after_help = "Exit codes: 0 all is as wanted; 1 failed; 3 it cannot be had on this hardware, and nothing was changed; \
                            4 something in use is in the way, or another gpulet divides the GPUs; 64 what is asked is wrong."
    )]
    Apply {
        #[command(flatten)]
        asked: Division,
    },
    /// Print how the GPUs are divided now, as a partition file with one layout, `current`
    Export,
    /// Collect everything that gpulet reads of this machine in one file, for people who cannot log on to it
    #[command(
        after_help = "Hardware addresses, GUIDs, serial numbers and host names are replaced by stand-ins.\n\
                            `gpulet --host-root FILE topo`, `best` and `metrics` show what they would have shown here."
    )]
    Collect {
        /// Where to put it: a compressed tar archive
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print one scrape of the node and exit
    #[command(after_help = "This reads the driver itself; it does not ask the running daemon.")]
    Metrics {
        /// Add, as comments, every series that is missing: the call to the driver and what it answered
        #[arg(long)]
        explain: bool,
    },
    /// Ask the running daemon to let go of the driver, for a reset, an upgrade or an unbind
    Quiesce {
        /// How long calls to the driver that are under way may take
        #[arg(
            long,
            value_name = "DURATION",
            env = "GPULET_DEADLINE",
            hide_env_values = true,
            default_value = "10s"
        )]
        deadline: Span,
    },
    /// Ask the running daemon to take the driver up again
    Resume,
    /// Make a simulated node and run the daemon on it, without GPU and without root
    #[cfg(feature = "simulator")]
    #[command(after_help = shipped())]
    Simulate {
        /// Name of a shipped node, such as dgx-h100, or path of a description
        #[arg(value_name = "NODE")]
        node: String,
        #[command(flatten)]
        daemon: Daemon,
    },
    /// Hold the state of a simulated node; started by `simulate`
    #[cfg(feature = "simulator")]
    #[command(hide = true)]
    SimulateNode {
        /// Name or path, as above
        node: String,
        /// The node's directory
        directory: PathBuf,
        /// Process with which to end
        parent: i32,
    },
    /// Print shell completions
    Completions {
        /// For which shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

/// How the GPUs are to be divided.
#[derive(Debug, Clone, Args)]
pub(crate) struct Division {
    /// The partition file; - is standard input [default: partition.file of the configuration, /etc/gpulet/partition.yaml,
    /// or layouts made from what the GPUs report]
    #[arg(short, long, value_name = "FILE", env = "GPULET_FILE", hide_env_values = true)]
    pub(crate) file: Option<PathBuf>,
    /// Name of the layout [default: what the configuration declares, or with --file the only one in it]
    #[arg(long, value_name = "NAME", env = "GPULET_MIG_CONFIG", hide_env_values = true)]
    pub(crate) mig_config: Option<String>,
}

/// In which form a topology is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TopologyForm {
    /// The matrix that people know from nvidia-smi, and what is wrong
    #[default]
    Table,
    /// Everything, for programs
    Json,
    /// For Graphviz
    Dot,
    /// A picture
    Svg,
    /// The NodeResourceTopology object as YAML
    Nrt,
}

/// In which form an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Form {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Flags of the daemon.
#[derive(Debug, Clone, Args)]
pub(crate) struct Daemon {
    /// Where to serve metrics: :PORT, IP:PORT or [IPv6]:PORT; port 0 is any free one [default: :9410]
    #[arg(long, value_name = "ADDRESS", env = "GPULET_LISTEN", hide_env_values = true)]
    pub(crate) listen: Option<ListenAddress>,
    #[command(flatten)]
    pub(crate) name: Name,
    /// How to reach the API server [default: the Pod's service account, else what the kubelet of this node has]
    #[arg(long, value_name = "FILE", env = "GPULET_KUBECONFIG", hide_env_values = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Where the NodeResourceTopology object goes [default: auto]
    #[arg(long, value_enum, value_name = "WHERE", env = "GPULET_PUBLISH", hide_env_values = true)]
    pub(crate) publish: Option<Publish>,
    /// Take the NodeResourceTopology object over from another publisher
    #[arg(
        long,
        value_name = "BOOL",
        env = "GPULET_TAKE_OVER",
        hide_env_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) take_over: Option<bool>,
    #[command(flatten)]
    pub(crate) kubelet: Kubelet,
}

/// What this node is called.
#[derive(Debug, Clone, Args)]
pub(crate) struct Name {
    /// Name of this node [default: the host name]
    #[arg(long, value_name = "NAME", env = "GPULET_NODE_NAME", hide_env_values = true)]
    pub(crate) node_name: Option<NodeName>,
}

/// Where the kubelet is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Kubelet {
    /// The kubelet's root directory, below the host's root [default: /var/lib/kubelet]
    #[arg(long, value_name = "DIR", env = "GPULET_KUBELET_ROOT", hide_env_values = true)]
    pub(crate) kubelet_root: Option<PathBuf>,
    /// The kubelet's PodResources socket, below the host's root [default: pod-resources/kubelet.sock in its root]
    #[arg(long, value_name = "PATH", env = "GPULET_KUBELET_SOCKET", hide_env_values = true)]
    pub(crate) kubelet_socket: Option<PathBuf>,
    /// Where the kubelet answers by HTTPS: IP or IP:PORT [default: 127.0.0.1:10250]
    #[arg(long, value_name = "ADDRESS", env = "GPULET_KUBELET_ADDRESS", hide_env_values = true)]
    pub(crate) kubelet_address: Option<KubeletAddress>,
}

impl Global {
    /// Where the settings come from for a command that takes the global flags only.
    pub(crate) fn source(&self) -> Source {
        Source::new(self.config.clone(), self.overrides())
    }

    /// What the global flags say instead of the file.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides { log_level: self.log_level.clone(), log_format: self.log_format, ..Overrides::default() }
    }
}

impl Daemon {
    /// What all flags say instead of the file.
    pub(crate) fn overrides(&self, global: &Global) -> Overrides {
        Overrides {
            listen: self.listen,
            node_name: self.name.node_name.clone(),
            kubeconfig: self.kubeconfig.clone(),
            publish: self.publish,
            take_over: self.take_over,
            ..self.kubelet.overrides(global)
        }
    }
}

impl Division {
    /// What is asked for.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { file: self.file.as_deref(), name: self.mig_config.as_deref() }
    }
}

impl Kubelet {
    /// What these and the global flags say instead of the file.
    pub(crate) fn overrides(&self, global: &Global) -> Overrides {
        Overrides {
            kubelet_root: self.kubelet_root.clone(),
            kubelet_socket: self.kubelet_socket.clone(),
            kubelet_address: self.kubelet_address,
            ..global.overrides()
        }
    }
}

/// A number of GPUs. That none is too few is said where sets are looked for.
fn count(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "expected a whole number of GPUs")
}

/// The names of the nodes that come with the program.
#[cfg(feature = "simulator")]
fn shipped() -> String {
    let mut text = "Shipped nodes:".to_owned();
    for name in gpulet_simulator::node::shipped() {
        text.push_str("\n  ");
        text.push_str(name);
    }
    text
}

/// The definitions, for completions and the manual page.
pub(crate) fn definitions() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        definitions().debug_assert();
    }

    /// Flags that make one call choose or write something: a variable that is left over from elsewhere must not.
    const OF_ONE_CALL: [&str; 6] = ["explain", "save", "gpus", "free", "must", "why"];

    #[test]
    fn every_flag_but_those_of_one_call_has_its_environment_variable() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                let Some(long) = argument.get_long().filter(|long| !["help", "version"].contains(long))
                else {
                    continue;
                };
                let variable = format!("GPULET_{}", long.to_uppercase().replace('-', "_"));
                let expected = (!OF_ONE_CALL.contains(&long)).then_some(variable.as_str());
                assert_eq!(argument.get_env().and_then(|env| env.to_str()), expected, "--{long}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&definitions());
    }

    #[test]
    fn global_flags_stand_before_and_after_the_command() {
        for arguments in [["gpulet", "--host-root", "/x", "run"], ["gpulet", "run", "--host-root", "/x"]] {
            let cli = Cli::try_parse_from(arguments).unwrap();
            assert_eq!(cli.global.host_root, PathBuf::from("/x"));
        }
    }
}
