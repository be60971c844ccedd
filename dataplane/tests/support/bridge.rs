//! Pods on a bridge, as the `bridge` CNI plugin wires them up.

use weft_lab::Lab;
use weft_lab::netns::Netns;

use super::node::Result;

/// Bridge `br0` of node n1.
pub(crate) struct Bridge {
    node: Netns,
    prefix: String,
}

impl Bridge {
    /// Makes it; with addresses the node can reach its pods.
    pub(crate) fn make(lab: &Lab, v4: Option<&str>, v6: Option<&str>) -> Result<Self> {
        let node = lab.node("n1")?.netns().clone();
        node.ip("link add br0 type bridge\nlink set br0 up\n")?;
        for address in [v4, v6].into_iter().flatten() {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            node.ip(&format!("addr add {address} dev br0{nodad}\n"))?;
        }
        Ok(Self {
            node,
            prefix: format!("{}-p-", lab.name()),
        })
    }

    /// A pod behind port `port-NAME` that says nothing of itself.
    pub(crate) fn add_pod(&self, name: &str, v4: &str, v6: &str) -> Result {
        let netns = Netns::create(format!("{}{name}", self.prefix))?;
        self.node.ip(&format!(
            "link add port-{name} type veth peer name eth0 netns {}\nlink set port-{name} master br0 up\n",
            netns.name()
        ))?;
        netns.ip(&format!(
            "addr add {v4}/24 dev eth0\naddr add {v6}/64 dev eth0 nodad\nlink set eth0 up\n"
        ))?;
        Ok(())
    }

    /// Removes a pod with its port.
    pub(crate) fn remove_pod(&self, name: &str) -> Result {
        self.node.ip(&format!("link del port-{name}\n"))?;
        Ok(Netns::existing(format!("{}{name}", self.prefix)).remove()?)
    }

    /// Empties neighbour table and forwarding database.
    pub(crate) fn forget_neighbours(&self) -> Result {
        self.node.ip("neigh flush dev br0\n")?;
        Ok(self.node.ip("link set br0 type bridge fdb_flush\n")?)
    }
}
