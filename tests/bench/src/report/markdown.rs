//! The page around the tables.

use std::fmt::Write;

use super::tables;
use crate::results::Results;

const METHOD: &str = "\
## How it is measured

Every peer has a site of its own in one lab of network namespaces: a node with a
client pod and a server pod, and a second node with a server pod. All sites live at
the same time and have the same addresses, services and endpoints. The same small
load generator, written for this, drives them in short turns; each
round begins with another peer. A ratio compares two turns of the same round: their rates or,
where one request at a time is in flight, the inverse of their median times, so that
more is always better. Tables give its median and extremes over all rounds, plots
its median and quartiles.

- **No mesh**: the client knows the pod addresses and picks one at random; there is
  no conntrack and no packet filter on its path.
- **kube-proxy** is the real one, with its defaults, fed by a real kube-apiserver and
  etcd (in memory). It runs on both nodes, as Weft's
  agents do.
- **New connections**: eight threads connect, send 64 bytes, get 64 bytes, and close by
  RST (`SO_LINGER` 0), so that TIME_WAIT does not use up ports. Each connection picks one
  of 62 source addresses, lets the kernel pick the port, and picks one of all services
  at random. Every endpoint of every service really answers: the server pods own whole
  prefixes. Half of the endpoints are on the client's node, half on the other.
- **Requests**: 64 bytes there and 64 bytes back over connections that are open before
  the clock starts: one connection, or sixteen with a thread each. Both ends of a
  connection stay on one core, because whether a wake-up crosses cores is luck and costs
  more than everything that is compared.
- **Full sync**: from the start of the process on a node without services (Weft: of the
  agent, the control plane having read the manifests before; kube-proxy: of kube-proxy)
  to the first connection through the last service. *Ready* is what `weft status --wait`
  says. RSS and CPU time are of that process and the children it has waited for; memory
  that the kernel holds for rules or maps is not in them.
- **A change**: the one endpoint of one more service moves to another address. The clock
  starts before the write at the source (kube-proxy: PUT to the API server, Weft: the file
  in the manifest folder is replaced) and ends when a connection has been established
  to the new address; the client tries every half millisecond. Changes are 1.2 s apart for
  kube-proxy, so that its rate limit (`minSyncPeriod`, 1 s) never delays one, and the
  other peers' proxies are stopped meanwhile. *In agent* is Weft's own
  `weft_sync_apply_seconds`: from an update's arrival to its being in the maps, as upper
  bounds of histogram buckets.
- **Pods under policies**: other sites, with an agent on both nodes, and pod addresses
  instead of services. Every policy is a NetworkPolicy for both directions, and names the
  client, the servers and a peer of its own; the 118 further pods of a site are idle.

Nothing here passes or fails by time: it only measures.
";

/// The whole page; `plots` are (title, file name).
pub(super) fn page(results: &Results, plots: &[(String, String)]) -> String {
    let mut page = String::from("# Benchmarks\n\nMade by\n\n");
    // Writing to a String cannot fail.
    let _ = writeln!(page, "    {}\n", results.command);
    let _ = writeln!(page, "on {}, on a machine with\n", results.date);
    for fact in &results.machine {
        let _ = writeln!(page, "- {fact}");
    }
    let _ = writeln!(
        page,
        "\n`make bench` makes it anew; the numbers are in `results.json`."
    );
    for (title, file) in plots {
        let _ = writeln!(page, "\n![{title}]({file})");
    }
    for table in tables::all(results) {
        let _ = writeln!(page, "\n## {}\n\n{}", table.title, table.markdown());
    }
    page + "\n" + METHOD
}
