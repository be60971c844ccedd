//! `weft ca`: what is done to the CA by hand.

use anyhow::{Result, bail};
use weft_control::ca;

use crate::args::{CaCommand, CaVerb, RotateArgs};
use crate::output;

/// Does it.
///
/// # Errors
/// When the CA is not one of ours, or not in order.
pub(crate) fn run(command: &CaCommand) -> Result<()> {
    match &command.verb {
        CaVerb::Rotate(args) => rotate(args),
    }
}

fn rotate(args: &RotateArgs) -> Result<()> {
    let dir = args.dir();
    // Opening would make one.
    if !dir.join("root.pem").exists() {
        bail!(
            "there is no CA in {}: give its folder with --ca-dir, and its --trust-domain",
            dir.display()
        );
    }
    let staged = ca::stage(&dir, &args.mesh.trust_domain)?;
    output::print(&format!(
        "next root: {}\nIt is in the trust bundle as soon as the control plane has seen it. After its --root-overlap certificates are issued below it,\n\
         and the old root is trusted until all that it vouched for has ended. Copy the file of --ca-bundle to the agents' machines before that.\n",
        staged.root
    ))?;
    Ok(())
}
