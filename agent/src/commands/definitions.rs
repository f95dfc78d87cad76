//! `gpulet completions` and `gpulet man`: made from the definitions of the command line.

use std::collections::BTreeMap;
use std::io;

use clap::{ArgAction, Command};
use clap_mangen::Man;

use super::{CommandError, print};
use crate::cli;

/// What the definitions do not say.
const REST_OF_MANUAL: &str = include_str!("manual.roff");

/// Prints completions for `shell`.
pub(super) fn completions(shell: clap_complete::Shell) -> Result<(), CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::definitions(), "gpulet", &mut text);
    print(&text)
}

/// Prints the manual page: the program's own, with a subsection for each command.
pub(super) fn manual() -> Result<(), CommandError> {
    let mut definitions = cli::definitions();
    definitions.build();
    let mut text = Vec::new();
    page(&definitions, &mut text).map_err(CommandError::Output)?;
    print(&text)
}

fn page(definitions: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(definitions.clone());
    man.render_title(text)?;
    man.render_name_section(text)?;
    man.render_synopsis_section(text)?;
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    text.extend_from_slice(b".SH COMMANDS\n");
    for command in definitions.get_subcommands().filter(|command| !command.is_hide_set()) {
        text.extend_from_slice(subsection(command)?.as_bytes());
    }
    text.extend_from_slice(environment(definitions).as_bytes());
    text.extend_from_slice(REST_OF_MANUAL.as_bytes());
    man.render_version_section(text)
}

/// What a command does and takes; the flags that all take stand above.
fn subsection(command: &Command) -> io::Result<String> {
    let general = |argument: clap::Arg| {
        let hidden = argument.is_global_set() || matches!(argument.get_action(), ArgAction::Help);
        if hidden { argument.hide(true) } else { argument }
    };
    let man = Man::new(command.clone().mut_args(general));
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    sections.extend_from_slice(b".PP\n");
    man.render_description_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    if command.get_after_help().is_some() {
        sections.extend_from_slice(b".PP\n");
        man.render_extra_section(&mut sections)?;
    }
    let mut text = format!(".SS \"gpulet {}\"\n", command.get_name());
    // The heads are those of a page. The preamble that each piece begins with stands at the top of the page already.
    for line in String::from_utf8_lossy(&sections).lines() {
        if ![".SH", ".ie", ".el"].iter().any(|head| line.starts_with(head)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    Ok(text)
}

/// Which variable stands for which flag.
fn environment(definitions: &Command) -> String {
    let mut flags = BTreeMap::new();
    for command in std::iter::once(definitions).chain(definitions.get_subcommands()) {
        for argument in command.get_arguments() {
            let (Some(variable), Some(long)) = (argument.get_env(), argument.get_long()) else { continue };
            flags.insert(variable.to_string_lossy(), long);
        }
    }
    let mut text = ".SH ENVIRONMENT\n".to_owned();
    for (variable, long) in flags {
        let long = long.replace('-', "\\-");
        text.push_str(&format!(".TP\n\\fB{variable}\\fR\nAs \\fB\\-\\-{long}\\fR, which goes before it.\n"));
    }
    text
}
