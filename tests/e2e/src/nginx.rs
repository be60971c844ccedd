//! nginx with files to fetch and a folder to put some into.

use std::fs;
use std::path::Path;

use weft_lab::{Launch, Pod};

use crate::Result;

/// Of the files that are served, bytes: within a segment, within the bound of acceleration, past it.
pub const SIZES: [usize; 4] = [1, 900, 100_000, 5_000_000];

/// nginx in a pod, with files of [`SIZES`] called `fSIZE` in `folder` and a folder `upload` for more. It writes with `writev()`, and with
/// `sendfile()` under /sendfile. `listen` are words for its directive of that name.
///
/// # Errors
/// When a file cannot be written.
pub fn command(pod: &Pod, folder: &Path, port: u16, listen: &str) -> Result<Launch> {
    for size in SIZES {
        fs::write(folder.join(format!("f{size}")), content(size))?;
    }
    let path = folder.join("nginx.conf");
    let folder = folder.display();
    let config = format!(
        "user root; worker_processes 1; daemon off; pid {folder}/pid; error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_max_body_size 0; keepalive_requests 1000000; default_type text/plain;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen {port} {listen}; listen [::]:{port} {listen}; root {folder};
    location /sendfile/ {{ alias {folder}/; sendfile on; tcp_nopush on; }}
    location /upload/ {{ dav_methods PUT; create_full_put_path on; }}
  }}
}}\n"
    );
    fs::write(&path, config)?;
    Ok(pod
        .command("nginx")
        .arg("-c")
        .arg(&path)
        .args(["-e", "stderr"]))
}

/// Bytes that differ from place to place, and are the same each time.
#[must_use]
pub fn content(size: usize) -> Vec<u8> {
    let mut state = size as u32 | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}
