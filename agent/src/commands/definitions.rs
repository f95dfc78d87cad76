//! `gpulet completions` and `gpulet man`: made from the definitions of the command line.

use super::{CommandError, print};
use crate::cli;

/// Prints completions for `shell`.
pub(super) fn completions(shell: clap_complete::Shell) -> Result<(), CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::definitions(), "gpulet", &mut text);
    print(&text)
}

/// Prints the manual page: the program's own, then the options of each command.
pub(super) fn manual() -> Result<(), CommandError> {
    let mut definitions = cli::definitions();
    definitions.build();
    let mut text = Vec::new();
    clap_mangen::Man::new(definitions.clone()).render(&mut text).map_err(CommandError::Output)?;
    for command in definitions.get_subcommands().filter(|command| !command.is_hide_set()) {
        let page = clap_mangen::Man::new(command.clone());
        text.extend_from_slice(format!(".SH \"GPULET {}\"\n", command.get_name().to_uppercase()).as_bytes());
        page.render_description_section(&mut text).map_err(CommandError::Output)?;
        page.render_options_section(&mut text).map_err(CommandError::Output)?;
    }
    print(&text)
}
