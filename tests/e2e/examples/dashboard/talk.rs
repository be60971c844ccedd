//! Who asks whom, how often, and how that comes and goes.

use std::f64::consts::TAU;
use std::net::SocketAddr;
use std::time::Duration;

use weft_e2e::mesh::{TARGET, vips};
use weft_e2e::{Mesh, Result};
use weft_lab::{LoadOptions, Pod};

/// Numbers of the services' addresses.
pub(crate) const SHELF: u16 = 1;
pub(crate) const CART: u16 = 2;
pub(crate) const PAY: u16 = 3;
pub(crate) const LEDGER: u16 = 4;
pub(crate) const NAMES: u16 = 5;

/// So long at one rate.
const STRETCH: Duration = Duration::from_secs(4);

/// What is asked.
#[derive(Clone, Copy)]
enum Kind {
    Connect,
    Datagram,
    /// HTTP, of these paths, in the syntax of curl's globs.
    Request(&'static str),
    /// A connection that stays open.
    Hold,
}

/// One asks another, again and again.
pub(crate) struct Talk {
    from: Pod,
    to: SocketAddr,
    kind: Kind,
    /// A second, in the middle.
    rate: f64,
    /// Seconds from one rush to the next.
    period: f64,
}

impl Talk {
    /// Asks for a while, as often as one does at this time.
    pub(crate) fn once(&self, now: Duration) -> Result {
        let wave = (now.as_secs_f64() / self.period * TAU).sin();
        let rate = (self.rate * (1.0 + 0.6 * wave)).max(1.0) as u32;
        let load = LoadOptions {
            timeout: Duration::from_millis(300),
            ..LoadOptions::connects(rate, STRETCH)
        };
        match self.kind {
            Kind::Connect => {
                self.from.load(self.to, &load)?.finish()?;
            }
            Kind::Datagram => {
                let load = LoadOptions { udp: true, ..load };
                self.from.load(self.to, &load)?.finish()?;
            }
            Kind::Request(paths) => {
                let last = u64::from(rate) * STRETCH.as_secs();
                let url = format!("http://{}{paths}?[1-{last}]", self.to.ip());
                let curl = self.from.command("curl");
                let rate = format!("{rate}/s");
                curl.args(["-s", "-o", "/dev/null", "--rate", &rate, &url])
                    .run(STRETCH * 10)?;
            }
            Kind::Hold => {
                let open = (0..rate).map(|_| self.from.hold(self.to, false, STRETCH * 3));
                // One that a limit refuses is as it should be.
                let open: Vec<_> = open.filter_map(Result::ok).collect();
                for hold in open {
                    hold.finish()?;
                }
            }
        }
        Ok(())
    }
}

/// All that is said in the town.
pub(crate) fn all(mesh: &Mesh) -> Result<Vec<Talk>> {
    let ledger = mesh.pod("ledger")?.socket_v4(TARGET);
    let cart = mesh.pod("cart")?.socket_v4(TARGET);
    let [shelf, baskets, pay, books, names] =
        [SHELF, CART, PAY, LEDGER, NAMES].map(|index| vips(index)[0]);
    let talk = |from: &str, to, kind, rate, period| -> Result<Talk> {
        Ok(Talk {
            from: mesh.pod(from)?,
            to,
            kind,
            rate,
            period,
        })
    };
    [
        talk("web", baskets, Kind::Connect, 14.0, 150.0),
        talk("web", baskets, Kind::Hold, 8.0, 110.0),
        talk("web", names, Kind::Datagram, 6.0, 90.0),
        talk("web", shelf, Kind::Request("/books"), 11.0, 130.0),
        talk("web", shelf, Kind::Request("/nowhere"), 1.0, 60.0),
        talk("mobile", baskets, Kind::Connect, 8.0, 100.0),
        talk("mobile", shelf, Kind::Request("/books"), 6.0, 170.0),
        talk("mobile", shelf, Kind::Request("/slow"), 1.0, 60.0),
        talk("cart", pay, Kind::Connect, 7.0, 80.0),
        talk("cart", pay, Kind::Hold, 2.0, 140.0),
        talk("pay-1", books, Kind::Connect, 5.0, 120.0),
        talk("pay-2", books, Kind::Connect, 3.0, 70.0),
        talk("reports", ledger, Kind::Connect, 2.0, 90.0),
        talk("stranger", cart, Kind::Connect, 3.0, 140.0),
    ]
    .into_iter()
    .collect()
}
